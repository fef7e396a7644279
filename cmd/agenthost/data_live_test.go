package main

// Scenario: commands use, back up and verify the data of a host that serves.

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/internal/testcode"
)

// A host serves on while other commands use its threads, back its data up and check
// it, and another host continues with the backup.
func TestDataOfARunningHost(t *testing.T) {
	dir, err := os.MkdirTemp("", "d") // short: there is to be a socket in it
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	writeText(t, dir, "agenthost.yaml", "version: 1\nagents: {clerk: {}}\nmodels: {m: {provider: scripted, rules: rules.yaml}}\n")
	writeText(t, dir, "rules.yaml", "rules:\n  - match: {user: one}\n    reply: {text: it is the first}\n  - match: {user: two}\n    reply: {text: it is the second}\n")
	writeText(t, dir, "data.key", strings.Repeat("5a", 32)+"\n")
	data, cache := filepath.Join(dir, "data"), testcode.Project(t)
	getenv := variables(map[string]string{"AGENTHOST_CACHE": cache, "AGENTHOST_DATA_KEY_FILE": filepath.Join(dir, "data.key")})
	stdin, typed := io.Pipe()
	out := &screen{t: t, wrote: make(chan struct{}, 1)}
	done := make(chan int, 1)
	go func() {
		env := &environment{stdinTerminal: true, stdin: stdin, stdout: out, stderr: out, getenv: getenv}
		done <- run(context.Background(), []string{"dev", dir, "--data", data, "--thread", "t1"}, env)
	}()
	say := func(text, want string) {
		t.Helper()
		if _, err := io.WriteString(typed, text+"\n"); err != nil {
			t.Fatal(err)
		}
		out.waitFor(want)
	}
	other := func(code int, want string, args ...string) {
		t.Helper()
		wantExit(t, getenv, code, want, args...)
	}
	file, copied := filepath.Join(dir, "b"), filepath.Join(dir, "copy")

	out.waitFor("> ")
	say("one", "it is the first")
	out.waitFor("> ") // the turn is stored
	other(0, "encrypted.\n", "data", "backup", file, "--data", data)
	say("two", "it is the second") // after the backup
	out.waitFor("> ")
	other(0, "1 thread of 1 tenant: 4 messages, 2 turns", "data", "verify", "--data", data)
	other(0, `"damaged":[]`, "data", "verify", "--data", data, "--json")
	other(0, "4 messages", "thread", "show", "t1", "--data", data)
	other(0, "it is the second", "run", dir, "two", "--data", data, "--thread", "t1")
	say("one", "it is the first")
	out.waitFor("> ")
	other(0, "8 messages", "thread", "show", "t1", "--data", data)
	writeText(t, dir, "chat.jsonl", "{\"role\":\"user\",\"content\":\"hi\"}\n")
	other(0, "Imported thread t2", "thread", "import", filepath.Join(dir, "chat.jsonl"), "--thread", "t2", "--data", data)
	other(0, "", "queue", "dead", "--data", data)
	other(3, "write", "data", "backup", filepath.Join(dir, "nowhere", "b"), "--data", data)
	other(3, "one process owns", "dev", dir, "--data", data)
	say("/quit", "")
	if code := <-done; code != 0 {
		t.Errorf("dev ends with exit code %d", code)
	}

	if _, err := os.Lstat(datadir.SocketPath(data)); !os.IsNotExist(err) {
		t.Errorf("the socket is left behind: %v", err)
	}
	other(0, "is whole", "data", "verify", "--backup", file)
	other(0, "Restored", "data", "restore", file, "--data", copied, "--key-file", datadir.KeyFilePath(data))
	other(0, "2 messages, 1 turn", "data", "verify", "--data", copied)
	other(0, "it is the second", "run", dir, "two", "--data", copied, "--thread", "t1")
	other(0, "4 messages", "thread", "show", "t1", "--data", copied)
}

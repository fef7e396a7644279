package main

// Scenario: a command that opens a directory ends the deletion that another one began.

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/internal/testcode"
)

// interruptErasure leaves a deletion of a tenant begun, as a killed process does.
func interruptErasure(t *testing.T, data, tenant string) {
	t.Helper()
	db, err := badgerkv.Open(datadir.StorePath(data), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.BeginErase(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestRunEndsADeletionThatWasInterrupted(t *testing.T) {
	dir, exits := dataProject(t, "")
	data := filepath.Join(dir, "data")
	exits(0, "zebrafinch", "run", dir, "--data", data, "--thread", "t1", "--tenant", "acme", "the secret")
	interruptErasure(t, data, "acme")
	exits(0, "Ending the deletion of 1 tenant that was interrupted.", "run", dir, "--data", data, "--thread", "t2", "--tenant", "globex", "hello")
	exits(0, "Nothing of it is left.", "data", "prove", "acme", "--data", data)
	if files := filesWith(t, data, "zebrafinch"); len(files) != 0 {
		t.Errorf("%q show an answer of the deleted tenant", files)
	}
}

func TestDevEndsADeletionThatWasInterrupted(t *testing.T) {
	dir, exits := dataProject(t, "")
	data := filepath.Join(dir, "data")
	exits(0, "zebrafinch", "run", dir, "--data", data, "--thread", "t1", "--tenant", "acme", "the secret")
	interruptErasure(t, data, "acme")
	stdin, typed := io.Pipe()
	out := &screen{t: t, wrote: make(chan struct{}, 1)}
	done := make(chan int, 1)
	cache := testcode.Project(t)
	go func() {
		env := &environment{stdinTerminal: true, stdin: stdin, stdout: out, stderr: out, getenv: variables(map[string]string{"AGENTHOST_CACHE": cache})}
		done <- run(context.Background(), []string{"dev", dir, "--data", data, "--thread", "t1", "--tenant", "globex"}, env)
	}()
	out.waitFor("> ")
	for gone := false; !gone; { // each look reads every file; exit code 3 says that something is left
		var b output
		env := &environment{stdin: strings.NewReader(""), stdout: &b, stderr: &b, getenv: func(string) string { return "" }}
		code := run(t.Context(), []string{"data", "prove", "acme", "--data", data, "--json"}, env)
		if gone = code == 0; code != 0 && code != 3 {
			t.Fatalf("data prove: exit code %d and\n%s", code, b.String())
		}
	}
	_ = typed.Close()
	if code := <-done; code != 0 {
		t.Errorf("dev ended with exit code %d", code)
	}
	if files := filesWith(t, data, "zebrafinch"); len(files) != 0 {
		t.Errorf("%q show an answer of the deleted tenant", files)
	}
}

package main

// Scenario: clients of a running host continue its sessions, and see nothing that the configuration hides.

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/internal/testcode"
)

// Clients of a running host continue sessions and branch from snapshots, and
// see nothing of what the configuration hides.
func TestChat(t *testing.T) {
	dir, err := os.MkdirTemp("", "d") // short: there is to be a socket in it
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	writeText(t, dir, "agenthost.yaml", `version: 1
agents: {clerk: {}}
networks:
  desk:
    agents: [clerk]
    router: in_order
    state: {internalNotes: angry, case: 7}
    client: {hide: [/custom/internalNotes]}
models: {m: {provider: scripted, rules: rules.yaml}}
`)
	writeText(t, dir, "rules.yaml", "rules:\n  - match: {user: one}\n    reply: {text: it is the first}\n  - match: {user: two}\n    reply: {text: it is the second}\n"+
		"  - match: {user: three}\n    reply: {text: it is \u202ethe third}\n")
	data, cache := filepath.Join(dir, "data"), testcode.Project(t)
	getenv := variables(map[string]string{"AGENTHOST_CACHE": cache})
	stdin, typed := io.Pipe()
	out := &screen{t: t, wrote: make(chan struct{}, 1)}
	done := make(chan int, 1)
	go func() {
		env := &environment{stdinTerminal: true, stdin: stdin, stdout: out, stderr: out, getenv: getenv}
		done <- run(context.Background(), []string{"dev", dir, "--data", data}, env)
	}()
	chat := func(code int, want string, args ...string) string {
		t.Helper()
		var b output
		args = append([]string{"chat", "--data", data}, args...)
		got := run(t.Context(), args, &environment{stdin: strings.NewReader("one, from stdin"), stdout: &b, stderr: &b, getenv: getenv})
		if got != code || !strings.Contains(b.String(), want) {
			t.Fatalf("agenthost %s: exit code %d and\n%s\nwant %d and %q", strings.Join(args, " "), got, b.String(), code, want)
		}
		if strings.Contains(b.String(), "angry") {
			t.Errorf("agenthost %s shows what is hidden:\n%s", strings.Join(args, " "), b.String())
		}
		return b.String()
	}
	out.waitFor("> ")
	first := chat(0, "it is the first\n(session s1; snapshot ", "--session", "s1", "one")
	snapshot := regexp.MustCompile(`snapshot (.*)\)`).FindStringSubmatch(first)[1]
	chat(0, "it is the second\n(session s1;", "--session", "s1", "two")
	events := chat(0, `"type":"turn.ended"`, "--snapshot", snapshot, "two", "--json")
	if !strings.Contains(events, `{"case":7}`) || !strings.Contains(events, `"parent":"`+snapshot+`"`) {
		t.Errorf("the branch's events are\n%s", events)
	}
	var last struct{ Time time.Time }
	times := map[time.Time]bool{}
	for line := range strings.Lines(events) {
		if err := json.Unmarshal([]byte(line), &last); err != nil || last.Time.IsZero() {
			t.Fatalf("an event without a time: %s", line)
		}
		times[last.Time] = true
	}
	if len(times) < 2 {
		t.Errorf("all events have one time: %v", times)
	}
	chat(0, "there is nothing to try again", "--session", "s1", "")
	chat(0, `"status":"completed"`, "--session", "s1", "", "--json")
	chat(0, "there is nothing to try again", "--snapshot", snapshot, "")
	chat(3, "not UTF-8", "--session", "s1", "caf\xe9")
	chat(2, `→ say it in quotes: agenthost chat "one and two"`, "one", "and", "two")
	chat(0, "it is the first", "-")
	chat(0, "it is the first", "--target", "clerk", "one")
	chat(0, "it is  the third\n", "--target", "clerk", "three") // and turns nothing around
	chat(3, "is one of agent", "--target", "clerk", "--session", "s1", "one")
	chat(4, "no snapshot", "--snapshot", "r9:s1", "one")
	chat(4, "no network or agent", "--target", "dsk", "one")
	chat(3, "does not belong to session", "--snapshot", snapshot, "--session", "s2", "one")
	chat(3, "say something", "")
	chat(4, "no snapshot", "--snapshot", snapshot, "--tenant", "eve", "one")

	if _, err := io.WriteString(typed, "\n/quit\n"); err != nil {
		t.Fatal(err)
	}
	if code := <-done; code != 0 {
		t.Errorf("dev ends with exit code %d", code)
	}
	chat(3, "no host is running", "one")
	wantExit(t, getenv, 0, "angry", "thread", "show", "s1", "--data", data, "--json") // the whole state
}

func TestWhatCannotBeHidden(t *testing.T) {
	dir := t.TempDir()
	for where, config := range map[string]string{
		"networks.desk.client": "networks: {desk: {agents: [clerk], router: in_order, client: {hide: [/messages]}}}\nagents: {clerk: {}}\n",
		"agents.clerk.client":  "agents: {clerk: {client: {hide: [custom]}}}\n",
	} {
		writeText(t, dir, "agenthost.yaml", "version: 1\nmodels: {m: {provider: scripted}}\n"+config)
		t.Log(where)
		wantExit(t, variables(map[string]string{"AGENTHOST_CACHE": dir}), 3, "nothing that clients see", "run", dir, "hi")
	}
}

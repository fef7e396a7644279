package main

// Scenario: a person follows the runs of a directory in one terminal while they run in
// another.

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
)

func TestTraceShowFollowsRunsWhileTheyRun(t *testing.T) {
	dir := t.TempDir()
	writeText(t, dir, "agenthost.yaml", "version: 1\nagents: {clerk: {}}\nmodels: {m: {provider: scripted, rules: rules.yaml}}\n")
	writeText(t, dir, "rules.yaml", "rules:\n  - match: {user: one}\n    reply: {text: it is the first}\n  - match: {user: two}\n    reply: {text: it is the second}\n")
	data := filepath.Join(dir, "data")
	getenv := variables(map[string]string{"AGENTHOST_CACHE": filepath.Join(dir, "cache")})
	say := func(text string) {
		t.Helper()
		wantExit(t, getenv, 0, "", "run", dir, "--data", data, text)
	}
	say("one")
	ctx, stop := context.WithCancel(t.Context())
	out := &screen{t: t, wrote: make(chan struct{}, 1)}
	done := make(chan int, 1)
	go func() {
		env := &environment{stdin: strings.NewReader(""), stdout: out, stderr: out, getenv: getenv}
		done <- run(ctx, []string{"trace", "show", "-f", "--data", data}, env)
	}()
	out.waitFor("INSTRUCTIONS  run ")
	out.waitFor(`"it is the first"`)
	out.waitFor("clerk, tenant default, thread") // the sums, at the end
	say("two")
	out.waitFor("INSTRUCTIONS  run ")
	out.waitFor(`"it is the second"`)
	out.waitFor(": stop, ")
	stop()
	if code := <-done; code != host.Canceled.ExitCode() {
		t.Errorf("the command ends with exit code %d, want %d", code, host.Canceled.ExitCode())
	}
}

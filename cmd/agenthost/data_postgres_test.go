package main

// Scenario: commands of one project after another, as on several machines, keep all data
// in PostgreSQL.

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/internal/pgkvtest"
	"github.com/agenthost/agenthost/internal/testcode"
	"github.com/agenthost/agenthost/internal/testguest"
)

// postgresProject writes a project, and returns the address of a database of the test's
// own and how to run a command on the project in another process's place, with
// AGENTHOST_DATA set.
func postgresProject(t *testing.T, config string) (projectName, address string, agenthost func(want int, data string, args ...string) string) {
	t.Helper()
	address = pgkvtest.URL(t)
	dir, cache := testcode.Project(t), t.TempDir()
	write := func(name string, content []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(project.FileName, []byte("version: 1\n"+config))
	write("guest.wasm", testguest.Modules()["open"])
	write("rules.yaml", []byte("rules:\n  - match: {after: \"*\"}\n    reply: {text: done}\n  - reply: {calls: [{name: t}]}\n"))
	return dir, address, func(want int, data string, args ...string) string {
		t.Helper()
		var stdout, stderr output
		env := &environment{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, getenv: variables(map[string]string{"AGENTHOST_DATA": data, "OTHER": address, "AGENTHOST_CACHE": cache})}
		if code := run(t.Context(), args, env); code != want {
			t.Fatalf("agenthost %q exits %d, not %d: %s", args, code, want, &stderr)
		}
		return stdout.String() + stderr.String()
	}
}

// A conversation continues in another process: it is in the database whose address a flag,
// a variable that the flag names, or AGENTHOST_DATA gives.
func TestConversationsAreKeptInPostgreSQL(t *testing.T) {
	projectName, address, agenthost := postgresProject(t, "agents: {clerk: {}}\n")
	thread := host.NewID()
	for i, out := range []string{
		agenthost(cli.ExitOK, address, "run", projectName, "--thread", thread, "--json", "one"),
		agenthost(cli.ExitOK, "", "run", projectName, "--thread", thread, "--json", "two", "--data", address),
		agenthost(cli.ExitOK, "postgres://nobody@127.0.0.1:1/x", "run", projectName, "--thread", thread, "--json", "three", "--data", "env:OTHER"),
	} {
		want := []string{`"messages":1}`, `"messages":3}`, `"messages":5}`}[i]
		if !strings.Contains(out, want) {
			t.Errorf("turn %d does not show the model %s", i+1, want)
		}
	}
	if out := agenthost(cli.ExitOK, address, "thread", "list"); !strings.Contains(out, thread) {
		t.Errorf("thread list shows\n%s", out)
	}
	if out := agenthost(cli.ExitOK, address, "data", "verify"); !strings.Contains(out, "Read 1 thread of 1 tenant: 6 messages, 3 turns") {
		t.Errorf("data verify says\n%s", out)
	}
	if out := agenthost(cli.ExitOK, address, "doctor"); !strings.Contains(out, "reads and writes are possible") {
		t.Errorf("doctor says\n%s", out)
	}
}

// A run that asks a person, and its thread, are in the database; another process continues them.
func TestARunThatAsksGoesOnOverPostgreSQL(t *testing.T) {
	projectName, address, agenthost := postgresProject(t, "agents: {clerk: {tools: [guest]}}\nplugins: {guest: {path: guest.wasm}}\n"+
		"approve: [{tool: t}]\nmodels: {m: {provider: scripted, rules: rules.yaml}}\n")
	agenthost(cli.ExitWaiting, address, "run", projectName, "--thread", host.NewID(), "refund it")
	var runs struct{ Items []struct{ Run string } }
	if err := json.Unmarshal([]byte(agenthost(cli.ExitOK, address, "thread", "runs", "--json")), &runs); err != nil || len(runs.Items) != 1 {
		t.Fatalf("thread runs: %+v, %v", runs, err)
	}
	if out := agenthost(cli.ExitOK, address, "run", projectName, "--resume", runs.Items[0].Run, "--approve", "t"); !strings.Contains(out, "done") {
		t.Errorf("the run goes on with\n%s", out)
	}
}

// Commands on the files of a directory say what to use for a database instead.
func TestCommandsOnFilesNameWhatADatabaseHas(t *testing.T) {
	_, address, agenthost := postgresProject(t, "agents: {clerk: {}}\n")
	code := host.Unimplemented.ExitCode()
	for want, args := range map[string][]string{
		"pg_dump --format=custom --file=monday": {"data", "backup", "monday"},
		"agenthost data copy DIR env:OTHER":     {"data", "restore", "monday"},
		"vacuum":                                {"data", "purge"},
	} {
		if out := agenthost(code, "", append(args, "--data", "env:OTHER")...); !strings.Contains(out, want) || strings.Contains(out, address) {
			t.Errorf("agenthost %q says %q; want %q in it", args, out, want)
		}
	}
}

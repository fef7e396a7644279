package main

// Scenario: commands of one project after another keep a conversation in PostgreSQL, and
// one of them answers a run's question.

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/internal/testguest"
)

// postgresProject writes a project whose conversations are kept in the tests'
// database, and returns how to run a command on it in another process's place.
func postgresProject(t *testing.T, config string) (projectName string, agenthost func(database string, args ...string) string) {
	t.Helper()
	if os.Getenv("AGENTHOST_TEST_POSTGRES") == "" {
		t.Skip("set AGENTHOST_TEST_POSTGRES to the address of a PostgreSQL server that may be written to, as .ci/postgres start prints it")
	}
	dir, cache := t.TempDir(), t.TempDir()
	write := func(name string, content []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(project.FileName, []byte("version: 1\n"+config))
	write("guest.wasm", testguest.Modules()["open"])
	write("rules.yaml", []byte("rules:\n  - match: {after: \"*\"}\n    reply: {text: done}\n  - reply: {calls: [{name: t}]}\n"))
	return dir, func(database string, args ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		env := &environment{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, getenv: func(name string) string {
			return map[string]string{"AGENTHOST_DATA": database, "AGENTHOST_CACHE": cache}[name]
		}}
		if code := run(t.Context(), args, env); code != cli.ExitOK {
			t.Fatalf("agenthost %q exits %d: %s", args, code, &stderr)
		}
		return stdout.String()
	}
}

// A conversation goes on in another process, without a data directory: it is in
// the database that a flag or the configuration's variable names.
func TestConversationsAreKeptInPostgreSQL(t *testing.T) {
	projectName, agenthost := postgresProject(t, "agents: {clerk: {}}\n")
	dsn, thread := os.Getenv("AGENTHOST_TEST_POSTGRES"), host.NewID()
	for i, out := range []string{
		agenthost(dsn, "run", projectName, "--thread", thread, "--json", "one"),
		agenthost("", "run", projectName, "--thread", thread, "--json", "two", "--history", dsn),
		agenthost("postgres://nobody@127.0.0.1:1/x", "run", projectName, "--thread", thread, "--json", "three", "--history", dsn),
	} {
		want := []string{`"messages":1}`, `"messages":3}`, `"messages":5}`}[i]
		if !strings.Contains(out, want) {
			t.Errorf("turn %d does not show the model %s", i+1, want)
		}
	}
}

// A run that asks a person is in the data directory, its thread in the database;
// another process has both and goes on.
func TestARunThatAsksGoesOnOverPostgreSQL(t *testing.T) {
	projectName, agenthost := postgresProject(t, "agents: {clerk: {tools: [guest]}}\nplugins: {guest: {path: guest.wasm}}\n"+
		"approve: [{tool: t}]\nmodels: {m: {provider: scripted, rules: rules.yaml}}\n")
	dsn, data := os.Getenv("AGENTHOST_TEST_POSTGRES"), filepath.Join(t.TempDir(), "data")
	agenthost(dsn, "run", projectName, "--data", data, "--thread", host.NewID(), "refund it")
	var runs struct{ Items []struct{ Run string } }
	if err := json.Unmarshal([]byte(agenthost(dsn, "thread", "runs", "--data", data, "--json")), &runs); err != nil || len(runs.Items) != 1 {
		t.Fatalf("thread runs: %+v, %v", runs, err)
	}
	if out := agenthost(dsn, "run", projectName, "--data", data, "--resume", runs.Items[0].Run, "--approve", "t"); !strings.Contains(out, "clerk: done") {
		t.Errorf("the run goes on with\n%s", out)
	}
}

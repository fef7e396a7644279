package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
)

// A conversation goes on in another process, without a data directory: it is in
// the database that a flag or the configuration's variable names.
func TestConversationsAreKeptInPostgreSQL(t *testing.T) {
	dsn := os.Getenv("AGENTHOST_TEST_POSTGRES")
	if dsn == "" {
		t.Skip("set AGENTHOST_TEST_POSTGRES to the address of a PostgreSQL server that may be written to, as .ci/postgres start prints it")
	}
	project := t.TempDir() + "/agenthost.yaml"
	const config = "version: 1\nagents: {clerk: {}}\nhistory: {address_env: DATABASE}\n"
	if err := os.WriteFile(project, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	thread := host.NewID()
	turn := func(text, database string, flags ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		env := &environment{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, getenv: func(name string) string {
			return map[string]string{"DATABASE": database, "AGENTHOST_CACHE": t.TempDir()}[name]
		}}
		args := append([]string{"run", project, "--thread", thread, "--json", text}, flags...)
		if code := run(t.Context(), args, env); code != exitOK {
			t.Fatalf("agenthost %q exits %d: %s", args, code, &stderr)
		}
		return stdout.String()
	}
	for i, out := range []string{turn("one", dsn), turn("two", "", "--history", dsn), turn("three", "postgres://nobody@127.0.0.1:1/x", "--history", dsn)} {
		want := []string{`"messages":1}`, `"messages":3}`, `"messages":5}`}[i]
		if !strings.Contains(out, want) {
			t.Errorf("turn %d does not show the model %s", i+1, want)
		}
	}
}

package main

import (
	"strings"
	"testing"
)

// variables is an environment of some variables.
func variables(env map[string]string) func(string) string {
	return func(name string) string { return env[name] }
}

// wantExit runs a command line without a terminal, which must end with an exit code and have
// printed a text, and returns all that it has printed.
func wantExit(t *testing.T, getenv func(string) string, code int, want string, args ...string) string {
	t.Helper()
	var out output
	got := run(t.Context(), args, &environment{stdin: strings.NewReader(""), stdout: &out, stderr: &out, getenv: getenv})
	if got != code || !strings.Contains(out.String(), want) {
		t.Fatalf("agenthost %s: exit code %d and\n%s\nwant %d and %q", strings.Join(args, " "), got, out.String(), code, want)
	}
	return out.String()
}

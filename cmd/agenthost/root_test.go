package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Each command that help lists has a manual page that says what it does.
func TestEachCommandHasAManualPage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	if code, stdout, stderr := command(t, "", "man", "--dir", dir); code != 0 || stdout+stderr != "" {
		t.Fatalf("man: exit code %d, %s%s", code, stdout, stderr)
	}
	commands := 0
	var check func(*cobra.Command)
	check = func(c *cobra.Command) {
		for _, child := range c.Commands() {
			check(child)
		}
		if !c.IsAvailableCommand() {
			return
		}
		commands++
		name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
		page, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(page), strings.ReplaceAll(c.Short, "-", "\\-")) && !strings.Contains(string(page), c.Short) {
			t.Errorf("%s: %v, or it does not say %q", name, err, c.Short)
		}
	}
	check(newRoot(&environment{stdin: strings.NewReader(""), getenv: func(string) string { return "" }}))
	if commands < 40 {
		t.Errorf("found %d commands, want all of them", commands)
	}
}

func TestErrorsOfTheParserAreAboutTheCommandLine(t *testing.T) {
	for want, args := range map[string][]string{
		"unknown command \"thred\" for \"agenthost\"\n\nDid you mean this?\n\tthread\n":    {"thred"},
		"unknown command \"lst\" for \"agenthost thread\"\nSee: agenthost thread --help\n": {"thread", "lst"},
		"if any flags in the group [calls for] are set none of the others can be":          {"plugin", "bench", "x", "tool", "--calls", "1", "--for", "1s"},
		"unknown flag: --nosuch\nSee: agenthost --help\n":                                  {"--nosuch"},
	} {
		code, stdout, stderr := command(t, "", args...)
		if code != 2 || stdout != "" || !strings.Contains(stderr, want) || !strings.Contains(stderr, "See: agenthost") {
			t.Errorf("%q: exit code %d, %s%s\nwant %q", args, code, stdout, stderr, want)
		}
	}
}

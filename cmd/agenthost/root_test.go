package main

import (
	"strings"
	"testing"
)

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

package guesttext

import "testing"

func TestCleanLeavesNothingThatControls(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext\n":        "plain\ttext\n",
		"a\x1b[31mb\rc\x00d":   "a [31mb c d",
		"a\u202eb\u2066c":      "a b c",
		"a\xff\xfeb":           "a\ufffdb",
		"caf\u00e9 \U0001f600": "caf\u00e9 \U0001f600",
	} {
		if got := Clean(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
}

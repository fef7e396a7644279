package termtext_test

import (
	"fmt"
	"testing"

	"github.com/agenthost/agenthost/internal/termtext"
)

func TestNearest(t *testing.T) {
	words := []string{"instructions", "description", "tools", "model", "o200k_base", "builtin:tokenlimiter"}
	for name, want := range map[string]string{
		"instuctions": "instructions", "Tools": "tools", "tool": "tools", "modle": "model", "o200k": "o200k_base",
		"builtin:tokenlimit": "builtin:tokenlimiter", "flavour": "", "": "", "x": "", "io": "",
	} {
		if got := termtext.Nearest(name, words); got != want {
			t.Errorf("termtext.Nearest(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestShellWordQuotesForAShell(t *testing.T) {
	for in, want := range map[string]string{
		"": "''", "t1": "t1", "./data": "./data", "a b": "'a b'", "it's": `'it'\''s'`, "$(rm)": "'$(rm)'", "a\x1b[31m": "'a [31m'",
	} {
		if got := termtext.ShellWord(in); got != want {
			t.Errorf("ShellWord(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestPrintableTakesOutControlCharacters(t *testing.T) {
	if got := termtext.Printable("a\x1b[31mb\u202ec\u2066d\te\nf\r"); got != "a [31mb c d\te\nf " {
		t.Errorf("Printable = %q", got)
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := termtext.Thousands(n); got != want {
			t.Errorf("Thousands(%d) = %s, want %s", n, got, want)
		}
	}
}

func ExampleNearest() {
	fmt.Println(termtext.Nearest("modle", []string{"model", "tools"}))
	// Output: model
}

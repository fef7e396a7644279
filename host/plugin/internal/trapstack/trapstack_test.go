package trapstack_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/plugin/internal/trapstack"
)

func TestFunctionsOfATrap(t *testing.T) {
	const head = "wasm error: unreachable\nwasm stack trace:\n"
	for _, tt := range []struct {
		name, trap string
		want       []string
	}{
		{"the innermost first", head + "\tm.divide(i32,i32) i32\n\tm.greet(i32)\n\tm.agenthost_tool(i32) i32", []string{"divide", "greet", "agenthost_tool"}},
		{"no more than four", head + "\tm.a()\n\tm.b()\n\tm.c()\n\tm.d()\n\tm.e()", []string{"a", "b", "c", "d"}},
		{"recursion once", head + "\tm.a()\n\tm.a()\n\tm.b()", []string{"a", "b"}},
		{"names with brackets and dots", head + "\tm.debug.FullPanic((function 'say')).outOfBounds(i32,i32) (i32,i64)", []string{"debug.FullPanic((function 'say')).outOfBounds"}},
		{"names of objects without their prefix", head + "\tm..Lmem.eql(i32) i32", []string{"mem.eql"}},
		{"functions without names left out", head + "\tm.$12(i32)\n\tm.b()\n\tm.hidden.check()", []string{"b"}},
		{"lines of another module left out", head + "\tenv.log(i32)\n\tm.b()", []string{"b"}},
		{"a trap without a trace", "wasm error: unreachable", nil},
		{"a name that writes over the terminal", head + "\tm.a\x1b[2J\u202eb()", []string{"a\ufffd[2J\ufffdb"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := trapstack.Functions(tt.trap, "m", "hidden.")
			if strings.Contains(tt.name, "terminal") {
				if len(got) != 1 || strings.ContainsAny(got[0], "\x1b\u202e") {
					t.Errorf("got %q, want a clean name", got)
				}
				return
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	if got := trapstack.Functions(head+"\tm."+strings.Repeat("é", 5_000)+"()", "m", "hidden."); len(got) != 1 || len(got[0]) > 110 {
		t.Errorf("a long name is %q, want it cut", got)
	}
}

func TestReadable(t *testing.T) {
	for name, want := range map[string]string{
		"_ZN5hello5greet17h0123456789abcdefE":                                               "hello::greet",
		"_ZN4core3ptr42drop_in_place$LT$agenthost..json..Json$GT$17h530d04bf82e0fe66E":      "core::ptr::drop_in_place<agenthost::json::Json>",
		"_ZN48_$LT$T$u20$as$u20$agenthost..to_json..ToJson$GT$7to_json17h0123456789abcdefE": "<T as agenthost::to_json::ToJson>::to_json",
		"_ZN":                       "_ZN",
		"_ZN99999999999999999999aE": "_ZN99999999999999999999aE",
		"_ZN0E":                     "_ZN0E",
		"greet":                     "greet",
		".Ljson.Json.parse":         "json.Json.parse",
	} {
		if got := trapstack.Readable(name); got != want {
			t.Errorf("Readable(%q) = %q, want %q", name, got, want)
		}
	}
}

func FuzzReadable(f *testing.F) {
	f.Add("_ZN5hello5greet17h0123456789abcdefE")
	f.Add("_ZN3")
	f.Fuzz(func(t *testing.T, name string) {
		if got := trapstack.Readable(name); len(got) > 2*len(name) {
			t.Errorf("Readable(%q) = %q", name, got)
		}
	})
}

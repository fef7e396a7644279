package plugin

import (
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
)

// named returns a module with a name section, which has the names of functions in order from
// an index on.
func named(wasm []byte, from int, names ...string) []byte {
	list := []byte{byte(len(names))}
	for i, name := range names {
		list = append(append(list, byte(from+i), byte(len(name))), name...)
	}
	section := append([]byte("\x04name\x01"), byte(len(list)))
	section = append(section, list...)
	return append(append(wasm, 0, byte(len(section))), section...)
}

func TestATrapNamesTheFunctionsThatItIsIn(t *testing.T) {
	code := `
		func $divide - i32 -> i32
		i32.const 1 local.get 0 i32.div_s
		func $greet - -> i32
		i32.const 0 call $divide
		---
		call $greet`
	wasm := handWritten(t, code)
	for _, tt := range []struct {
		name  string
		wasm  []byte
		words string
	}{
		{"with names", named(wasm, imported(t, wasm), "agenthost_tool", "_ZN4shop6divide17h0123456789abcdefE", "greet"), "integer divide by zero in shop::divide, called by greet, called by agenthost_tool"},
		{"without names", wasm, "integer divide by zero"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := startRuntime(t, nil).Load(t.Context(), "hand", tt.wasm, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = p.Call(t.Context(), "", "tool", nil, nil)
			if host.CodeOf(err) != host.Internal || !strings.HasSuffix(strings.TrimSpace(err.Error()), tt.words) {
				t.Errorf("the call ends with %v, want a trap that ends with %q", err, tt.words)
			}
		})
	}
}

// imported returns how many functions a module imports.
func imported(t *testing.T, wasm []byte) int {
	t.Helper()
	in, err := Inspect(wasm)
	if err != nil {
		t.Fatal(err)
	}
	return len(in.Imports)
}

package plugin_test

// Scenario: calls of guests in several languages have profiles by function.

import (
	"os"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/guestprofile"
	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/pdk/js"
	"github.com/agenthost/agenthost/plugins/tokenlimiter"
)

func TestProfilesOfGuestsInEveryLanguageAddUpToTheirBills(t *testing.T) {
	read := must[[]byte](t)
	const score = `{"tool":"score","arguments":{"player":"Ada","points":7}}`
	script := read(js.Pack(read(os.ReadFile("../../examples/plugins/js/scores.js"))))
	for _, c := range []struct {
		language, export, input string
		large                   bool // the code that is compiled, which no cache has
		wasm                    []byte
		has                     []string // functions
	}{
		{"c", "tool", score, false, read(os.ReadFile("../../examples/plugins/c/scores.wasm")), []string{"ah_export_tool", "score", "agenthost_v1.host_call"}},
		{"rust", "tool", score, false, read(os.ReadFile("../../examples/plugins/rust/scores.wasm")), []string{"agenthost_tool", "agenthost::", "agenthost_v1.host_call"}},
		{"go", "process", `{"processor":"tokenlimiter","config":{"limit":1000},"scope":{},"model":"m","outline":{"count":1,"roles":"u","bytes":[5],"chars":[5],"parts":[1],"tools":[]}}`, true, tokenlimiter.Wasm, []string{"agenthost_process", "function ", "agenthost_v1.input_read"}},
		{"js", "tool", score, true, script, []string{"agenthost_tool", "function ", "agenthost_v1.host_call"}},
	} {
		t.Run(c.language, func(t *testing.T) {
			if c.large && longtest.Race && !longtest.Enabled() {
				t.Skip("needs half a minute to compile under the race detector, and runs without it")
			}
			opts := plugin.Options{ProfileCalls: true, Interpreters: [][]byte{js.Engine()}}
			p := load(t, newRuntime(t, &opts), c.language, c.wasm, &plugin.LoadOptions{Granted: plugin.Permissions{KV: plugin.Write}})
			profile, bill := guestprofile.New(), int64(0)
			for _, input := range []string{c.input, c.input, `{"` + c.export + `":1}`, `not JSON`} {
				result, err := p.Call(t.Context(), "acme", c.export, []byte(input), &plugin.CallOptions{Profile: profile})
				if err != nil || (input == c.input) == result.GuestError {
					t.Fatalf("the call with %s: %s, %v", input, result.Output, err)
				}
				bill += result.Cost.Instructions
			}
			if n := profile.Instructions(); n != bill || profile.Calls() != 4 {
				t.Errorf("the functions of %d calls have %d instructions, and the calls cost %d", profile.Calls(), n, bill)
			}
			var names strings.Builder
			for s := range profile.Stacks() {
				names.WriteString(s.Functions[len(s.Functions)-1].Name + "\n")
			}
			for _, name := range c.has {
				if !strings.Contains(names.String(), name) {
					t.Errorf("no function is named %s: %.2000s", name, names.String())
				}
			}
		})
	}
}

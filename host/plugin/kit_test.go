package plugin_test

// Scenario: the plugin test kit examines guests that no compiler would emit.

// The kit for plugins against guests that no compiler would make. They are here
// for the assembler of this package.

import (
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/plugintest"
)

// resultOf returns how a guest does by one rule.
func resultOf(t *testing.T, wasm []byte, rule string) *plugintest.Result {
	t.Helper()
	for r := range plugintest.Check(t.Context(), wasm, &plugintest.Options{Repeats: 1}) {
		if strings.HasPrefix(r.Rule, rule) {
			return r
		}
	}
	t.Fatalf("there is no rule %q", rule)
	return nil
}

// needy asks for as much memory as its input has. Without it, it answers what
// the code says.
func needy(without string) string {
	return `memory 1 1000
		data 0 "{\"content\":\"long\"}"
		data 32 "{\"content\":\"short\"}"
		data 64 "{\"code\":\"resource_exhausted\",\"message\":\"no memory\"}"
		---
		local.get 0 i32.const 65536 i32.div_u i32.const 1 i32.add memory.grow i32.const -1 i32.eq
		if ` + without + ` return end
		i32.const 0 i32.const 18 call $output_write i32.const 0`
}

func TestKitFindsGuestsThatHideWantOfMemory(t *testing.T) {
	const rule = "with too little"
	r := resultOf(t, plugin.HandWritten(t, needy(`i32.const 32 i32.const 19 call $output_write i32.const 0`)), rule)
	if len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "too little memory") || !strings.Contains(r.Problems[0], "short") {
		t.Errorf("a guest that answers otherwise without memory: %q", r.Problems)
	}
	for name, code := range map[string]string{
		"fails": `i32.const 64 i32.const 53 call $output_write i32.const 1`,
		"traps": `unreachable`,
	} {
		if r := resultOf(t, plugin.HandWritten(t, needy(code)), rule); !r.OK() {
			t.Errorf("a guest that %s without memory: %q", name, r.Problems)
		}
	}
}

func TestKitListsAllThatKeepsAGuestFromLoading(t *testing.T) {
	wasm := plugin.HandWritten(t, `custom agenthost.manifest "{\"abi\":1,\"name\":\"\",\"routers\":[{\"name\":\"r\"}],\"providers\":[{\"name\":\"c\"}]}"
		---
		i32.const 0`)
	r := resultOf(t, wasm, "it loads")
	if len(r.Problems) < 3 {
		t.Errorf("problems %q, want the name and both exports", r.Problems)
	}
}

func TestKitMakesTheHealthCalls(t *testing.T) {
	wasm := plugin.HandWritten(t, `custom agenthost.manifest "{\"abi\":1,\"name\":\"n\",\"tools\":[{\"name\":\"t\",\"description\":\"\"}],\"health\":[{\"export\":\"tool\",\"input\":{\"tool\":\"t\"}}]}"
		---
		unreachable`)
	r := resultOf(t, wasm, "it loads")
	if len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "health call of tool") {
		t.Errorf("problems %q, want that a version that fails its health call never serves", r.Problems)
	}
}

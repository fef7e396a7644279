package guestmodule

import (
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmmeter"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmtest"
)

func read(t *testing.T, text string) Module {
	t.Helper()
	m, err := wasmmeter.Read(wasmtest.Assemble(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return Module{Wasm: m}
}

func TestConventionFollowsFromImportsAndManifest(t *testing.T) {
	for _, c := range []struct {
		name, module string
		want         Convention
		abi          string
	}{
		{"our imports", "import agenthost_v1 log i32 i32 i32\n", Native, "agenthost_v1"},
		{"those of a later version", "import agenthost_v2 log i32 i32 i32\n", Native, "agenthost_v2"},
		{"Extism's imports", "import extism:host/env length i64 -> i64\n", Extism, "extism"},
		{"a manifest alone", "custom agenthost.manifest \"{}\"\n", Native, "agenthost_v1"},
		{"a description alone", "func $d agenthost_describe -> i32\ni32.const 0", Native, "agenthost_v1"},
		{"nothing of a plugin", "func $f f\nnop", None, "none"},
	} {
		if m := read(t, c.module); m.Convention() != c.want || m.ABI() != c.abi {
			t.Errorf("%s: %s, %s; want %s, %s", c.name, m.Convention(), m.ABI(), c.want, c.abi)
		}
	}
}

func TestOffersNeedTheirExports(t *testing.T) {
	m := read(t, "import agenthost_v1 log i32 i32 i32\nmemory 1\nexport memory memory 0\nfunc $t agenthost_tool i32 -> i32\ni32.const 0")
	if err := m.Check(); err != nil {
		t.Fatal(err)
	}
	problems := m.OfferProblems(&abi.Manifest{Tools: []abi.ToolInfo{{Name: "a"}, {Name: "b", Export: "b"}}, Routers: []abi.PartInfo{{Name: "r"}}})
	if len(problems) != 2 || !strings.Contains(problems[0].Error(), `tool "b"`) || !strings.Contains(problems[1].Error(), "agenthost_route") {
		t.Errorf("OfferProblems = %v, want the function b and the router", problems)
	}
}

package plugin

// Scenario: plugins are loaded with tool prefixes, other tool names and toolchain
// exports.

import (
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmtest"
)

func TestToolsTakeAPrefixAndOtherNames(t *testing.T) {
	rt := startRuntime(t, nil)
	const manifest = `{"abi":1,"name":"crm","tools":[{"name":"find","description":""},{"name":"add","description":""}]}`
	wasm := constantGuest(t, manifest, map[abi.Export]answer{abi.Tool: {`{"content":"found"}`, 0}, abi.Describe: {manifest, 0}})
	p, err := rt.Load(t.Context(), "crm", wasm, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := rt.NewSlot(t.Context(), "live", wasm, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	opts := &PartOptions{Prefix: "crm_", Rename: map[string]string{"add": "new_customer"}}
	for _, from := range []interface {
		Tools(*PartOptions) ([]*host.Tool, error)
		Tool(string, *PartOptions) (*host.Tool, error)
	}{p, s} {
		tools, err := from.Tools(opts)
		if err != nil {
			t.Fatal(err)
		}
		if got := names(tools, func(t *host.Tool) string { return t.Name }); !slices.Equal(got, []string{"crm_find", "new_customer"}) {
			t.Errorf("tools %q", got)
		}
		tool, err := from.Tool("find", opts) // its own name
		if err != nil || tool.Name != "crm_find" {
			t.Fatalf("tool find: %v, %v", tool, err)
		}
		plain, err := from.Tool("find", nil)
		if err != nil {
			t.Fatal(err)
		}
		model := hosttest.NewModel()
		if _, err := host.NewAgent("a", &host.AgentOptions{Model: model, Tools: []*host.Tool{tool, plain}}); err != nil {
			t.Errorf("two tools that a prefix tells apart: %v", err)
		}
		_, err = host.NewAgent("a", &host.AgentOptions{Model: model, Tools: []*host.Tool{plain, plain}})
		if err == nil || !strings.Contains(err.Error(), "prefix") {
			t.Errorf("two tools of one name: %v, want how to give a prefix", err)
		}
	}
	if _, err := p.Tools(&PartOptions{Prefix: "no spaces "}); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("a prefix that no tool's name may have: %v", err)
	}
}

func TestAPluginIsCalledUnderItsOwnToolNames(t *testing.T) {
	wasm := wasmtest.Assemble(t, `
		import agenthost_v1 input_read i32 i32 i32 -> i32 as $read
		import agenthost_v1 output_write i32 i32 as $write
		memory 1
		data 0 "{\"content\":"
		data 16 "}"
		export memory memory 0
		custom agenthost.manifest "{\"abi\":1,\"name\":\"crm\",\"tools\":[{\"name\":\"find\",\"description\":\"\"}]}"
		func $tool agenthost_tool i32 -> i32
		  i32.const 1024 i32.const 0 local.get 0 call $read drop
		  i32.const 0 i32.const 11 call $write
		  i32.const 1024 local.get 0 call $write
		  i32.const 16 i32.const 1 call $write
		  i32.const 0`)
	rt := startRuntime(t, nil)
	p, err := rt.Load(t.Context(), "crm", wasm, nil)
	if err != nil {
		t.Fatal(err)
	}
	handle, err := p.toolHandler(p.manifest.Tool("find"), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := handle(t.Context(), host.NewCall("crm_find", []byte("{}"), nil))
	if err != nil || !strings.Contains(string(out.Content), `"tool":"find"`) {
		t.Errorf("the guest is given %s, %v; want its own name of the tool", out.Content, err)
	}
}

func TestExportsOfToolchainsAreNoTools(t *testing.T) {
	wasm := wasmtest.Assemble(t, `
		import extism:host/env input_length -> i64
		memory 1
		export memory memory 0
		func $a count -> i32
		  i32.const 0
		func $b asyncify_get_state -> i32
		  i32.const 0
		func $c asyncify_stop_unwind
		  nop
		func $d __heap_reset -> i32
		  i32.const 0
		func $e emscripten_stack_init
		  nop
		func $f go_scheduler
		  nop
		func $g cabi_reset
		  nop
		func $h free
		  nop`)
	rt := startRuntime(t, nil)
	p, err := rt.Load(t.Context(), "x", wasm, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := names(p.Manifest().Tools, func(t ToolInfo) string { return t.Name }); !slices.Equal(got, []string{"count"}) {
		t.Errorf("tools %q, want count alone", got)
	}
	named := &LoadOptions{Extism: ExtismOptions{Tools: []ToolInfo{{Name: "reset", Export: "free"}}}}
	if p, err = rt.Load(t.Context(), "y", wasm, named); err != nil || p.Manifest().Tool("reset") == nil {
		t.Errorf("a function of a toolchain's name that the options offer: %v", err)
	}
}

package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	sdk "github.com/extism/go-sdk"
	"github.com/tetratelabs/wazero"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/extism"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmmeter"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmtest"
)

// extismHand assembles a plain Extism plugin whose function run is the given
// code, with every import by its name and the locals a to d of type i64. What
// stands before a line with --- is declarations.
func extismHand(t testing.TB, code string) []byte {
	t.Helper()
	declarations, body, ok := strings.Cut(code, "---")
	if !ok {
		declarations, body = "", code
	}
	if !strings.Contains(declarations, "memory ") {
		declarations += "\nmemory 1 4\nexport memory memory 0"
	}
	return wasmtest.Assemble(t, extismImports()+`
		func $run run -> i32 : i64 i64 i64 i64
		`+body+"\n"+declarations)
}

// extismImports declares every import of an Extism plugin by its name.
func extismImports() string {
	var imports strings.Builder
	for _, f := range extism.Functions() {
		fmt.Fprintf(&imports, "import %s %s", extism.EnvModule, f.Name)
		for _, p := range f.Params {
			imports.WriteString(" " + wasmmeter.TypeNames([]byte{p}))
		}
		if len(f.Results) > 0 {
			imports.WriteString(" -> " + wasmmeter.TypeNames(f.Results))
		}
		fmt.Fprintf(&imports, " as $%s\n", f.Name)
	}
	fmt.Fprintf(&imports, "import %s agenthost_call i64 i64 -> i64 as $agenthost_call\n", extism.UserModule)
	return imports.String()
}

// say assembles code that leaves the offset of a block with a text in local a.
func say(local int, text string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "i64.const %d call $alloc local.set %d\n", len(text), local)
	for i := range len(text) {
		fmt.Fprintf(&b, "local.get %d i64.const %d i64.add i32.const %d call $store_u8\n", local, i, text[i])
	}
	return b.String()
}

// outcome is how a call ended, in what both engines have.
type outcome struct {
	output string
	failed bool
	says   string
}

func (o outcome) String() string {
	return fmt.Sprintf("output %q, failed %t: %q", o.output, o.failed, o.says)
}

// onSDK runs a function on extism/go-sdk.
func onSDK(t testing.TB, wasm []byte, function, input string, m sdk.Manifest) outcome {
	t.Helper()
	ctx := context.Background()
	m.Wasm = []sdk.Wasm{sdk.WasmData{Data: wasm}}
	user := sdk.NewHostFunctionWithStack("agenthost_call", func(context.Context, *sdk.CurrentPlugin, []uint64) {},
		[]sdk.ValueType{sdk.ValueTypeI64, sdk.ValueTypeI64}, []sdk.ValueType{sdk.ValueTypeI64})
	p, err := sdk.NewPlugin(ctx, m, sdk.PluginConfig{EnableWasi: true, RuntimeConfig: wazero.NewRuntimeConfigInterpreter()}, []sdk.HostFunction{user})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(ctx)
	_, out, err := p.CallWithContext(ctx, function, []byte(input))
	if err != nil {
		return outcome{failed: true, says: err.Error()}
	}
	return outcome{output: string(out)}
}

// onOurs runs a function on this host.
func onOurs(t testing.TB, wasm []byte, function, input string, opts *LoadOptions) outcome {
	t.Helper()
	p, err := startRuntime(t, nil).Load(context.Background(), "x", wasm, opts)
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Call(context.Background(), "acme", function, []byte(input), nil)
	switch {
	case err != nil:
		return outcome{failed: true, says: err.Error()}
	case r.GuestError:
		return outcome{failed: true, says: errors.Unwrap(abi.NewGuestError("x", function, r.Output)).(*host.Error).Message}
	}
	return outcome{output: string(r.Output)}
}

// Both engines agree on what a well-behaved plugin can see.
func TestExtismAnswersLikeItsOwnSDK(t *testing.T) {
	config := map[string]string{"greeting": "hello", "empty": ""}
	for _, c := range []struct{ name, input, code string }{
		{"a block", "", say(0, "hello world") + `local.get 0 i64.const 11 call $output_set i32.const 0`},
		{"part of a block", "", say(0, "hello world") + `local.get 0 i64.const 6 i64.add i64.const 5 call $output_set i32.const 0`},
		{"no output", "", `i32.const 0`},
		{"the input's block", "from here", `call $input_offset call $input_length call $output_set i32.const 0`},
		{"a changed input", "from here", `
			call $input_offset local.tee 0 i32.const 71 call $store_u8
			i64.const 1 call $alloc local.tee 1 i64.const 0 call $input_load_u8 call $store_u8
			local.get 1 i64.const 1 call $output_set i32.const 0`},
		{"input past its end", "x", `
			i64.const 8 call $alloc local.tee 0 i64.const 7 call $input_load_u8 call $store_u8
			local.get 0 i64.const 1 call $output_set i32.const 0`},
		{"a word of input", "12345678", `
			i64.const 8 call $alloc local.tee 0 i64.const 0 call $input_load_u64 call $store_u64
			local.get 0 i64.const 8 call $output_set i32.const 0`},
		{"the last output counts", "", say(0, "one") + say(1, "two") + `
			local.get 0 i64.const 3 call $output_set local.get 1 i64.const 3 call $output_set i32.const 0`},
		{"an output of nothing leaves the one before", "", say(0, "one") + `
			local.get 0 i64.const 3 call $output_set i64.const 0 i64.const 0 call $output_set i32.const 0`},
		{"what is stored after the output was set", "", say(0, "one") + `
			local.get 0 i64.const 3 call $output_set local.get 0 i32.const 49 call $store_u8 i32.const 0`},
		{"a freed output", "", say(0, "one") + `local.get 0 i64.const 3 call $output_set local.get 0 call $free i32.const 0`},
		{"alloc of nothing", "", `
			i64.const 8 call $alloc local.tee 0 i64.const 0 call $alloc call $store_u64
			local.get 0 i64.const 8 call $output_set i32.const 0`},
		{"lengths", "", say(0, "hello") + `
			i64.const 48 call $alloc local.set 1
			local.get 1 local.get 0 call $length call $store_u64
			local.get 1 i64.const 8 i64.add local.get 0 call $length_unsafe call $store_u64
			local.get 1 i64.const 16 i64.add local.get 0 i64.const 1 i64.add call $length call $store_u64
			local.get 0 call $free local.get 0 call $free
			local.get 1 i64.const 24 i64.add local.get 0 call $length call $store_u64
			local.get 1 i64.const 32 i64.add i64.const 0 call $length call $store_u64
			local.get 1 i64.const 40 i64.add i64.const 1000 call $length call $store_u64
			local.get 1 i64.const 48 call $output_set i32.const 0`},
		{"configuration", "", say(0, "greeting") + `
			local.get 0 call $config_get local.tee 1 local.get 1 call $length call $output_set i32.const 0`},
		{"configuration that is not there", "", say(0, "farewell") + `
			i64.const 8 call $alloc local.tee 1 local.get 0 call $config_get call $store_u64
			local.get 1 i64.const 8 call $output_set i32.const 0`},
		{"configuration that is empty", "", say(0, "empty") + `
			i64.const 8 call $alloc local.tee 1 local.get 0 call $config_get call $length call $store_u64
			local.get 1 i64.const 8 call $output_set i32.const 0`},
		{"a variable", "", say(0, "k") + say(1, "value") + say(2, "k") + `
			local.get 0 local.get 1 call $var_set
			local.get 2 call $var_get local.tee 3 local.get 3 call $length call $output_set i32.const 0`},
		{"a removed variable", "", say(0, "k") + say(1, "value") + `
			local.get 0 local.get 1 call $var_set` + "\n" + say(0, "k") + `local.get 0 i64.const 0 call $var_set` + "\n" + say(0, "k") + `
			i64.const 8 call $alloc local.tee 1 local.get 0 call $var_get call $store_u64
			local.get 1 i64.const 8 call $output_set i32.const 0`},
		{"blocks that are handed over are freed", "", say(0, "k") + say(1, "value") + say(2, "said") + `
			i64.const 24 call $alloc local.set 3
			local.get 0 local.get 1 call $var_set local.get 2 call $log_info
			local.get 3 local.get 0 call $length call $store_u64
			local.get 3 i64.const 8 i64.add local.get 1 call $length call $store_u64
			local.get 3 i64.const 16 i64.add local.get 2 call $length call $store_u64
			local.get 3 i64.const 24 call $output_set i32.const 0`},
		{"an error", "", say(0, "it broke") + `local.get 0 call $error_set i32.const 1`},
		{"an error with code 0", "", say(0, "it broke") + `local.get 0 call $error_set i32.const 0`},
		{"an error taken back", "", say(0, "it broke") + `local.get 0 call $error_set i64.const 0 call $error_set i32.const 0`},
		{"the error that was set", "", say(0, "it broke") + `
			local.get 0 call $error_set call $error_get local.get 0 i64.eq if i64.const 0 call $error_set end i32.const 0`},
		{"no response before a request", "", `
			i64.const 8 call $alloc local.tee 0 call $http_status_code i64.extend_i32_u call $store_u64
			local.get 0 i64.const 8 call $output_set i32.const 0`},
	} {
		t.Run(c.name, func(t *testing.T) {
			wasm := extismHand(t, c.code)
			want := onSDK(t, wasm, "run", c.input, sdk.Manifest{Config: config})
			got := onOurs(t, wasm, "run", c.input, &LoadOptions{Extism: ExtismOptions{Config: config}})
			if got != want {
				t.Errorf("%v\nwant %v, as on extism/go-sdk", got, want)
			}
		})
	}
}

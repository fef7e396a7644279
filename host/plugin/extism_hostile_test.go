package plugin

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmtest"
)

// What a hostile Extism plugin tries ends in an error that names what it did,
// in bounded time and memory, and the next call is answered.
func TestHostileExtismGuestsEndInErrors(t *testing.T) {
	key := say(0, "k")
	forever := func(code string) string { return "loop " + code + " br 0 end unreachable" }
	for _, c := range []struct {
		name, code string
		want       host.Code
		says       string
	}{
		{"loops", forever(""), host.ResourceExhausted, "limit Instructions"},
		{"allocates for ever", forever("i64.const 65536 call $alloc drop"), host.ResourceExhausted, "limit BlockBytes of 4194304"},
		{"allocates in crumbs for ever", forever("i64.const 1 call $alloc drop"), host.ResourceExhausted, "limit BlockBytes of 4194304"},
		{"allocates and frees for ever", forever("i64.const 65536 call $alloc call $free"), host.ResourceExhausted, "limit Instructions"},
		{"allocates more than there is", "i64.const -1 call $alloc drop i32.const 0", host.ResourceExhausted, "limit BlockBytes"},
		{"allocates more than 32 bits hold", "i64.const 0x100000008 call $alloc drop i32.const 0", host.ResourceExhausted, "limit BlockBytes"},
		{"reads offset 0", "i64.const 0 call $load_u8 drop i32.const 0", host.Internal, "load_u8 names 1 bytes at offset 0"},
		{"reads before there is anything", "i64.const 64 call $load_u64 drop i32.const 0", host.Internal, "outside its blocks"},
		{"reads past the end", key + "i64.const 65529 call $load_u64 drop i32.const 0", host.Internal, "load_u64 names 8 bytes at offset 65529"},
		{"reads where offsets wrap", key + "i64.const -4 call $load_u64 drop i32.const 0", host.Internal, "outside its blocks"},
		{"writes past the end", key + "i64.const 65536 i32.const 1 call $store_u8 i32.const 0", host.Internal, "store_u8"},
		{"writes where offsets wrap", key + "i64.const -8 i64.const 1 call $store_u64 i32.const 0", host.Internal, "store_u64"},
		{"reads input past its end", "i64.const 0 call $input_load_u64 drop i32.const 0", host.Internal, "input_load_u64"},
		{"reads input where offsets wrap", "i64.const -4 call $input_load_u64 drop i32.const 0", host.Internal, "input_load_u64"},
		{"claims output that is not there", "i64.const 64 i64.const 8 call $output_set i32.const 0", host.Internal, "output_set names 8 bytes"},
		{"claims output that wraps", key + "local.get 0 i64.const -1 call $output_set i32.const 0", host.ResourceExhausted, "limit OutputBytes"},
		{"claims 4 GB of output", key + "local.get 0 i64.const 0x100000000 call $output_set i32.const 0", host.ResourceExhausted, "limit OutputBytes"},
		{"claims output past the end", key + "local.get 0 i64.const 65536 call $output_set i32.const 0", host.Internal, "outside its blocks"},
		{"sets an error, then traps", say(0, "no umbrella") + "local.get 0 call $error_set unreachable", host.Internal, "no umbrella"},
		{"fails and says nothing", "i32.const 1", host.Internal, "returned 1 and set no error"},
		{"reads its configuration for ever", forever(say(0, "k") + "local.get 0 call $config_get drop local.get 0 call $free"), host.ResourceExhausted, "limit BlockBytes"},
		{"keeps more than it may", forever(say(0, "k") + `local.get 1 i64.const 1 i64.add local.tee 1 local.get 0 local.get 1 call $store_u8_of
			local.get 0 i64.const 60000 call $alloc call $var_set`), host.ResourceExhausted, "limit VarBytes of 1048576"},
		{"asks for HTTP that is not granted", say(0, `{"url":"http://169.254.169.254/"}`) + "local.get 0 i64.const 0 call $http_request drop i32.const 0", "", "http_request"},
		{"asks for HTTP with nothing", "i64.const 0 i64.const 0 call $http_request drop i32.const 0", host.InvalidArgument, "http_request"},
		{"names an operation in 65 bytes", say(0, strings.Repeat("x", 65)) + "local.get 0 i64.const 0 call $agenthost_call drop i32.const 0", host.Internal, "in 65 bytes"},
		{"calls the host for ever", forever(say(0, "emit") + say(1, "{}") + "local.get 0 local.get 1 call $agenthost_call call $free local.get 1 call $free local.get 0 call $free"), host.ResourceExhausted, "limit HostCalls of 1000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			// A key that differs each time round is made by hand.
			code := strings.ReplaceAll(c.code, "local.tee 1 local.get 0 local.get 1 call $store_u8_of", "local.set 1 local.get 0 local.get 1 i32.wrap_i64 call $store_u8")
			rt := startRuntime(t, nil)
			p, err := rt.Load(context.Background(), "hand", extismHand(t, code), &LoadOptions{
				Limits: Limits{BlockBytes: 4 << 20, Instructions: 50_000_000, HostCalls: 1000, Timeout: 20 * time.Second},
				Extism: ExtismOptions{Config: map[string]string{"k": strings.Repeat("v", 1000)}}})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				_, err := p.Call(context.Background(), "acme", "run", nil, nil)
				if c.want != "" && host.CodeOf(err) != c.want || err == nil || !strings.Contains(err.Error(), c.says) {
					t.Fatalf("call: %v, want %s and %q", err, c.want, c.says)
				}
			}
			other, err := rt.Load(context.Background(), "other", extismHand(t, say(0, "well")+"local.get 0 i64.const 4 call $output_set i32.const 0"), nil)
			if err != nil {
				t.Fatal(err)
			}
			if r, err := other.Call(context.Background(), "globex", "run", nil, nil); err != nil || string(r.Output) != "well" {
				t.Errorf("the next call: %q, %v", r.Output, err)
			}
		})
	}
}

// What Extism lets plugins call though it is the host's, and what is of other
// versions and hosts, is refused before anything runs.
func TestExtismImportsAreHeldToTheList(t *testing.T) {
	for _, c := range []struct{ decl, says string }{
		{"import extism:host/env reset", `"reset", which this host does not offer`},
		{"import extism:host/env input_set i64 i64", `"input_set"`},
		{"import extism:host/env output_length -> i64", `"output_length"`},
		{"import extism:host/env output_offset -> i64", `"output_offset"`},
		{"import extism:host/env memory_bytes -> i64", `"memory_bytes"`},
		{"import extism:host/env alloc i32 -> i32", "not (i64) -> (i64)"},
		{"import extism:host/user kv_read i64 -> i64", "a function of another host"},
		{"import extism:host/user agenthost_call i64 -> i64", "not (i64, i64) -> (i64)"},
		{"import extism:host/other f", "which this host does not offer"},
		{"import extism:host/env size global i32 extern", "functions only"},
		{"import agenthost_v1 log i32 i32 i32", "imports from both"},
		{"import env extism_alloc i64 -> i64", "built for Extism before 1.0"},
	} {
		t.Run(c.decl, func(t *testing.T) {
			wasm := wasmtest.Assemble(t, c.decl+`
				import extism:host/env free i64
				memory 1
				export memory memory 0
				func $run run -> i32
				i32.const 0`)
			_, err := startRuntime(t, nil).Load(context.Background(), "x", wasm, nil)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("load: %v, want an error that says %q", err, c.says)
			}
			if problems := startRuntime(t, nil).Check(context.Background(), "x", wasm, nil); len(problems) == 0 {
				t.Error("check finds nothing")
			}
		})
	}
}

func TestExtismCallsCostTheSame(t *testing.T) {
	wasm := extismHand(t, say(0, "k")+say(1, "value")+`
		local.get 0 local.get 1 call $var_set`+"\n"+say(0, "k")+`
		local.get 0 call $var_get local.tee 3 local.get 3 call $length call $output_set i32.const 0`)
	var costs []int64
	for range 3 {
		p, err := startRuntime(t, nil).Load(context.Background(), "x", wasm, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			r, err := p.Call(context.Background(), "acme", "run", []byte("input"), nil)
			if err != nil {
				t.Fatal(err)
			}
			costs = append(costs, r.Cost.Instructions)
		}
	}
	if slices.Max(costs) != slices.Min(costs) {
		t.Errorf("the same call costs %d", costs)
	}
}

func TestExtismLogsAreThePluginsLog(t *testing.T) {
	var got []string
	rt := startRuntime(t, &Options{Log: func(l LogLine) { got = append(got, fmt.Sprint(l.Level, " ", l.Plugin, " ", l.Export, " ", l.Text)) }})
	code := say(0, "one\x1b[31m") + "local.get 0 call $log_warn\n" + say(0, "two") + "local.get 0 call $log_error call $get_log_level drop i32.const 0"
	p, err := rt.Load(context.Background(), "x", extismHand(t, code), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Call(context.Background(), "acme", "run", nil, nil); err != nil {
		t.Fatal(err)
	}
	want := []string{slog.LevelWarn.String() + " x run one [31m", slog.LevelError.String() + " x run two"}
	if !slices.Equal(got, want) {
		t.Errorf("the log is %q, want %q", got, want)
	}
}

// A plugin that knows nothing of this host asks for nothing, so it gets what is
// granted of what Extism has: to a tenant too, and later.
func TestExtismPluginsGetTheRequestsThatAreGranted(t *testing.T) {
	to := func(name string) []HTTPAccess { return []HTTPAccess{{Host: name}} }
	rt := startRuntime(t, &Options{
		Ceiling: &Permissions{HTTP: to("*"), KV: Write},
		Tenants: map[string]*Tenant{"acme": {Grants: map[string]Permissions{"x": {HTTP: to("acme.example"), KV: Write}}}},
	})
	p, err := rt.Load(t.Context(), "x", extismHand(t, "i32.const 0"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Grant(Permissions{HTTP: append(to("later.example"), HTTPAccess{Host: "127.0.0.1"}), Clock: true}); err != nil {
		t.Fatal(err)
	}
	for tenant, want := range map[string]Permissions{"acme": {HTTP: to("acme.example")}, "globex": {HTTP: to("later.example")}} {
		if diff := cmp.Diff(want, p.GrantedTo(tenant)); diff != "" {
			t.Errorf("%s is granted (-want +got)\n%s", tenant, diff)
		}
	}
}

// Variables are as old as the instance that holds them, and one tenant's.
func TestExtismVariablesStayWithTheirTenant(t *testing.T) {
	wasm := extismHand(t, say(0, "n")+`local.get 0 call $var_get local.tee 1 i64.eqz if`+"\n"+say(0, "n")+say(1, "1")+`
		local.get 0 local.get 1 call $var_set else local.get 1 i64.const 1 call $output_set end i32.const 0`)
	p, err := startRuntime(t, nil).Load(context.Background(), "x", wasm, nil)
	if err != nil {
		t.Fatal(err)
	}
	call := func(tenant string) string {
		t.Helper()
		r, err := p.Call(context.Background(), tenant, "run", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return string(r.Output)
	}
	if got := []string{call("acme"), call("acme"), call("globex")}; !slices.Equal(got, []string{"", "1", ""}) {
		t.Errorf("acme, acme and globex get %q", got)
	}
}

// Start-up code is run as Extism's kits want it.
func TestExtismStartUp(t *testing.T) {
	answer := `
		func $run run -> i32
		  i64.const 8 call $alloc i64.const 0 drop global.get 0 call $put
		  i32.const 0
		func $put - i64 i64
		  local.get 0 local.get 1 call $store_u64 local.get 0 i64.const 8 call $output_set`
	head := `
		import extism:host/env alloc i64 -> i64 as $alloc
		import extism:host/env store_u64 i64 i64 as $store_u64
		import extism:host/env output_set i64 i64 as $output_set
		memory 1
		export memory memory 0
		global i64 mut 0`
	step := func(name, params string, digit int) string {
		return fmt.Sprintf("\nfunc $%s %s %s\nglobal.get 0 i64.const 10 i64.mul i64.const %d i64.add global.set 0", name, name, params, digit)
	}
	for _, c := range []struct {
		name, funcs string
		want        byte
	}{
		{"a reactor", step("_initialize", "", 1) + step("__wasm_call_ctors", "", 2), 1},
		{"constructors", step("__wasm_call_ctors", "", 2), 2},
		{"Haskell", step("_initialize", "", 1) + step("hs_init", "i32 i32", 3) + step("__wasm_call_ctors", "", 2), 13},
		{"a command is not started", step("_start", "", 4), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := startRuntime(t, nil).Load(context.Background(), "x", wasmtest.Assemble(t, head+answer+c.funcs), nil)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				r, err := p.Call(context.Background(), "acme", "run", nil, nil)
				if err != nil || r.Output[0] != c.want {
					t.Errorf("start-up left %v, %v; want %d", r.Output, err, c.want)
				}
			}
		})
	}
}

// A call with fresh state finds no variables, and start-up code that has read a
// plugin's configuration leaves no image for another plugin of the same module.
func TestFreshExtismCallsFindNothing(t *testing.T) {
	head := `
		import extism:host/env alloc i64 -> i64 as $alloc
		import extism:host/env store_u8 i64 i32 as $store_u8
		import extism:host/env output_set i64 i64 as $output_set
		import extism:host/env var_get i64 -> i64 as $var_get
		import extism:host/env var_set i64 i64 as $var_set
		import extism:host/env length i64 -> i64 as $length
		import extism:host/env load_u8 i64 -> i32 as $load_u8
		import extism:host/env config_get i64 -> i64 as $config_get
		memory 1
		export memory memory 0
		global i32 mut 0
		global i32 mut 0`
	wasm := wasmtest.Assemble(t, head+`
		func $run run -> i32 : i64 i64 i64 i64
		global.get 0 i32.const 1 i32.add global.set 0
		`+say(0, "k")+`local.get 0 call $var_get i64.eqz if`+"\n"+say(0, "k")+say(1, "v")+`
		local.get 0 local.get 1 call $var_set else global.get 0 i32.const 100 i32.add global.set 0 end
		i64.const 2 call $alloc local.tee 2 global.get 0 call $store_u8
		local.get 2 i64.const 1 i64.add global.get 1 call $store_u8
		local.get 2 i64.const 2 call $output_set i32.const 0
		func $init _initialize : i64 i64 i64 i64
		`+say(0, "n")+`local.get 0 call $config_get local.tee 1 call $load_u8 global.set 1`)
	rt := startRuntime(t, nil)
	for _, n := range []string{"a", "b"} {
		p, err := rt.Load(context.Background(), n, wasm, &LoadOptions{Isolation: IsolationFresh, Extism: ExtismOptions{Config: map[string]string{"n": n}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, tenant := range []string{"acme", "acme", "globex"} {
			r, err := p.Call(context.Background(), tenant, "run", nil, nil)
			if err != nil || string(r.Output) != "\x01"+n {
				t.Errorf("%s for %s answers %q, %v; want 1 and %s", n, tenant, r.Output, err, n)
			}
		}
	}
}

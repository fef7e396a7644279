package plugin

import (
	"context"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin/internal/guestmodule"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmtest"
)

// commandHead is what the commands below import and have.
const commandHead = `
	import extism:host/env alloc i64 -> i64 as $alloc
	import extism:host/env store_u8 i64 i32 as $store_u8
	import extism:host/env output_set i64 i64 as $output_set
	import wasi_snapshot_preview1 proc_exit i32 as $proc_exit
	memory 1
	export memory memory 0
	global i32 mut 48`

// countRuns answers with how often this instance has run, as a digit.
const countRuns = `
	global.get 0 i32.const 1 i32.add global.set 0
	i64.const 1 call $alloc local.tee 0 global.get 0 call $store_u8
	local.get 0 i64.const 1 call $output_set `

func TestACommandIsAToolWhereItIsNamed(t *testing.T) {
	start := ToolInfo{Name: "count", Export: guestmodule.CommandExport}
	for _, c := range []struct{ name, end, says string }{
		{"returns", "", ""},
		{"exits with 0", "i32.const 0 call $proc_exit", ""},
		{"exits with 3", "i32.const 3 call $proc_exit", "exited with code 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wasm := wasmtest.Assemble(t, commandHead+"\nfunc $start _start : i64"+countRuns+c.end)
			rt := startRuntime(t, nil)
			p, err := rt.Load(context.Background(), "x", wasm, &LoadOptions{Isolation: IsolationReuse, Extism: ExtismOptions{Tools: []ToolInfo{start}}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.Tool("count", nil); err != nil {
				t.Error(err)
			}
			for i := range 3 {
				r, err := p.Call(context.Background(), "acme", guestmodule.CommandExport, nil, nil)
				if c.says != "" {
					if err == nil || !strings.Contains(err.Error(), c.says) {
						t.Errorf("call %d: %v, want %q", i, err, c.says)
					}
				} else if err != nil || string(r.Output) != "1" {
					t.Errorf("call %d answers %q, %v; want 1: no call before it in its instance", i, r.Output, err)
				}
				if n := IdleInstances(p); n != 0 {
					t.Errorf("%d instances are kept after a command", n)
				}
			}
		})
	}
}

func TestACommandIsNoToolByItself(t *testing.T) {
	command := wasmtest.Assemble(t, commandHead+"\nfunc $start _start : i64"+countRuns)
	rt := startRuntime(t, nil)
	_, err := rt.Load(context.Background(), "x", command, nil)
	if e := fault.AsError(err); err == nil || e.Code != host.FailedPrecondition || !strings.Contains(e.Message, "it is a command") || !strings.Contains(e.Hint, "ExtismOptions.Tools") {
		t.Errorf("a command is loaded without being named: %v", err)
	}
	both := wasmtest.Assemble(t, commandHead+"\nfunc $start _start : i64"+countRuns+"\nfunc $run run -> i32 : i64"+countRuns+" i32.const 0")
	p, err := rt.Load(context.Background(), "y", both, nil)
	if err != nil {
		t.Fatal(err)
	}
	if tools := p.Manifest().Tools; len(tools) != 1 || tools[0].Export != "run" {
		t.Errorf("it offers %+v, want run alone", tools)
	}
	// One that has run as a command finds no instance of other calls, and leaves none.
	for _, c := range []struct{ export, want string }{{"run", "1"}, {"run", "2"}, {guestmodule.CommandExport, "1"}, {"run", "3"}} {
		if r, err := p.Call(context.Background(), "acme", c.export, nil, nil); err != nil || string(r.Output) != c.want {
			t.Errorf("%s answers %q, %v; want %s", c.export, r.Output, err, c.want)
		}
	}
}

func TestNoGrantGoesBeyondTheHostsOfAnExtismManifest(t *testing.T) {
	wasm := wasmtest.Assemble(t, commandHead+"\nfunc $run run -> i32 : i64"+countRuns+" i32.const 0")
	access := func(names ...string) (list []HTTPAccess) {
		list = []HTTPAccess{}
		for _, name := range names {
			list = append(list, HTTPAccess{Scheme: "https", Host: name})
		}
		return list
	}
	rt := startRuntime(t, nil)
	for _, c := range []struct {
		name         string
		asks, grants []HTTPAccess
		want         int
	}{
		{"asks-and-is-granted", access("a.example"), access("a.example", "b.example"), 1},
		{"asks-and-is-not", access("a.example"), nil, 0},
		{"asks-for-nothing", access(), access("a.example"), 0},
		{"says-nothing", nil, access("a.example"), 1},
	} {
		p, err := rt.Load(context.Background(), c.name, wasm, &LoadOptions{Granted: Permissions{HTTP: c.grants}, Extism: ExtismOptions{Asks: c.asks}})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.GrantedTo("acme").HTTP; len(got) != c.want {
			t.Errorf("%s: granted %v, want %d", c.name, got, c.want)
		}
	}
}

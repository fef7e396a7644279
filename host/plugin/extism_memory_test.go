package plugin

import (
	"fmt"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
)

// What an Extism plugin has beside its memory counts with the memory of all
// instances: blocks, the list of them, and variables. It comes back with the end
// of the call, but for variables, which come back with the instance.
func TestExtismMemoryIsCounted(t *testing.T) {
	const total = 64 * pageBytes
	for _, row := range []struct{ name, code string }{
		{"blocks", "loop i64.const 65536 call $alloc drop br 0 end"},
		{"crumbs", "loop i64.const 1 call $alloc drop br 0 end"},
		{"variables", `loop i64.const 8 call $alloc local.tee 0 local.get 1 i64.const 1 i64.add local.tee 1 call $store_u64
			local.get 0 i64.const 60000 call $alloc call $var_set br 0 end`},
	} {
		t.Run(row.name, func(t *testing.T) {
			rt := startRuntime(t, &Options{TotalMemoryBytes: total})
			greedy, err := rt.Load(t.Context(), "greedy", extismHand(t, row.code+" i32.const 0"), &LoadOptions{
				Limits: Limits{BlockBytes: 1 << 30, VarBytes: 1 << 30, Instructions: 1 << 50}})
			if err != nil {
				t.Fatal(err)
			}
			_, err = greedy.Call(t.Context(), "a", "run", nil, nil)
			if host.CodeOf(err) != host.ResourceExhausted || !strings.Contains(fmt.Sprint(err), "TotalMemoryBytes") {
				t.Fatalf("it ends with %v, want resource_exhausted that names TotalMemoryBytes", err)
			}
			if used := rt.memories.Used(); used > pageBytes {
				t.Errorf("%d bytes are in use after the call", used)
			}
			greedy.Close()
			if used := rt.memories.Used(); used != 0 {
				t.Errorf("%d bytes are in use after the plugin was closed", used)
			}
		})
	}
}

// A tenant's blocks are its own use: what one call has, another tenant's does
// not, and an idle instance holds little.
func TestExtismMemoryIsTheTenants(t *testing.T) {
	rt := startRuntime(t, &Options{TotalMemoryBytes: 64 * pageBytes})
	p, err := rt.Load(t.Context(), "p", extismHand(t, fmt.Sprintf("i64.const %d call $alloc drop i32.const 0", 20*pageBytes)), &LoadOptions{Isolation: IsolationReuse})
	if err != nil {
		t.Fatal(err)
	}
	for _, tenant := range []string{"a", "b", "a", "c"} {
		r, err := p.Call(t.Context(), tenant, "run", nil, nil)
		if err != nil {
			t.Fatalf("tenant %s: %v", tenant, err)
		}
		if r.Cost.PeakMemory < 21*pageBytes {
			t.Errorf("tenant %s: peak memory is %d, want the blocks in it", tenant, r.Cost.PeakMemory)
		}
	}
	if used := rt.memories.Used(); used > 4*pageBytes {
		t.Errorf("idle instances hold %d bytes", used)
	}
	for tenant, flow := range rt.scheduler.Stats().Flows {
		if flow.Memory != 0 {
			t.Errorf("tenant %s has %d bytes and no call", tenant, flow.Memory)
		}
	}
}

// BenchmarkExtismAlloc is a block that is all of the default limit, in memory
// that no code has touched, in a call of its own.
func BenchmarkExtismAlloc(b *testing.B) {
	rt := startRuntime(b, nil)
	for _, n := range []int{1 << 10, 1 << 20, 60 << 20} {
		p, err := rt.Load(b.Context(), fmt.Sprint(n), extismHand(b, fmt.Sprintf("i64.const %d call $alloc drop i32.const 0", n)), nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if _, err := p.Call(b.Context(), "a", "run", nil, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

package plugin

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmtest"
)

// heldCompiler compiles as the test says, and tells it about each job.
type heldCompiler struct {
	begun chan struct{}
	done  chan struct{}
}

func (c *heldCompiler) compile(ctx context.Context, _ *CompileJob) error {
	select {
	case c.begun <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-c.done:
	case <-ctx.Done():
	}
	return host.Errorf(host.ResourceExhausted, "a bomb")
}

// TestCompileSlotsAreFair has a tenant load many modules that take long to compile:
// it gets one slot, another tenant's module is compiled beside them, and the time is
// on the bill of the one that loaded them.
func TestCompileSlotsAreFair(t *testing.T) {
	held := &heldCompiler{make(chan struct{}), make(chan struct{})}
	rt := startRuntime(t, &Options{Compiler: held.compile, CacheDir: t.TempDir()})
	var wg sync.WaitGroup
	defer wg.Wait()
	load := func(id, tenant string) {
		wasm := wasmtest.Assemble(t, "memory 1\nexport memory memory 0\nfunc $f "+abi.Tool.String()+" i32 -> i32\n i32.const 0\nfunc $name "+id+"\n nop\ncustom agenthost.manifest "+strconv.Quote(doorManifests[abi.Tool]))
		wg.Go(func() {
			if _, err := rt.Load(context.Background(), id, wasm, &LoadOptions{Tenants: []string{tenant}}); host.CodeOf(err) != host.ResourceExhausted {
				t.Errorf("load %s with a compiler that fails: %v", id, err)
				held.begun <- struct{}{}
			}
		})
	}
	for i := range 4 {
		load(fmt.Sprintf("bomb%d", i), "greedy")
	}
	<-held.begun // one of the four has a slot
	waiting := func(n int) {
		for {
			if rt.compiler.slots.Stats().Waiting == n {
				return
			}
			runtime.Gosched()
		}
	}
	waiting(3) // the other slot is free, and none of the three gets it
	load("honest", "other")
	<-held.begun // thus it is of the other tenant
	waiting(3)
	held.done <- struct{}{}
	held.done <- struct{}{}
	for range 3 {
		<-held.begun
		held.done <- struct{}{}
	}
	wg.Wait()
	var lines []string
	for _, c := range rt.UsageReport().Items {
		if c.Compile <= 0 || c.Export != compileLine {
			t.Errorf("a line of the bill is %+v, want one for compiling", c)
		}
		lines = append(lines, c.Tenant+" "+c.Plugin)
	}
	if want := []string{"greedy bomb0", "greedy bomb1", "greedy bomb2", "greedy bomb3", "other honest"}; !slices.Equal(lines, want) {
		t.Errorf("the bill has lines for %q, want %q", lines, want)
	}
}

package plugin

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"github.com/agenthost/agenthost/internal/longtest"
)

// footprint is what a process holds.
type footprint struct {
	heap, resident int64 // bytes; resident is 0 where it cannot be read
	goroutines     int
}

// measureFootprint collects garbage before it looks: code is unmapped by
// finalizers, which run after one collection and are done by the next.
func measureFootprint() footprint {
	for range 3 {
		debug.FreeOSMemory() // what the runtime keeps for later is no growth
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return footprint{int64(m.HeapAlloc), residentBytes(), runtime.NumGoroutine()}
}

// residentBytes reads what Linux says of this process.
func residentBytes() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(b), &size, &resident); err != nil {
		return 0
	}
	return resident * int64(os.Getpagesize())
}

// TestLoadAndUnloadDoesNotGrow loads, calls and unloads modules of which no two
// are the same, each with types of its own.
func TestLoadAndUnloadDoesNotGrow(t *testing.T) {
	rounds := longtest.Rounds(500, 10_000)
	const most = 20 << 20 // bytes that a process may grow by; the race detector keeps shadows of them
	rt := startRuntime(t, nil)
	ctx := context.Background()
	round := func(i int) {
		wasm := handWritten(t, fmt.Sprintf("type%s%s ->\n---\ni32.const 0 i32.const %d i32.store i32.const 0",
			strings.Repeat(" i32", 1+i%100), strings.Repeat(" i64", 1+i/100), i))
		p, err := rt.Load(ctx, "p", wasm, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := p.Call(ctx, "t", "tool", []byte("{}"), nil); err != nil {
			t.Fatal(r, err)
		}
		p.Close()
	}
	for i := range rounds / 10 { // what a process grows to at first
		round(i)
	}
	before := measureFootprint()
	for i := rounds / 10; i < rounds; i++ {
		round(i)
	}
	after := measureFootprint()
	t.Logf("%d rounds: heap %d to %d kB, resident %d to %d kB", rounds, before.heap>>10, after.heap>>10, before.resident>>10, after.resident>>10)
	if len(rt.compiler.codes) != 0 || len(rt.plugins) != 0 {
		t.Errorf("%d codes and %d plugins are left", len(rt.compiler.codes), len(rt.plugins))
	}
	if grown := after.heap - before.heap; grown > most/10 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	if grown := after.resident - before.resident; grown > raceFactor*most {
		t.Errorf("the process grew by %d bytes", grown)
	}
	if after.goroutines > before.goroutines {
		t.Errorf("goroutines grew from %d to %d", before.goroutines, after.goroutines)
	}
}

// TestSameModuleIsCompiledOnce loads one module under many ids at once.
func TestSameModuleIsCompiledOnce(t *testing.T) {
	rt := startRuntime(t, nil)
	wasm := handWritten(t, "i32.const 0")
	plugins := make([]*Plugin, 20)
	var wg sync.WaitGroup
	for i := range plugins {
		wg.Go(func() {
			p, err := rt.Load(context.Background(), fmt.Sprint("p", i), bytes.Clone(wasm), nil)
			if err != nil {
				t.Error(err)
			}
			plugins[i] = p
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	first := plugins[0].module.code
	for _, p := range plugins {
		if p.module.code != first {
			t.Error("the same bytes were compiled twice")
		}
	}
	if len(rt.compiler.codes) != 1 || first.refs != len(plugins) {
		t.Errorf("%d codes with %d references, want 1 with %d", len(rt.compiler.codes), first.refs, len(plugins))
	}
	for _, p := range plugins[1:] {
		p.Close()
	}
	if _, err := plugins[0].Call(context.Background(), "t", "tool", []byte("{}"), nil); err != nil {
		t.Errorf("the last of them: %v", err)
	}
	plugins[0].Close()
	if len(rt.compiler.codes) != 0 {
		t.Errorf("%d codes are left", len(rt.compiler.codes))
	}
}

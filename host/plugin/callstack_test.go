package plugin

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/tetratelabs/wazero/api"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmtest"
)

// heavyFrames recurses as often as its first byte says, times 39. Each frame has 1,000
// values, of which 24 at a time live across a call.
var heavyFrames = wasmtest.Expand(`
	func $nop -
	func $deep - i32
	local.get 0 i32.eqz if return end
	<<i32.const 8 i32.const 8 i32.load *24> call $nop <i32.store *24> *42>
	local.get 0 i32.const 1 i32.sub call $deep
	---
	i32.const 0 i32.const 0 i32.const 1 call $input_read drop
	i32.const 0 i32.load8_u i32.const 39 i32.mul call $deep
	i32.const 0 i32.const 0 i32.const 1 call $input_read drop
	i32.const 0 i32.const 1 call $output_write
	i32.const 0`)

// The stack of a call is read where it lies: what the host counts depends on a field
// of wazero's.
func TestStackIsMeasured(t *testing.T) {
	p := loadHand(t, heavyFrames, Limits{})
	for _, c := range []struct {
		input string
		most  int64 // bytes
	}{{"\x00", smallStack}, {"\x10", 1 << 30}, {"\xff", 1 << 30}} {
		if got := calls(t, p, "a", c.input); got != c.input {
			t.Fatalf("a call answers %q, want %q", got, c.input)
		}
	}
	fn := p.instances.Idle()[0].guest.function(abi.Tool)
	if base, size := stackOf(fn); base == 0 || size < 10_000 || size > smallStack {
		t.Errorf("the stack of a function is %d bytes at %x, want wazero's first one", size, base)
	}
}

// What a deep call needs of stack counts while it runs and is dropped with it.
func TestStackIsCountedAndDropped(t *testing.T) {
	rt := startRuntime(t, nil)
	p := loadIsolated(t, rt, heavyFrames, IsolationReuse, Limits{})
	calls(t, p, "a", "\x00")
	shallow := rt.memories.Used()
	r, err := p.Call(t.Context(), "a", "tool", []byte("\xff"), nil)
	if err != nil {
		t.Fatal(err)
	}
	const frames = 255 * 39 * 1000 * 8 // bytes, if each value has a slot
	if got := r.Cost.PeakMemory; got < frames/2 {
		t.Errorf("a call of %d MB of stack has a peak memory of %d MB", frames>>20, got>>20)
	}
	if n := IdleInstances(p); n != 1 {
		t.Errorf("%d instances are kept after a deep call, want 1 without its stack", n)
	}
	if used := rt.memories.Used(); used != shallow {
		t.Errorf("%d bytes are in use after a deep call, want %d as after one that is not", used, shallow)
	}
	for _, inst := range p.instances.Idle() {
		for _, fn := range inst.guest.functions {
			if fn == nil {
				continue
			}
			if _, size := stackOf(fn); size > smallStack {
				t.Errorf("an idle instance keeps a stack of %d bytes", size)
			}
		}
	}
	p.Close()
	if used := rt.memories.Used(); used != 0 {
		t.Errorf("%d bytes are in use after the plugin is closed", used)
	}
}

// A call that asks for more stack by the estimate and uses little leaves its stack to the
// next call: a Go guest does that in every call.
func TestSmallStackStaysWithItsInstance(t *testing.T) {
	rt := startRuntime(t, nil)
	p := loadIsolated(t, rt, strings.Replace(heavyFrames, "i32.const 39", "i32.const 10", 1), IsolationReuse, Limits{})
	calls(t, p, "a", "\x00")
	used := rt.memories.Used()
	inst := p.instances.Idle()[0]
	fn := inst.guest.functions[abi.Tool]
	calls(t, p, "a", "\x01")
	if fn == nil || inst.guest.functions[abi.Tool] != fn {
		t.Error("the function of a call that used little of its stack is dropped")
	}
	if now := rt.memories.Used(); now != used {
		t.Errorf("%d bytes are in use after the call, want %d as before", now, used)
	}
}

// Stacks count in the limit TotalMemoryBytes, for all calls together.
func TestStacksShareTheTotalMemory(t *testing.T) {
	rt := startRuntime(t, &Options{TotalMemoryBytes: 64 << 20})
	p := loadIsolated(t, rt, heavyFrames, IsolationReuse, Limits{Instances: 48})
	var wg sync.WaitGroup
	errs := make([]error, 48)
	for i := range errs {
		wg.Go(func() { _, errs[i] = p.Call(t.Context(), "a", "tool", []byte("\xff"), nil) })
	}
	wg.Wait()
	for _, err := range errs {
		if host.CodeOf(err) != host.ResourceExhausted || !strings.Contains(fmt.Sprint(err), "TotalMemoryBytes") {
			t.Errorf("a deep call ends with %v, want resource_exhausted that names TotalMemoryBytes", err)
		}
	}
	if got := calls(t, p, "b", "\x00"); got != "\x00" {
		t.Errorf("another tenant is answered %q", got)
	}
}

// A limit of calls ends a recursion where it did, whatever its frames weigh.
func TestCallDepthIsExact(t *testing.T) {
	for _, body := range []string{"", strings.Repeat("local.get 0 local.get 0 i32.mul ", 300)} {
		code := `func $deep - i32 -> i32
			local.get 0 i32.eqz if i32.const 0 return end
			` + body + `
			local.get 0 i32.const 1 i32.sub call $deep
			` + strings.Repeat("i32.add ", strings.Count(body, "mul")) + `
			---
			i32.const 0 i32.const 0 i32.const 4 call $input_read drop
			i32.const 0 i32.load call $deep drop
			i32.const 0`
		p := loadHand(t, code, Limits{CallDepth: 1000})
		frame := 1 + int64(1+strings.Count(body, "mul")+2)/64
		ends := (1000 - 1) / int(frame) // the tool itself has a frame
		for _, c := range []struct {
			depth int
			ok    bool
		}{{ends - 1, true}, {ends, false}} {
			in := []byte{byte(c.depth), byte(c.depth >> 8), 0, 0}
			_, err := p.Call(t.Context(), "a", "tool", in, nil)
			if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "CallDepth of 1000") {
				t.Errorf("%d values: a recursion of %d: %v, want none refused: %t", strings.Count(body, "mul"), c.depth, err, c.ok)
			}
		}
	}
}

// depthGlobal is a depth counter of no module.
type depthGlobal struct {
	api.MutableGlobal
	value uint64
}

func (g *depthGlobal) Set(v uint64) { g.value = v }

// Each export has a stack of its own. Where the first frame of a call may be large
// an idle instance keeps one, which is what is counted.
func TestIdleInstanceKeepsOneLargeStack(t *testing.T) {
	for _, c := range []struct{ frame, kept int64 }{{smallStack, 1}, {128, 2}} {
		inst := &instance{callStack: callStack{depth: &depthGlobal{}}}
		inst.callStack.start(1000, c.frame)
		for _, e := range []abi.Export{abi.Tool, abi.Process} {
			inst.guest.functions[e] = &struct {
				api.Function
				abi.Export
			}{nil, e}
			inst.callStack.use(inst.guest.functions[e])
		}
		inst.callStack.shrink(&inst.guest.functions)
		kept := int64(0)
		for _, fn := range inst.guest.functions {
			if fn != nil {
				kept++
			}
		}
		if kept != c.kept || inst.guest.functions[abi.Process] == nil {
			t.Errorf("frames of %d bytes: %d stacks are kept, want %d, the last among them", c.frame, kept, c.kept)
		}
	}
}

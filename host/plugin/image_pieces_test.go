package plugin

// Where the host looks while it moves an instance's memory can only be seen from
// inside.

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/fairsched"
	"github.com/agenthost/agenthost/host/plugin/internal/linearmem"
)

// lookedAt is a context that knows how often somebody asked whether it has ended.
// It does something before it answers some of these.
type lookedAt struct {
	context.Context
	looks int
	then  map[int]func()
}

func (c *lookedAt) Err() error {
	c.looks++
	if do := c.then[c.looks]; do != nil {
		do()
	}
	return c.Context.Err()
}

const (
	largePages  = 256 // of 64 KiB
	largePieces = largePages * pageBytes / linearmem.Piece
)

// large has a memory that its start code fills, and calls that write to it and
// grow it.
var large = fmt.Sprintf(`memory %d %d
	func $init _initialize
	i32.const 0 i32.const 7 i32.const %d memory.fill
	---
	i32.const %d memory.grow drop
	i32.const %d i32.const 1 i32.store8
	i32.const 0`, largePages, 4*largePages, largePages*pageBytes, largePages, 3*largePages*pageBytes/2)

func loadLarge(t *testing.T) *Plugin {
	return loadIsolated(t, startRuntime(t, nil), large, IsolationFresh,
		Limits{MemoryBytes: 4 * largePages * pageBytes, Timeout: time.Hour, StartTimeout: time.Hour})
}

// Whoever leaves while an image is taken is told so at the next piece of it, and
// no image is kept that is not whole.
func TestImagesAreTakenInPieces(t *testing.T) {
	p := loadLarge(t)
	start := func(at int) (looks int, err error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := &lookedAt{ctx, 0, map[int]func(){at: cancel}}
		inst, err := p.newInstance(c, p.bindings.of("a"), &fairsched.Flow{})
		inst.Close()
		return c.looks, err
	}
	p.module.code.images = images{}
	// Before the start code, after it, and to save what is not zero.
	all, err := start(0)
	if want := 3 * largePieces; err != nil || all < want {
		t.Fatalf("taking the image of %d pieces looks %d times, %v; want %d at least", largePieces, all, err, want)
	}
	made, err := start(0)
	if err != nil || made < largePieces {
		t.Errorf("an instance of the image takes %d looks, %v; want %d at least", made, err, largePieces)
	}
	if _, err := start(made / 2); host.CodeOf(err) != host.Canceled {
		t.Errorf("a caller who leaves while it is made: %v", err)
	}
	for at := 1; at <= all; at += 7 {
		p.module.code.images = images{}
		_, err := start(at)
		if host.CodeOf(err) != host.Canceled || p.module.code.images.get(p.limits) != nil {
			t.Fatalf("a caller who leaves at look %d of %d: %v, and there is an image: %t", at, all, err, p.module.code.images.get(p.limits) != nil)
		}
	}
}

// A caller who has what it called for does not wait for the restoring, if it has
// no time left: the instance is thrown away.
func TestRestoringEndsWithItsCall(t *testing.T) {
	p := loadLarge(t)
	call := func(at int) (looks int, kept bool) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := &lookedAt{ctx, 0, map[int]func(){at: cancel}}
		if _, err := p.Call(c, "a", "tool", nil, nil); err != nil {
			t.Fatal(err)
		}
		return c.looks, IdleInstances(p) == 1
	}
	call(0)
	all, kept := call(0)
	if all < largePieces || !kept {
		t.Fatalf("a call looks %d times, and its instance is kept: %t; want %d at least", all, kept, largePieces)
	}
	if looks, kept := call(all - 1); kept || looks != all-1 {
		t.Errorf("after %d looks of %d the caller is gone; the instance is kept: %t", looks, all, kept)
	}
	if used := p.runtime.memories.Used(); used != 0 {
		t.Errorf("%d bytes are in use without an instance", used)
	}
	if _, kept := call(0); !kept {
		t.Error("the next instance is not kept")
	}
}

// Another tenant's call does not wait until a large memory is restored: it is
// served before the next piece.
func TestRestoringGivesWay(t *testing.T) {
	rt := startRuntime(t, &Options{Running: 1})
	limits := Limits{MemoryBytes: 4 * largePages * pageBytes, Timeout: time.Hour, StartTimeout: time.Hour}
	p := loadIsolated(t, rt, large, IsolationFresh, limits)
	small := loadIsolated(t, rt, "i32.const 0", IsolationFresh, limits)
	call := func(then map[int]func()) (looks int) {
		c := &lookedAt{t.Context(), 0, then}
		if _, err := p.Call(c, "a", "tool", nil, nil); err != nil {
			t.Fatal(err)
		}
		return c.looks
	}
	call(nil)
	at := call(nil) - largePieces/2
	ended := make(chan error, 1)
	call(map[int]func(){
		at: func() {
			go func() {
				_, err := small.Call(t.Context(), "b", "tool", nil, nil)
				ended <- err
			}()
			for callsOf(rt.scheduler, "b") == 0 {
				runtime.Gosched()
			}
		},
		at + 1: func() {
			if n := callsOf(rt.scheduler, "b"); n != 0 {
				t.Error("the other tenant's call has not ended when restoring goes on")
			}
		},
	})
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// callsOf returns how many calls of a tenant wait or have begun.
func callsOf(turns *fairsched.Scheduler, tenant string) int {
	return turns.Stats().Flows[tenant].Calls
}

// without is held to what it does page by page.
func TestWithout(t *testing.T) {
	spans := rapid.Custom(func(t *rapid.T) (list []linearmem.Range) {
		at := 0
		for range rapid.IntRange(0, 8).Draw(t, "spans") {
			at += rapid.IntRange(0, 3).Draw(t, "gap")
			end := at + rapid.IntRange(1, 4).Draw(t, "length")
			list = append(list, linearmem.Range{Start: at, End: end})
			at = end
		}
		return list
	})
	in := func(list []linearmem.Range, at int) bool {
		for _, s := range list {
			if s.Start <= at && at < s.End {
				return true
			}
		}
		return false
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := spans.Draw(t, "a"), spans.Draw(t, "b")
		got := linearmem.Without(a, b)
		for at := range 60 {
			if want := in(a, at) && !in(b, at); in(got, at) != want {
				t.Fatalf("%v without %v is %v, wrong at %d", a, b, got, at)
			}
		}
	})
}

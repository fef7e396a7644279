package plugin

// The scheduler is seen from inside: from outside only times show, which are
// for benchmarks.

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
)

// inLine starts a call that waits for its turn and says when it has got it.
func inLine(t *testing.T, turns *turns, tenant string, order *[]string) {
	t.Helper()
	go func() {
		s, err := turns.enter(context.Background(), tenant, time.Hour)
		if err != nil {
			t.Errorf("enter: %v", err)
			return
		}
		*order = append(*order, tenant) // one turn: one at a time
		turns.leave(s, 1_000, true)
	}()
	synctest.Wait()
}

func TestTenantsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1, 100)
		busy, err := turns.enter(t.Context(), "a", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		var order []string
		for _, tenant := range []string{"a", "a", "a", "a", "b", "c", "b"} {
			inLine(t, turns, tenant, &order)
		}
		turns.leave(busy, 5_000_000, true)
		synctest.Wait()
		if got, want := fmt.Sprint(order), "[b c b a a a a]"; got != want {
			t.Errorf("after a long call of a the order is %s, want %s", got, want)
		}
		if turns.free != 1 || turns.begun != 0 || len(turns.line) != 0 {
			t.Errorf("at the end %d turns are free, %d calls begun, %d tenants in line", turns.free, turns.begun, len(turns.line))
		}
	})
}

// A running call gives way to a tenant that has had less, and goes on before
// what its own tenant has not begun.
func TestRunningCallsGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1, 100)
		a, err := turns.enter(t.Context(), "a", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if w := turns.again(a, slice, slice); w != nil {
			t.Fatal("a call gave way to nobody")
		}
		turns.again(a, 50_000_000, 50_000_000)
		var order []string
		inLine(t, turns, "a", &order)
		if w := turns.again(a, slice, slice); w != nil {
			t.Fatal("a call gave way to its own tenant at once")
		}
		inLine(t, turns, "b", &order)
		w := turns.again(a, slice, slice)
		if w == nil {
			t.Fatal("a call did not give way to a tenant that has had nothing")
		}
		synctest.Wait()
		if fmt.Sprint(order) != "[b]" {
			t.Errorf("it gave way to %v, want b", order)
		}
		if err := turns.await(t.Context(), a, w, time.Hour); err != nil {
			t.Fatal(err)
		}
		w = turns.again(a, slice, longStint)
		if w == nil {
			t.Fatal("a call never gives way to its own tenant")
		}
		if err := turns.await(t.Context(), a, w, time.Hour); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(order) != "[b a]" {
			t.Errorf("the order is %v, want b a", order)
		}
		turns.leave(a, 0, true)
		synctest.Wait()
	})
}

// Who waits in a host operation has no turn, and gets one again.
func TestTurnsArePaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1, 100)
		a, err := turns.enter(t.Context(), "a", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		turns.pause(a, 10)
		var order []string
		inLine(t, turns, "b", &order)
		if fmt.Sprint(order) != "[b]" {
			t.Fatal("b waits for a call that waits itself")
		}
		if err := turns.resume(t.Context(), a, time.Hour); err != nil {
			t.Fatal(err)
		}
		turns.leave(a, 10, true)
		if turns.free != 1 {
			t.Errorf("%d turns are free, want 1", turns.free)
		}
	})
}

// A call that has begun gets its turn back although others of its tenant wait to
// begin and may not: it is one of those that have to end before they can.
func TestWhatMayNotBeginKeepsNobodyWaiting(t *testing.T) {
	t.Run("that comes back from a host operation", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			turns := newTurns(1, 2)
			a, err := turns.enter(t.Context(), "a", time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			turns.pause(a, 10)
			var order []string
			inLine(t, turns, "a", &order) // one of two is what a tenant may have
			if err := turns.resume(t.Context(), a, time.Second); err != nil {
				t.Errorf("with every turn free: %v", err)
			}
			turns.leave(a, 10, err == nil)
			synctest.Wait()
			if fmt.Sprint(order) != "[a]" || turns.free != 1 || turns.begun != 0 || len(turns.line) != 0 {
				t.Errorf("at the end %v have had a turn, %d are free, %d calls begun, %d tenants in line", order, turns.free, turns.begun, len(turns.line))
			}
		})
	})
	t.Run("that has given way to them", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			turns := newTurns(1, 3)
			a, err := turns.enter(t.Context(), "a", time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			var second *share
			var paused, rest sync.WaitGroup
			paused.Add(1)
			rest.Go(func() { // begins, and waits in a host operation for long
				second, err = turns.enter(t.Context(), "a", time.Hour)
				turns.pause(second, 10)
				paused.Done()
			})
			synctest.Wait()
			var order []string
			inLine(t, turns, "a", &order) // may not begin once the second has
			w := turns.again(a, longStint, longStint)
			if w == nil {
				t.Fatal("a call never gives way to its own tenant")
			}
			paused.Wait()
			if err := turns.await(t.Context(), a, w, time.Second); err != nil {
				t.Errorf("with every turn free: %v", err)
			}
			turns.leave(a, 0, true)
			turns.leave(second, 0, false)
			rest.Wait()
			synctest.Wait()
			if fmt.Sprint(order) != "[a]" || turns.free != 1 || turns.begun != 0 || len(turns.line) != 0 {
				t.Errorf("at the end %v have had a turn, %d are free, %d calls begun, %d tenants in line", order, turns.free, turns.begun, len(turns.line))
			}
		})
	})
}

// A tenant may begin as many calls as are left free.
func TestNoTenantTakesAllCalls(t *testing.T) {
	turns := newTurns(100, 8)
	begun := func(tenant string) (n int) {
		for {
			s, err := turns.enter(t.Context(), tenant, time.Nanosecond)
			if errors.Is(err, errBusy) {
				return n
			} else if err != nil {
				t.Fatal(err)
			}
			turns.pause(s, 0)
			n++
		}
	}
	if a, b, c, d := begun("a"), begun("b"), begun("c"), begun("d"); a != 4 || b != 2 || c != 1 || d != 1 {
		t.Errorf("tenants begin %d, %d, %d and %d of 8 calls, want 4, 2, 1 and 1", a, b, c, d)
	}
}

func TestWaitingForATurnEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1, 100)
		s, err := turns.enter(t.Context(), "a", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := turns.enter(t.Context(), "b", time.Second); !errors.Is(err, errBusy) {
			t.Errorf("after a second: %v, want errBusy", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := turns.enter(ctx, "b", time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("at the caller's deadline: %v, want that", err)
		}
		turns.leave(s, 10, true)
		if turns.free != 1 || len(turns.line) != 0 || turns.begun != 0 {
			t.Errorf("%d turns are free, %d tenants in line, %d calls begun; want 1, 0 and 0", turns.free, len(turns.line), turns.begun)
		}
	})
}

// Tenants that come and go leave nothing.
func TestSharesAreForgotten(t *testing.T) {
	turns := newTurns(2, 100)
	for i := range 10 * shareSweep {
		s, err := turns.enter(t.Context(), fmt.Sprint(i), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		turns.leave(s, int64(i), true)
	}
	if n := len(turns.shares); n > shareSweep {
		t.Errorf("%d shares are kept, want at most %d", n, shareSweep)
	}
}

// counted answers a call's operations with 100 kB and counts them.
type counted struct {
	n     *atomic.Int64
	first func()
}

func (c counted) operate(context.Context, string, []byte) ([]byte, error) {
	if c.n.Add(1) == 1 {
		c.first()
	}
	return make([]byte, 100<<10), nil
}

// What the host does for a guest is time that others wait, so a call that runs
// few instructions of its own gives way as well.
func TestCallsOfHostOperationsGiveWay(t *testing.T) {
	rt := startRuntime(t, &Options{Running: 1})
	p, err := rt.Load(t.Context(), "x", handWritten(t, operating("state.get")), &LoadOptions{Limits: Limits{HostCalls: 1 << 30}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	var n, seen atomic.Int64
	var calls sync.WaitGroup
	begun := make(chan struct{})
	calls.Go(func() {
		_, err := p.call(ctx, "greedy", exportTool, nil, counted{&n, func() {
			close(begun)
			for rt.waiting() == 0 { // the other is not in line yet
				runtime.Gosched()
			}
		}}, nil)
		if host.CodeOf(err) != host.Canceled {
			t.Errorf("the greedy call ends in %v, want canceled", err)
		}
	})
	<-begun
	_, _ = p.call(t.Context(), "modest", exportTool, nil, counted{new(atomic.Int64), func() {
		seen.Store(n.Load())
		leave()
	}}, nil)
	calls.Wait()
	// A stint is 1,000,000 instructions, and an operation some 11,000.
	if got := seen.Load(); got > 200 {
		t.Errorf("the greedy call has made %d operations before anybody else had a turn", got)
	}
}

// What a call costs the host counts although the guest runs next to nothing: a
// tenant whose calls begin and end, or make an instance each, is not always the
// one that has used least.
func TestCallsOfFewInstructionsGiveWay(t *testing.T) {
	for _, c := range []struct {
		name, code string
		each       int64 // of four callers; the other's turn comes in the first half
	}{
		{"that end at once", "i32.const 0", credit / callPrice},
		{"that trap", "unreachable", 10 * credit / instancePrice},
	} {
		t.Run(c.name, func(t *testing.T) {
			rt := startRuntime(t, &Options{Running: 1})
			greedy, err := rt.Load(t.Context(), "greedy", handWritten(t, c.code), nil)
			if err != nil {
				t.Fatal(err)
			}
			modest, err := rt.Load(t.Context(), "modest", handWritten(t, "i32.const 0"), nil)
			if err != nil {
				t.Fatal(err)
			}
			s, err := rt.turns.enter(t.Context(), "modest", time.Hour) // it has used more than the others
			if err != nil {
				t.Fatal(err)
			}
			rt.turns.again(s, 10*credit, 0)
			var ended, before atomic.Int64
			var calls sync.WaitGroup
			for range 4 {
				calls.Go(func() {
					for range c.each {
						_, _ = greedy.call(t.Context(), "greedy", exportTool, nil, nil, nil)
						ended.Add(1)
					}
				})
			}
			for rt.waiting() == 0 {
				runtime.Gosched()
			}
			calls.Go(func() {
				_, err := modest.call(t.Context(), "modest", exportTool, nil, nil, nil)
				before.Store(ended.Load())
				if err != nil {
					t.Error(err)
				}
			})
			for rt.waiting() < 2 {
				runtime.Gosched()
			}
			rt.turns.leave(s, 0, true)
			calls.Wait()
			if got, most := before.Load(), 2*c.each; got > most {
				t.Errorf("%d calls of the greedy tenant went before the one of the other, more than %d", got, most)
			}
		})
	}
}

// waiting is how many tenants wait for a turn.
func (rt *Runtime) waiting() int {
	rt.turns.mu.Lock()
	defer rt.turns.mu.Unlock()
	return len(rt.turns.line)
}

package fairsched

// The scheduler is seen from inside: from outside only times show, which are
// for benchmarks.

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// waitingCall starts a call that waits for a permit and appends its flow to order when it
// has got one.
func waitingCall(t *testing.T, s *Scheduler, flow string, order *[]string) {
	t.Helper()
	go func() {
		f, err := s.Enter(context.Background(), flow, time.Hour)
		if err != nil {
			t.Errorf("enter: %v", err)
			return
		}
		*order = append(*order, flow) // one permit: one at a time
		s.Leave(f, 1_000, true)
	}()
	synctest.Wait()
}

func TestFlowsShareThePermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1, 100)
		busy, err := s.Enter(t.Context(), "a", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		var order []string
		for _, flow := range []string{"a", "a", "a", "a", "b", "c", "b"} {
			waitingCall(t, s, flow, &order)
		}
		s.Leave(busy, 5_000_000, true)
		synctest.Wait()
		if got, want := fmt.Sprint(order), "[b c b a a a a]"; got != want {
			t.Errorf("after a long call of a the order is %s, want %s", got, want)
		}
		if s.permits != 1 || s.started != 0 || len(s.runQueue) != 0 {
			t.Errorf("at the end %d permits are free, %d calls started, %d flows in the run queue", s.permits, s.started, len(s.runQueue))
		}
	})
}

// A running call gives way to a flow that has had less, and continues before
// those of its own flow that have not started.
func TestRunningCallsGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1, 100)
		a, err := s.Enter(t.Context(), "a", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if w := s.Check(a, 100_000, 100_000); w != nil {
			t.Fatal("a call gave way to nobody")
		}
		s.Check(a, 50_000_000, 50_000_000)
		var order []string
		waitingCall(t, s, "a", &order)
		if w := s.Check(a, 100_000, 100_000); w != nil {
			t.Fatal("a call gave way to its own flow at once")
		}
		waitingCall(t, s, "b", &order)
		w := s.Check(a, 100_000, 100_000)
		if w == nil {
			t.Fatal("a call did not give way to a flow that has had nothing")
		}
		synctest.Wait()
		if fmt.Sprint(order) != "[b]" {
			t.Errorf("it gave way to %v, want b", order)
		}
		if err := s.Await(t.Context(), a, w, time.Hour); err != nil {
			t.Fatal(err)
		}
		w = s.Check(a, 100_000, longQuantum)
		if w == nil {
			t.Fatal("a call never gives way to its own flow")
		}
		if err := s.Await(t.Context(), a, w, time.Hour); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(order) != "[b a]" {
			t.Errorf("the order is %v, want b a", order)
		}
		s.Leave(a, 0, true)
		synctest.Wait()
	})
}

// A call in a blocking section holds no permit, and gets one again.
func TestBlockedCallsHoldNoPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1, 100)
		a, err := s.Enter(t.Context(), "a", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		s.Block(a, 10)
		var order []string
		waitingCall(t, s, "b", &order)
		if fmt.Sprint(order) != "[b]" {
			t.Fatal("b waits for a call that waits itself")
		}
		if err := s.Unblock(t.Context(), a, time.Hour); err != nil {
			t.Fatal(err)
		}
		s.Leave(a, 10, true)
		if s.permits != 1 {
			t.Errorf("%d permits are free, want 1", s.permits)
		}
	})
}

// A call that has started gets its permit back although others of its flow wait to
// begin and may not: it is one of those that have to end before they can.
func TestCallsThatMayNotStartKeepNoneWaiting(t *testing.T) {
	t.Run("that comes back from a host operation", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := New(1, 2)
			a, err := s.Enter(t.Context(), "a", time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			s.Block(a, 10)
			var order []string
			waitingCall(t, s, "a", &order) // one of two is what a flow may have
			if err := s.Unblock(t.Context(), a, time.Second); err != nil {
				t.Errorf("with every permit free: %v", err)
			}
			s.Leave(a, 10, err == nil)
			synctest.Wait()
			if fmt.Sprint(order) != "[a]" || s.permits != 1 || s.started != 0 || len(s.runQueue) != 0 {
				t.Errorf("at the end %v have run, %d are free, %d calls started, %d flows in the run queue", order, s.permits, s.started, len(s.runQueue))
			}
		})
	})
	t.Run("that has given way to them", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := New(1, 3)
			a, err := s.Enter(t.Context(), "a", time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			var second *Flow
			var paused, rest sync.WaitGroup
			paused.Add(1)
			rest.Go(func() { // begins, and waits in a host operation for long
				second, err = s.Enter(t.Context(), "a", time.Hour)
				s.Block(second, 10)
				paused.Done()
			})
			synctest.Wait()
			var order []string
			waitingCall(t, s, "a", &order) // may not begin once the second has
			w := s.Check(a, longQuantum, longQuantum)
			if w == nil {
				t.Fatal("a call never gives way to its own flow")
			}
			paused.Wait()
			if err := s.Await(t.Context(), a, w, time.Second); err != nil {
				t.Errorf("with every permit free: %v", err)
			}
			s.Leave(a, 0, true)
			s.Leave(second, 0, false)
			rest.Wait()
			synctest.Wait()
			if fmt.Sprint(order) != "[a]" || s.permits != 1 || s.started != 0 || len(s.runQueue) != 0 {
				t.Errorf("at the end %v have run, %d are free, %d calls started, %d flows in the run queue", order, s.permits, s.started, len(s.runQueue))
			}
		})
	})
}

// A flow may start as many calls as are left free.
func TestNoFlowTakesAllCalls(t *testing.T) {
	s := New(100, 8)
	startable := func(flow string) (n int) {
		for {
			f, err := s.Enter(t.Context(), flow, time.Nanosecond)
			if errors.Is(err, ErrBusy) {
				return n
			} else if err != nil {
				t.Fatal(err)
			}
			s.Block(f, 0)
			n++
		}
	}
	if a, b, c, d := startable("a"), startable("b"), startable("c"), startable("d"); a != 4 || b != 2 || c != 1 || d != 1 {
		t.Errorf("flows start %d, %d, %d and %d of 8 calls, want 4, 2, 1 and 1", a, b, c, d)
	}
}

func TestWaitingForAPermitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1, 100)
		f, err := s.Enter(t.Context(), "a", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Enter(t.Context(), "b", time.Second); !errors.Is(err, ErrBusy) {
			t.Errorf("after a second: %v, want ErrBusy", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Enter(ctx, "b", time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("at the caller's deadline: %v, want that", err)
		}
		s.Leave(f, 10, true)
		if s.permits != 1 || len(s.runQueue) != 0 || s.started != 0 {
			t.Errorf("%d permits are free, %d flows in the run queue, %d calls started; want 1, 0 and 0", s.permits, len(s.runQueue), s.started)
		}
	})
}

// Tenants that come and go leave nothing.
func TestIdleFlowsAreForgotten(t *testing.T) {
	s := New(2, 100)
	for i := range 10 * maxFlows {
		f, err := s.Enter(t.Context(), fmt.Sprint(i), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		s.Leave(f, int64(i), true)
	}
	if n := len(s.flows); n > maxFlows {
		t.Errorf("%d flows are kept, want at most %d", n, maxFlows)
	}
}

// A flow with as many calls as it may start has others start while these are suspended, and
// no more once they continue, until the surplus has ended.
func TestSuspendedCallsLetOthersStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(10, 4) // of which one flow may start two
		enter := func(flow string) *Flow {
			t.Helper()
			f, err := s.Enter(t.Context(), flow, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
		refused := func() {
			t.Helper()
			if _, err := s.Enter(t.Context(), "a", time.Second); !errors.Is(err, ErrBusy) {
				t.Errorf("a call too many starts: %v", err)
			}
		}
		a := enter("a")
		enter("a")
		refused()
		s.Suspend(a, 1_000)
		s.Suspend(a, 1_000)
		enter("a")
		enter("a")
		refused()
		if err := s.Resume(t.Context(), a, time.Second); err != nil {
			t.Error(err)
		}
		ended, leave := context.WithCancel(t.Context())
		leave()
		s.permits = 0 // taken by other flows
		if err := s.Resume(ended, a, time.Second); !errors.Is(err, context.Canceled) {
			t.Errorf("Resume of a call whose caller has left: %v", err)
		}
		s.permits = 7
		s.Leave(a, 0, true)
		s.Leave(a, 0, true)
		refused()
		s.Leave(a, 0, true)
		enter("a")
		s.Leave(a, 0, true)
		s.Leave(a, 0, false)
		if s.permits != 11-1 || s.started != 0 || a.started != 0 || a.calls != 0 {
			t.Errorf("at the end %d permits are free, %d calls started, %d of the flow, which has %d", s.permits, s.started, a.started, a.calls)
		}
	})
}

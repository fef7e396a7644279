package plugin

// Scenario: tenants with many cheap calls share the processor with other tenants.

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/fairsched"
)

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
		_, err := p.call(ctx, "greedy", abi.Tool, nil, counted{&n, func() {
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
	_, err = p.call(ctx, "modest", abi.Tool, nil, counted{new(atomic.Int64), func() {
		seen.Store(n.Load())
		leave()
	}}, nil)
	if host.CodeOf(err) != host.Canceled {
		t.Errorf("the modest call ends in %v, want canceled", err)
	}
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
		{"that end at once", "i32.const 0", fairsched.MaxCredit / callPrice},
		{"that trap", "unreachable", 10 * fairsched.MaxCredit / instancePrice},
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
			s, err := rt.scheduler.Enter(t.Context(), "modest", time.Hour) // it has used more than the others
			if err != nil {
				t.Fatal(err)
			}
			rt.scheduler.Check(s, 10*fairsched.MaxCredit, 0)
			var ended, before atomic.Int64
			var calls sync.WaitGroup
			for range 4 {
				calls.Go(func() {
					for range c.each {
						_, _ = greedy.call(t.Context(), "greedy", abi.Tool, nil, nil, nil)
						ended.Add(1)
					}
				})
			}
			for rt.waiting() == 0 {
				runtime.Gosched()
			}
			calls.Go(func() {
				_, err := modest.call(t.Context(), "modest", abi.Tool, nil, nil, nil)
				before.Store(ended.Load())
				if err != nil {
					t.Error(err)
				}
			})
			for rt.waiting() < 2 {
				runtime.Gosched()
			}
			rt.scheduler.Leave(s, 0, true)
			calls.Wait()
			if got, most := before.Load(), 2*c.each; got > most {
				t.Errorf("%d calls of the greedy tenant went before the one of the other, more than %d", got, most)
			}
		})
	}
}

// waiting is how many tenants wait for a turn.
func (rt *Runtime) waiting() int {
	n := 0
	for _, flow := range rt.scheduler.Stats().Flows {
		if flow.Waiting > 0 {
			n++
		}
	}
	return n
}

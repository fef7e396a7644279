package callmeter

// Scenario: a guest runs out of fuel while its call stack grows outside its scheduler
// quantum, or waits while others take the memory that the stack had.

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/plugin/internal/fairsched"
)

// A guest whose fuel ends where its stack grows is not in the run queue: it must not
// yield its place to others, or as many more guests run at once.
func TestGuestWhoseStackGrowsYieldsToNoOther(t *testing.T) {
	h := &Host{Scheduler: fairsched.New(1, 10), Uninterruptible: fairsched.New(1, math.MaxInt)}
	enter := func(tenant string) *fairsched.Flow {
		f, err := h.Scheduler.Enter(t.Context(), tenant, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	m, deep := New(h, "p", nil), enter("deep")
	m.SetPayer(Payer{Tenant: "deep", Flow: deep})
	m.Begin(&Call{Context: t.Context(), Start: time.Now(), Timeout: 10 * time.Millisecond})
	m.BeginGrowth(2 << 20 / BytesPerInstruction)
	enter("runs")
	h.Scheduler.Check(deep, 10_000_000, 0) // no call waits yet
	ctx, leave := context.WithCancel(t.Context())
	var waits sync.WaitGroup
	waits.Go(func() {
		if _, err := h.Scheduler.Enter(ctx, "waits", time.Hour); !errors.Is(err, context.Canceled) {
			t.Errorf("a call that waits for the only place: %v, want canceled", err)
		}
	})
	for h.Scheduler.Stats().Waiting == 0 {
		runtime.Gosched()
	}
	func() {
		defer func() {
			if p := recover(); p != nil {
				t.Errorf("the guest was stopped: %v", p)
			}
		}()
		m.yield(FuelQuantum)
	}()
	if flow := h.Scheduler.Stats().Flows["waits"]; flow.Calls != 1 || flow.Started != 0 {
		t.Error("a call has begun although the only place is taken")
	}
	leave()
	waits.Wait()
}

// fakeStack notes how its memory is counted.
type fakeStack struct {
	suspended bool
	waits     int   // calls of Suspend
	full      error // of Resume: others have the memory
}

func (s *fakeStack) Suspend() { s.suspended, s.waits = true, s.waits+1 }

func (s *fakeStack) Resume() error {
	s.suspended = false
	return s.full
}

// While a call waits for tools, or for its turn, its stack counts for what it has. Where there
// is no memory when it is to run again it ends, and holds no place that it does not give back.
func TestTheStackOfACallThatWaitsCountsAgainBeforeItRuns(t *testing.T) {
	full := errors.New("others have the memory")
	for claim, wait := range map[string]func(t *testing.T, m *Meter, stack *fakeStack){
		"a call that waits for tools": func(t *testing.T, m *Meter, stack *fakeStack) {
			o, end := m.BeginOperation()
			defer end()
			WhileCalling(o, func(context.Context) {
				if st := m.host.Scheduler.Stats(); !stack.suspended || st.Free != 1 || st.Flows["acme"].Started != 0 {
					t.Errorf("while it waits: %+v of %+v", stack, st)
				}
			})
		},
		"a call that waits for its turn": func(t *testing.T, m *Meter, stack *fakeStack) {
			var other sync.WaitGroup
			defer other.Wait()
			other.Go(func() {
				f, err := m.host.Scheduler.Enter(t.Context(), "other", time.Hour)
				if err != nil {
					t.Error(err)
					return
				}
				m.host.Scheduler.Leave(f, 0, true)
			})
			for m.host.Scheduler.Stats().Waiting == 0 {
				runtime.Gosched()
			}
			if !m.YieldAfter(100 * FuelQuantum) {
				t.Error("the call's time is up")
			}
		},
	} {
		for _, err := range []error{nil, full} {
			t.Run(fmt.Sprint(claim, ", then ", err), func(t *testing.T) {
				h, stack := &Host{Scheduler: fairsched.New(1, 10), Uninterruptible: fairsched.New(1, math.MaxInt)}, &fakeStack{full: err}
				flow, enterErr := h.Scheduler.Enter(t.Context(), "acme", time.Hour)
				if enterErr != nil {
					t.Fatal(enterErr)
				}
				m := New(h, "p", stack)
				m.SetPayer(Payer{Tenant: "acme", Flow: flow})
				m.Begin(&Call{Context: t.Context(), Start: time.Now(), Timeout: time.Hour})
				stopped := func() (p any) {
					defer func() { p = recover() }()
					wait(t, &m, stack)
					return nil
				}()
				if stack.suspended || stack.waits != 1 || (stopped != nil) != (err != nil) || !errors.Is(m.Stopped(), err) {
					t.Errorf("behind it the stack is %+v, and the guest is stopped by %v", stack, stopped)
				}
				h.Scheduler.Leave(flow, 0, !m.Unscheduled())
				if st := h.Scheduler.Stats(); st.Free != 1 || st.Flows["acme"].Calls != 0 || st.Flows["acme"].Started != 0 {
					t.Errorf("behind its end: %+v", st)
				}
			})
		}
	}
}

package callmeter

// Scenario: a guest runs out of fuel while its call stack grows outside its scheduler
// quantum.

import (
	"context"
	"errors"
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

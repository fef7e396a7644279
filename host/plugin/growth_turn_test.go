package plugin

// Scenario: a guest runs out of fuel while its call stack grows outside its scheduler
// quantum.

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/plugin/internal/fairsched"
)

// A guest whose fuel ends where its stack grows apart has no turn: it must not give
// one to others, or as many more guests run at once.
func TestGuestWhoseStackGrowsGivesNoTurnAway(t *testing.T) {
	rt := &Runtime{scheduler: fairsched.New(1, 10), apart: newApart()}
	inst := &instance{tenant: "deep", plugin: &Plugin{id: "p", runtime: rt}}
	inst.call = call{ctx: t.Context(), deadline: time.Now().Add(10 * time.Millisecond), limits: &Limits{}}
	enter := func(tenant string) *fairsched.Flow {
		s, err := rt.scheduler.Enter(t.Context(), tenant, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	inst.share = enter("deep")
	inst.beginGrowth(growApart)
	enter("runs")
	rt.scheduler.Check(inst.share, 10_000_000, 0) // nobody waits yet
	ctx, leave := context.WithCancel(t.Context())
	var waits sync.WaitGroup
	waits.Go(func() {
		if _, err := rt.scheduler.Enter(ctx, "waits", time.Hour); !errors.Is(err, context.Canceled) {
			t.Errorf("a call that waits for the only turn: %v, want canceled", err)
		}
	})
	for rt.scheduler.Stats().Waiting == 0 {
		runtime.Gosched()
	}
	func() {
		defer func() {
			if p := recover(); p != nil {
				t.Errorf("the guest was stopped: %v", p)
			}
		}()
		inst.yield(fuelQuantum)
	}()
	if flow := rt.scheduler.Stats().Flows["waits"]; flow.Calls != 1 || flow.Started != 0 {
		t.Error("a call has begun although the only turn is taken")
	}
	leave()
	waits.Wait()
}

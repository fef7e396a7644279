package plugin

import (
	"testing"
	"time"
)

// A guest whose fuel ends where its stack grows apart has no turn: it must not give
// one to others, or as many more guests run at once.
func TestGuestWhoseStackGrowsGivesNoTurnAway(t *testing.T) {
	rt := &Runtime{turns: newTurns(1, 10), apart: newApart()}
	inst := &instance{tenant: "deep", plugin: &Plugin{id: "p", runtime: rt}}
	inst.call = call{ctx: t.Context(), deadline: time.Now().Add(10 * time.Millisecond), limits: &Limits{}}
	enter := func(tenant string) *share {
		s, err := rt.turns.enter(t.Context(), tenant, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	inst.share = enter("deep")
	inst.beginGrowth(growApart)
	enter("runs")
	rt.turns.mu.Lock()
	rt.turns.charge(inst.share, 10*stint)
	waits := rt.turns.share("waits")
	rt.turns.wait(waits, true)
	rt.turns.mu.Unlock()
	func() {
		defer func() {
			if p := recover(); p != nil {
				t.Errorf("the guest was stopped: %v", p)
			}
		}()
		inst.yield(slice)
	}()
	if len(waits.queue) != 1 || waits.begun != 0 {
		t.Error("a call has begun although the only turn is taken")
	}
}

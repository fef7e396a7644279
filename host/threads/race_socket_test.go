package threads_test

// Scenario: turns of several processes run at once on one thread over a shared driver;
// none is lost.

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
)

// Turns of several processes on one thread race as those of one do: none is lost.
func TestTurnsOfSeveralProcessesRace(t *testing.T) {
	for _, racing := range []host.Racing{host.RaceWait, host.RaceConflict, host.RaceBranch} {
		t.Run(string(racing), func(t *testing.T) {
			stores := sharedStores(t, 2)
			agent := newAgent(t, nil)
			var mu sync.Mutex
			done := map[string][]string{} // by branch
			var refused []string
			var wg sync.WaitGroup
			for i := range 30 {
				h := newHost(t, stores[i%len(stores)], echo)
				wg.Go(func() {
					text := fmt.Sprintf("turn %d", i)
					result, err := h.Run(context.Background(), agent, &host.Request{Thread: "t1", Text: text, Racing: racing})
					mu.Lock()
					defer mu.Unlock()
					switch {
					case err == nil:
						done[result.Branch] = append(done[result.Branch], text)
					case racing == host.RaceConflict && host.CodeOf(err) == host.Conflict:
						refused = append(refused, text)
					default:
						t.Errorf("Run = %v", err)
					}
				})
			}
			wg.Wait()
			stored := 0
			for branch, want := range done {
				req := threadtest.Request("t1", "", nil)
				req.Branch = branch
				loaded, err := stores[1].Get(t.Context(), req)
				if err != nil {
					t.Fatal(err)
				}
				got := wantTurns(t, loaded.Messages)
				for _, text := range want {
					if !slices.Contains(got, text) {
						t.Errorf("%q is not on the branch %q", text, branch)
					}
				}
				stored += len(want)
			}
			if stored+len(refused) != 30 || stored == 0 {
				t.Errorf("%d turns are stored and %d refused, want 30", stored, len(refused))
			}
		})
	}
}

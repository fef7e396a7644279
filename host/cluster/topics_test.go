package cluster_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host/cluster"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/kv"
)

func TestAnnouncementsReachEveryMemberWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		a, b := join(t, store, nil), join(t, store, nil)
		var mu sync.Mutex
		calls := map[string]int{}
		for name, m := range map[string]*cluster.Member{"a": a, "b": b} {
			for _, topic := range []string{"grants", "budgets"} {
				if err := m.Subscribe(t.Context(), topic, func() { mu.Lock(); defer mu.Unlock(); calls[name+" "+topic]++ }); err != nil {
					t.Fatal(err)
				}
			}
		}
		time.Sleep(time.Minute)
		mu.Lock()
		if len(calls) > 0 {
			t.Errorf("calls without an announcement: %v", calls)
		}
		mu.Unlock()
		for range 2 {
			if err := a.Announce(t.Context(), "grants"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if calls["a grants"] != 2 || calls["b grants"] != 2 || len(calls) != 2 {
			t.Errorf("calls are %v, want two of grants on a and b", calls)
		}
	})
}

func TestTopicsAreChecked(t *testing.T) {
	m := join(t, kv.NewMemory(), nil)
	for _, topic := range []string{"", strings.Repeat("x", cluster.MaxTopicBytes+1)} {
		if err := m.Announce(t.Context(), topic); fault.CodeOf(err) != fault.InvalidArgument {
			t.Errorf("Announce of %d bytes: %v", len(topic), err)
		}
		if err := m.Subscribe(t.Context(), topic, func() {}); fault.CodeOf(err) != fault.InvalidArgument {
			t.Errorf("Subscribe to %d bytes: %v", len(topic), err)
		}
	}
}

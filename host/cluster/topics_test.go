package cluster_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
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

func TestAnAnnouncementWaitsForEveryMemberThatAcknowledges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		a, b, c := join(t, store, nil), join(t, store, nil), join(t, store, nil)
		var mu sync.Mutex
		var got []string
		fails := 3
		for name, m := range map[string]*cluster.Member{"a": a, "b": b} {
			err := m.SubscribeAcknowledged(t.Context(), "erasures", func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				if name == "b" && fails > 0 {
					fails--
					return errors.New("stuck")
				}
				got = append(got, name)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		for round := 1; round <= 2; round++ {
			begun := time.Now()
			if err := c.AnnounceAndWait(t.Context(), "erasures"); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			if len(got) != 2*round {
				t.Errorf("round %d: the functions of %v were called, want those of a and b", round, got)
			}
			mu.Unlock()
			if took := time.Since(begun); round == 2 && took > time.Second {
				t.Errorf("two members that answer took %s", took)
			}
		}
	})
}

func TestAnAnnouncementDoesNotWaitForADeadMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		of := &paused{Driver: store}
		a, b := join(t, store, nil), join(t, of, nil)
		var calls atomic.Int32
		if err := b.SubscribeAcknowledged(t.Context(), "erasures", func(context.Context) error { calls.Add(1); return nil }); err != nil {
			t.Fatal(err)
		}
		of.stopped.Store(true) // it can acknowledge nothing
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.AnnounceAndWait(ctx, "erasures"); fault.CodeOf(err) != fault.DeadlineExceeded || !strings.Contains(err.Error(), b.ID()) {
			t.Errorf("AnnounceAndWait = %v, want the end of its time, and the member's id", err)
		}
		if err := a.AnnounceAndWait(t.Context(), "erasures"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > 2*cluster.DefaultLease {
			t.Errorf("a dead member kept it waiting for %s", took)
		}
		of.stopped.Store(false)
		before := calls.Load()
		if err := b.Register(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if calls.Load() == before {
			t.Error("the member that came back has not called its function")
		}
		if err := a.AnnounceAndWait(t.Context(), "erasures"); err != nil {
			t.Fatal(err)
		}
	})
}

package sessions_test

// Scenario: sessions are deleted, also while turns run and wait.

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// A session that is deleted does not come back with a turn that a host has left
// behind, and neither does that turn run in another session of the same id.
func TestDeletedSessionsStayDeleted(t *testing.T) {
	for name, anew := range map[string]bool{"gone": false, "begun anew": true} {
		store := threads.New(testdriver.New(t), nil)
		tool, begun, open := gate(t)
		replies := hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
			if req.Messages[len(req.Messages)-1].Text() == "private" {
				return hosttest.Call("gate", "{}")
			}
			return hosttest.Say("ok")
		})
		target := newAgent(t, "clerk", replies, tool)
		first := newService(t, target, &sessions.Options{Store: store})
		out := run(t, first, &request{Session: "s", Text: "private", Detach: true})
		<-begun
		first.Close()
		if err := store.For("").Delete(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		second := newService(t, target, &sessions.Options{Store: store})
		if anew {
			run(t, second, &request{Session: "s", Text: "hello"})
		}
		if n, err := second.Recover(t.Context(), ""); n != 0 || err != nil {
			t.Errorf("%s: Recover = %d, %v; want nothing", name, n, err)
		}
		if _, err := second.Snapshot(t.Context(), &sessions.SnapshotRequest{Snapshot: out.Snapshot}); host.CodeOf(err) != host.NotFound {
			t.Errorf("%s: the turn's snapshot: %v", name, err)
		}
		_, err := store.For("").Thread(t.Context(), "s")
		if got := err == nil; got != anew {
			t.Errorf("%s: the session: %v", name, err)
		}
		close(open)
		leftNothing(t, store)
	}
}

// leftNothing fails if there is a record of a turn in the background.
func leftNothing(t *testing.T, store *threads.Store) {
	t.Helper()
	for e, err := range kv.All(t.Context(), store.Driver(), threads.DefaultTenant, kv.Range{Prefix: kv.NewKey("sessions", "run")}) {
		t.Errorf("there is a record of a turn: %q, %v", e.Value, err)
	}
}

// A session that is deleted while a turn runs in the background leaves nothing of
// the turn when it ends.
func TestDeletedWhileATurnRuns(t *testing.T) {
	store := threads.New(testdriver.New(t), nil)
	tool, begun, open := gate(t)
	s := newService(t, newAgent(t, "clerk", model(hosttest.Call("gate", "{}"), hosttest.Say("x")), tool), &sessions.Options{Store: store})
	out := run(t, s, &request{Text: "a", Detach: true})
	<-begun
	if err := store.For("").Delete(t.Context(), out.Session); err != nil {
		t.Fatal(err)
	}
	close(open)
	_, err := s.Wait(t.Context(), &sessions.SnapshotRequest{Snapshot: out.Snapshot})
	if host.CodeOf(err) != host.NotFound {
		t.Errorf("Wait: %v", err)
	}
	leftNothing(t, store)
}

// What is known of a turn that left nothing is forgotten after a week.
func TestOldRecordsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := threads.New(kv.NewMemory(), nil) // another driver would count the seconds of a week
		s := newService(t, agentOf(t)(), &sessions.Options{Store: store})
		out := run(t, s, &request{Session: "empty", Detach: true})
		if snap := wait(t, s, out.Snapshot); snap.Status != sessions.Failed {
			t.Fatalf("the turn is %s", snap.Status)
		}
		for _, c := range []struct {
			after time.Duration
			code  host.Code
		}{{6 * 24 * time.Hour, ""}, {25 * time.Hour, host.NotFound}} {
			time.Sleep(c.after)
			if n, err := s.Recover(t.Context(), ""); n != 0 || err != nil {
				t.Errorf("Recover = %d, %v", n, err)
			}
			if _, err := s.Snapshot(t.Context(), &sessions.SnapshotRequest{Snapshot: out.Snapshot}); host.CodeOf(err) != c.code {
				t.Errorf("after %s more it is %v, want code %q", c.after, err, c.code)
			}
		}
		leftNothing(t, store)
		s.Close()
	})
}

// A session that is deleted while turns of it wait in the background is not begun again
// by one of them, also not if there is another session of its id by then.
func TestDeletedWhileTurnsWait(t *testing.T) {
	for name, anew := range map[string]bool{"gone": false, "begun anew": true} {
		store := threads.New(testdriver.New(t), nil)
		tool, begun, open := gate(t)
		replies := hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
			if req.Messages[len(req.Messages)-1].Text() == "first" {
				return hosttest.Call("gate", "{}")
			}
			return hosttest.Say("ok")
		})
		s := newService(t, newAgent(t, "clerk", replies, tool), &sessions.Options{Store: store})
		outs := []*output{run(t, s, &request{Session: "s", Text: "first", Detach: true})}
		<-begun
		outs = append(outs, run(t, s, &request{Session: "s", Text: "private", Detach: true}))
		if err := store.For("").Delete(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		if anew {
			if _, _, err := store.For("").Create(t.Context(), &threads.CreateOptions{ID: "s"}); err != nil {
				t.Fatal(err)
			}
		}
		close(open)
		for _, out := range outs {
			if _, err := s.Wait(t.Context(), &sessions.SnapshotRequest{Snapshot: out.Snapshot}); host.CodeOf(err) != host.NotFound {
				t.Errorf("%s: Wait: %v, want not_found", name, err)
			}
		}
		thread, err := store.For("").Thread(t.Context(), "s")
		if (err == nil) != anew || anew && thread.Messages != 0 {
			t.Errorf("%s: the session is %+v, %v", name, thread, err)
		}
		leftNothing(t, store)
	}
}

package sessions_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// Who owns a store does not wait for signs of life of turns whose process was
// killed a moment ago, and leaves alone those that it runs itself.
func TestAdopt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := &dying{Driver: testdriver.New(t)}
		tool, begun, open := gate(t)
		target := newAgent(t, "clerk", model(hosttest.Call("gate", "{}"), hosttest.Call("gate", "{}"), hosttest.Say("done")), tool)
		first := newService(t, target, &sessions.Options{Store: threads.New(driver, nil)})
		out := run(t, first, &request{Text: "a", Detach: true})
		<-begun
		driver.dead.Store(true)
		time.Sleep(time.Second)

		second := newService(t, target, &sessions.Options{Store: threads.New(driver.Driver, nil)})
		if n, err := second.Recover(t.Context(), ""); n != 0 || err != nil {
			t.Errorf("Recover after a second = %d, %v; want nothing yet", n, err)
		}
		if n, err := second.Adopt(t.Context(), ""); n != 1 || err != nil {
			t.Errorf("Adopt = %d, %v; want the turn", n, err)
		}
		<-begun
		if n, err := second.Adopt(t.Context(), ""); n != 0 || err != nil || second.Running() != 1 {
			t.Errorf("Adopt of what it runs = %d, %v; %d run", n, err, second.Running())
		}
		close(open)
		if snap := wait(t, second, out.Snapshot); snap.Status != sessions.Completed {
			t.Errorf("it is %+v", snap)
		}
		first.Close()
		second.Close()
	})
}

// The turns in the background are listed for their tenant and their target: one
// that runs, and one that left nothing but why.
func TestBackground(t *testing.T) {
	store := threads.New(testdriver.New(t), nil)
	tool, begun, open := gate(t)
	s := newService(t, newAgent(t, "clerk", model(hosttest.Call("gate", "{}"), hosttest.Say("done")), tool), &sessions.Options{Store: store})
	defer s.Close()
	nothing := run(t, s, &request{Session: "empty", Detach: true})
	wait(t, s, nothing.Snapshot)
	out := run(t, s, &request{Session: "s", Text: "a", Detach: true})
	<-begun
	list, err := s.Background(t.Context(), "")
	if err != nil || len(list) != 2 || list[0].ID != nothing.Snapshot || list[0].Status != sessions.Failed ||
		list[1].ID != out.Snapshot || list[1].Status != sessions.Pending || list[1].Agent != "clerk" {
		t.Fatalf("Background = %+v, %v", list, err)
	}
	if list, err := s.Background(t.Context(), "eve"); err != nil || len(list) != 0 {
		t.Errorf("another tenant's are %+v, %v", list, err)
	}
	other := newService(t, newAgent(t, "other", model()), &sessions.Options{Store: store})
	if list, err := other.Background(t.Context(), ""); err != nil || len(list) != 0 {
		t.Errorf("another agent's are %+v, %v", list, err)
	}
	close(open)
	wait(t, s, out.Snapshot)
	if list, err := s.Background(t.Context(), ""); err != nil || len(list) != 1 {
		t.Errorf("what is stored is still listed: %+v, %v", list, err)
	}
	if _, err := clientKept(t).Background(t.Context(), ""); host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("Background where clients keep sessions: %v", err)
	}
}

func clientKept(t *testing.T) *service {
	t.Helper()
	return newService(t, agentOf(t)(), nil)
}

// A turn whose host was killed is found when the clock was set back since, by any
// time.
func TestRecoverAfterTheClockWasSetBack(t *testing.T) {
	driver := testdriver.New(t)
	s := newService(t, echo(t), &sessions.Options{Store: threads.New(driver, nil)})
	for run, back := range map[string]time.Duration{"r1": time.Hour, "r2": 365 * 24 * time.Hour} {
		if _, _, err := threads.New(driver, nil).For("").Create(t.Context(), &threads.CreateOptions{ID: run}); err != nil {
			t.Fatal(err)
		}
		value, err := kv.EncodeRecord(map[string]any{"v": 1, "run": run, "session": run, "agent": "clerk", "status": "pending", "attempts": 1,
			"input": host.UserText("hi"), "heartbeat": time.Now().Add(back)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := kv.Apply(t.Context(), driver, kv.Tx{Partition: threads.DefaultTenant, Writes: []kv.Write{kv.Put(kv.NewKey("sessions", "run", run), value)}}); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.Recover(t.Context(), ""); n != 2 || err != nil {
		t.Errorf("Recover = %d, %v; want both turns", n, err)
	}
	for _, id := range []string{"r1:r1", "r2:r2"} {
		if snap := wait(t, s, id); snap.Status != sessions.Completed {
			t.Errorf("%s is %+v", id, snap)
		}
	}
}

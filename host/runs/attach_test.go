package runs_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/runs"
)

func TestARunWhoseClientsHaveLeftTakesNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := newRegistry(t, newHost(t, nil), &runs.Options{LeaveGrace: 10 * time.Second})
		agent := newAgent(t, "clerk", &host.AgentOptions{Model: blocked(release)})
		start := func(id string, leave runs.Leave) error {
			_, err := r.Start(t.Context(), agent, &host.Request{Tenant: "acme", Run: id, Text: "go"}, &runs.StartOptions{OnLeave: leave})
			return err
		}
		attach := func(id string) *runs.Attachment {
			t.Helper()
			run, a, err := r.Attach(t.Context(), "acme", id)
			if err != nil || run.ID != id || run.Status != runs.Running {
				t.Fatalf("Attach = %+v, %v", run, err)
			}
			return a
		}
		for id, leave := range map[string]runs.Leave{"r1": runs.LeaveCancels, "r2": runs.LeaveContinues} {
			if err := start(id, leave); err != nil {
				t.Fatal(err)
			}
			first, second := attach(id), attach(id)
			first.Abandon()
			first.Abandon() // which ends nothing again
			third := attach(id)
			second.Abandon()
			third.Detach()
			attach(id).Abandon()
		}
		if _, _, err := r.Attach(t.Context(), "acme", "r1"); host.CodeOf(err) != host.NotFound {
			t.Errorf("the abandoned run: %v, want not_found", err)
		}
		if err := start("r3", runs.LeaveCancels); err != nil {
			t.Fatal(err)
		}
		attach("r3").Detach()
		time.Sleep(11 * time.Second) // its grace
		if _, _, err := r.Attach(t.Context(), "acme", "r3"); host.CodeOf(err) != host.NotFound {
			t.Errorf("the run without readers: %v, want not_found", err)
		}
		if err := start("r4", runs.LeaveCancels); err != nil {
			t.Fatal(err)
		}
		a := attach("r4")
		close(release)
		synctest.Wait()
		a.Abandon()
		for _, id := range []string{"r2", "r4"} {
			if run, _, err := r.Attach(t.Context(), "acme", id); err != nil || run.Status != runs.Completed {
				t.Errorf("run %s: %+v, %v", id, run, err)
			}
		}
		if _, _, err := r.Attach(t.Context(), "other", "r2"); host.CodeOf(err) != host.NotFound {
			t.Errorf("the run of another tenant: %v", err)
		}
	})
}

func TestAnAttachedRunIsReadWhenTheRegistryHasForgottenIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(t, newHost(t, nil), &runs.Options{MaxEnded: 1})
		agent := newAgent(t, "clerk", &host.AgentOptions{Model: words(1)})
		start := func(id string) *runs.Attachment {
			t.Helper()
			_, a, err := r.StartAttached(t.Context(), agent, &host.Request{Tenant: "acme", Run: id, Text: "go"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		a := start("r1")
		defer a.Detach()
		synctest.Wait()
		start("r2").Detach()
		synctest.Wait()
		if _, err := r.Get(t.Context(), "acme", "r1"); host.CodeOf(err) != host.NotFound {
			t.Fatalf("Get: %v, want that the registry has forgotten the run", err)
		}
		if run, err := a.Wait(t.Context()); err != nil || run.Status != runs.Completed || run.Result == nil {
			t.Errorf("Wait: %+v, %v", run, err)
		}
		var last host.Event
		for ev, err := range a.Events(t.Context(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			last = ev
		}
		if last.Data == nil || last.Data.Type() != "run.finished" {
			t.Errorf("the last event is %+v", last)
		}
	})
}

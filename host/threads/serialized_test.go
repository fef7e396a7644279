package threads_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
)

// An agent's thread goes on after a restart, on disk, as it was.
func TestAgentThreadsSurviveReopening(t *testing.T) {
	dir := t.TempDir()
	model := hosttest.NewModel(hosttest.Say("R0"), hosttest.Say("R1"), hosttest.Say("R2"))
	agent, err := host.NewAgent("clerk", &host.AgentOptions{Model: model})
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.New(&host.Options{SingleTenant: true})
	if err != nil {
		t.Fatal(err)
	}
	head := ""
	for round := range 3 {
		s, done := openBadger(t, dir)
		var thread *host.AgentThread
		data, at, err := s.For("acme").LoadAgentThread(t.Context(), "u1")
		switch {
		case round == 0 && host.CodeOf(err) == host.NotFound:
			thread, err = agent.NewThread(t.Context(), &host.ThreadOptions{Tenant: "acme"})
		case err == nil && at == head:
			thread, err = agent.RestoreThread(t.Context(), data, &host.ThreadOptions{Tenant: "acme"})
		}
		if err != nil || thread == nil {
			t.Fatalf("round %d: %v, head %q, want %q", round, err, at, head)
		}
		if _, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Text: fmt.Sprint("Q", round), AgentThread: thread}); err != nil {
			t.Fatal(err)
		}
		if data, err = thread.Serialize(t.Context()); err != nil {
			t.Fatal(err)
		}
		if head, err = s.For("acme").SaveAgentThread(t.Context(), "u1", data, at); err != nil {
			t.Fatal(err)
		}
		done()
	}
	if n := len(model.Requests()[2].Messages); n != 5 {
		t.Errorf("the last run sees %d messages, want 5", n)
	}
}

func TestSerializedThreadsAreOfOneTenant(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	for _, tenant := range []string{"", "acme"} {
		if _, err := s.For(tenant).SaveAgentThread(t.Context(), "u1", []byte("of "+tenant), ""); err != nil {
			t.Fatal(err)
		}
	}
	for _, tenant := range []string{"", "acme"} {
		if data, _, err := s.For(tenant).LoadAgentThread(t.Context(), "u1"); err != nil || string(data) != "of "+tenant {
			t.Errorf("tenant %q loads %q, %v", tenant, data, err)
		}
		if keys, err := s.For(tenant).AgentThreads(t.Context(), "", 0); err != nil || !slices.Equal(keys, []string{"u1"}) {
			t.Errorf("tenant %q has the keys %q, %v", tenant, keys, err)
		}
	}
	if err := s.For("acme").DeleteAgentThread(t.Context(), "u1"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.For("acme").LoadAgentThread(t.Context(), "u1"); host.CodeOf(err) != host.NotFound {
		t.Errorf("a deleted thread: %v, want code not_found", err)
	}
	bad := s.For("a\x00b")
	_, saved := bad.SaveAgentThread(t.Context(), "u1", nil, "")
	_, _, loaded := bad.LoadAgentThread(t.Context(), "u1")
	_, listed := bad.AgentThreads(t.Context(), "", 0)
	for _, err := range []error{saved, loaded, listed, bad.DeleteAgentThread(t.Context(), "u1")} {
		if host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("a name that no tenant can have: %v, want code invalid_argument", err)
		}
	}
}

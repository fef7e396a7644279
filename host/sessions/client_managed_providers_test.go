package sessions_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/testdriver"
	"github.com/agenthost/agenthost/internal/testhost"
)

// visits is a provider that counts the runs it has seen.
type visits struct{ seen []int }

func (*visits) Name() string { return "visits" }

func (v *visits) Provide(_ context.Context, req *host.ProvideRequest) (*host.Provided, error) {
	n := 0
	if _, err := req.Own.Get(&n); err != nil {
		return nil, err
	}
	v.seen = append(v.seen, n)
	return &host.Provided{}, req.Own.Set(n + 1)
}

// visited returns an agent with the provider.
func visited(t *testing.T, v *visits, replies ...hosttest.Reply) *host.Agent {
	t.Helper()
	return testhost.NewAgent(t, "clerk", &host.AgentOptions{Model: model(replies...), Providers: []host.Provider{v}, Tools: []*host.Tool{askOnce(t)}})
}

// What context providers keep goes with a session that its client keeps, and is
// as it was after a turn that failed.
func TestProvidersOfASessionThatTheClientKeeps(t *testing.T) {
	v := &visits{}
	s := newService(t, visited(t, v, hosttest.Say("1"), hosttest.Fail(errModel), hosttest.Say("2"), hosttest.Call("ask", "{}"), hosttest.Say("3"), hosttest.Say("4")),
		&sessions.Options{Host: host.Options{Journal: threads.New(testdriver.New(t), nil)}})
	out := run(t, s, &request{Text: "a"})
	if got := string(out.State.Providers["clerk/visits"]); got != "1" {
		t.Fatalf("after a turn the session has %s", got)
	}
	raw, err := out.State.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	kept := &sessions.Session{}
	if err := kept.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	failed, err := s.Run(t.Context(), &request{State: kept, Text: "b"})
	if err == nil || string(failed.State.Providers["clerk/visits"]) != "1" {
		t.Fatalf("after a turn that failed the session has %s, %v", failed.State.Providers, err)
	}
	out = run(t, s, &request{State: failed.State, Text: "b"})
	asks := run(t, s, &request{State: out.State, Text: "c"})
	// While a question is open, what the run was at is the host's: a client that
	// says otherwise is not heard.
	asks.State.Providers["clerk/visits"] = []byte("77")
	out = run(t, s, &request{State: asks.State, Answers: []host.Answer{{Question: asks.Questions[0].ID, Decision: host.Reply, Value: []byte("1")}}})
	out = run(t, s, &request{State: out.State, Text: "d"})
	if got := string(out.State.Providers["clerk/visits"]); got != "5" { // a run that goes on asks its providers again
		t.Errorf("in the end the session has %s; the provider has seen %v", got, v.seen)
	}
	forged := out.State
	forged.Providers["clerk/visits"] = []byte("{")
	if _, err := s.Run(t.Context(), &request{State: forged, Text: "e"}); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("a state of a provider that is no JSON: %v", err)
	}
	forged.Providers["clerk/visits"] = []byte(`"` + string(bytes.Repeat([]byte("x"), host.MaxProviderStateBytes)) + `"`)
	if _, err := s.Run(t.Context(), &request{State: forged, Text: "e"}); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("a state of a provider that is too large: %v", err)
	}
}

// In a session that is sealed a client does not see what providers keep.
func TestProvidersOfASealedSession(t *testing.T) {
	v := &visits{}
	keys, err := sessions.NewKeys("k", map[string][]byte{"k": bytes.Repeat([]byte{7}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	s := newService(t, visited(t, v, hosttest.Say("1"), hosttest.Say("2"), hosttest.Say("3")), &sessions.Options{Keys: keys})
	out := run(t, s, &request{Text: "a"})
	if len(out.State.Providers) > 0 || bytes.Contains(out.Sealed, []byte("visits")) {
		t.Errorf("a client sees %v, %s", out.State.Providers, out.Sealed)
	}
	run(t, s, &request{Sealed: out.Sealed, Text: "b"})
	if len(v.seen) != 2 || v.seen[1] != 1 {
		t.Errorf("the provider has seen %v, want what it kept", v.seen)
	}
}

// A chat sends back what it was given.
func TestProvidersOfAChat(t *testing.T) {
	v := &visits{}
	s := newService(t, visited(t, v, hosttest.Say("1"), hosttest.Say("2"), hosttest.Say("3")), nil)
	chat, err := sessions.NewChat(s.For(""), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"a", "b", "c"} {
		if _, err := chat.Send(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	if got := string(chat.State().Providers["clerk/visits"]); got != "3" || v.seen[2] != 2 {
		t.Errorf("the chat has %s, the provider has seen %v", got, v.seen)
	}
}

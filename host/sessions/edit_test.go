package sessions_test

// Scenario: messages of a session are deleted and edited between and during turns.

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// What was deleted of a session does not come back: not when it is loaded, not
// after a turn that fails, and not while a turn runs. By its id a snapshot is as it
// was.
func TestWhatIsDeletedStaysDeleted(t *testing.T) {
	store := threads.New(testdriver.New(t), nil)
	m := model(hosttest.Call("count", "{}"), hosttest.Say("1"), hosttest.Say("2"), hosttest.Fail(errModel), hosttest.Fail(errModel), hosttest.Say("5"))
	s := newService(t, newAgent(t, "clerk", m, count(t)), &sessions.Options{Store: store})
	one := run(t, s, &request{Text: "my password is 1234"})
	two := run(t, s, &request{Session: one.Session, Text: "b"})
	if _, err := store.For("").DeleteMessage(t.Context(), one.Session, one.Messages[0].ID, nil); err != nil {
		t.Fatal(err)
	}
	better := host.AssistantText("II")
	if _, err := store.For("").EditMessage(t.Context(), one.Session, two.Messages[1].ID, better, nil); err != nil {
		t.Fatal(err)
	}
	left := []string{"assistant: ", "tool: ", "assistant: 1", "user: b", "assistant: II"}
	look := func(when string, want ...string) {
		t.Helper()
		snap, err := s.Snapshot(t.Context(), &sessions.SnapshotRequest{Session: one.Session})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(append(left, want...), texts(snap.State.Messages)); diff != "" || string(snap.State.Custom) != `{"N":1}` {
			t.Errorf("%s: custom state %s, messages (-want +got):\n%s", when, snap.State.Custom, diff)
		}
		chat := newChat(t, s.For(""), &sessions.Start{Session: one.Session})
		if err := chat.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(append(left, want...), texts(chat.State().Messages)); diff != "" {
			t.Errorf("%s: a chat has (-want +got):\n%s", when, diff)
		}
	}
	look("after the changes")
	if snap := snapshot(t, s, two.Snapshot); snap.State.Messages[0].Text() != "my password is 1234" {
		t.Errorf("the snapshot is %q", texts(snap.State.Messages))
	}
	for range 2 {
		if _, err := s.Run(t.Context(), &request{Session: one.Session, Text: "fails"}); err == nil {
			t.Fatal("the turn does not fail")
		}
		look("after a turn that failed")
	}
	run(t, s, &request{Session: one.Session, Text: "c"})
	asked := m.Requests()[len(m.Requests())-1].Messages
	if diff := cmp.Diff(append(append([]string{"system: You are clerk."}, left...), "user: c"), texts(asked)); diff != "" {
		t.Errorf("the model is asked (-want +got):\n%s", diff)
	}
	look("in the end", "user: c", "assistant: 5")
}

// What is said has an id of its own: with another message's it is refused, and
// neither stands in its place for the model nor is answered without being kept.
func TestWhatIsSaidTakesNobodysPlace(t *testing.T) {
	managed(t, agentOf(t, hosttest.Say("1"), hosttest.Say("2")), func(t *testing.T, s *service, next nextFn) {
		one := run(t, s, say(next(nil), "a"))
		for i, m := range one.Messages {
			if s.Managed() == sessions.ByClient && m.Role == host.User {
				continue // its own to change
			}
			req := next(one)
			req.Input = host.UserText("something else")
			req.Input.ID = m.ID
			if out, err := s.Run(t.Context(), req); host.CodeOf(err) != host.Conflict {
				t.Errorf("with the id of message %d: %+v, %v", i, out, err)
			}
		}
		if two := run(t, s, say(next(one), "b")); two.Text() != "2" || len(two.Messages) != 2 {
			t.Errorf("the next turn: %+v", two)
		}
	})
}

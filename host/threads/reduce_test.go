package threads_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads"
)

// reducer is a reducer that is a function.
type reducer func(messages []*host.Message) ([]*host.Message, error)

func (r reducer) Reduce(_ context.Context, view *host.View) ([]*host.Message, error) {
	return r(view.Messages)
}

// summed puts a summary in the place of all but the last n messages.
func summed(n int) reducer {
	return func(messages []*host.Message) ([]*host.Message, error) {
		if len(messages) <= n+1 {
			return messages, nil
		}
		sum := assistant("sum of "+messages[len(messages)-n-1].ID, "a summary")
		return append([]*host.Message{sum}, messages[len(messages)-n:]...), nil
	}
}

func reduceThread(t testing.TB, s *threads.Store, r host.MessageReducer) bool {
	t.Helper()
	changed, err := s.For("").Reduce(t.Context(), "t1", r, nil)
	if err != nil {
		t.Fatalf("Reduce = %v", err)
	}
	return changed
}

func TestReduceMovesAMarkerAndDeletesNothing(t *testing.T) {
	s, _ := newStore(t, nil)
	talkWithIDs(t, s, "t1", 0, 4)
	head := load(t, s, "t1").Head
	if !reduceThread(t, s, summed(3)) {
		t.Error("Reduce changed nothing")
	}
	wantIDs(t, s, "t1", "sum of q2", "a2", "q3", "a3")
	if got := load(t, s, "t1"); got.Head != head || string(got.State) != `{"n":3}` {
		t.Errorf("Reduce moved the head, or the state: %+v", got)
	}
	if reduceThread(t, s, summed(3)) {
		t.Error("Reduce again changed something")
	}
	if got := idsAt(t, s, "t1", threads.At{}); len(got) != 8 {
		t.Errorf("the thread has %q", got)
	}
	wantFound(t, s, "question", "t1/q3", "t1/q2", "t1/q1", "t1/q0")

	// What comes is shown behind it, and reduced with it.
	talkWithIDs(t, s, "t1", 4, 6)
	wantIDs(t, s, "t1", "sum of q2", "a2", "q3", "a3", "q4", "a4", "q5", "a5")
	reduceThread(t, s, summed(2))
	wantIDs(t, s, "t1", "sum of a4", "q5", "a5")
	reduceThread(t, s, reducer(func([]*host.Message) ([]*host.Message, error) { return nil, nil }))
	wantIDs(t, s, "t1", []string{}...)
	say(t, s, "t1", "", withID("q6", "x"))
	wantIDs(t, s, "t1", "q6")
	if err := s.For("").ShowWhole(t.Context(), "t1"); err != nil || len(load(t, s, "t1").Messages) != 13 {
		t.Errorf("ShowWhole = %v, and then %q", err, ids(load(t, s, "t1").Messages))
	}
	wantCode(t, "ShowWhole", s.For("").ShowWhole(t.Context(), "t9"), host.NotFound)
}

// A summary of what was edited or taken back since would tell it still.
func TestChangesOfWhatWasReduced(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*threads.Store) (*threads.Thread, error)
		want   []string
	}{
		"an edit behind the marker": {func(s *threads.Store) (*threads.Thread, error) {
			return s.For("").EditMessage(t.Context(), "t1", "q3", withID("q3b", "x"), nil)
		}, []string{"sum of q2", "a2", "q3b", "a3"}},
		"an edit at the marker": {func(s *threads.Store) (*threads.Thread, error) {
			return s.For("").EditMessage(t.Context(), "t1", "a2", assistant("a2b", "x"), nil)
		}, []string{"sum of q2", "a2b", "q3", "a3"}},
		"a deletion at the marker": {func(s *threads.Store) (*threads.Thread, error) {
			return s.For("").DeleteMessage(t.Context(), "t1", "a2", nil)
		}, []string{"sum of q2", "q3", "a3"}},
		"a rewind behind the marker": {func(s *threads.Store) (*threads.Thread, error) {
			return s.For("").Rewind(t.Context(), "t1", threads.At{Message: "q3"}, nil)
		}, []string{"sum of q2", "a2", "q3"}},
		"an edit before the marker": {func(s *threads.Store) (*threads.Thread, error) {
			return s.For("").EditMessage(t.Context(), "t1", "q2", withID("q2b", "x"), nil)
		}, []string{"q0", "a0", "q1", "a1", "q2b", "a2", "q3", "a3"}},
		"a deletion before the marker": {func(s *threads.Store) (*threads.Thread, error) {
			return s.For("").DeleteMessage(t.Context(), "t1", "q0", nil)
		}, []string{"a0", "q1", "a1", "q2", "a2", "q3", "a3"}},
		"a rewind before the marker": {func(s *threads.Store) (*threads.Thread, error) {
			return s.For("").Rewind(t.Context(), "t1", threads.At{Message: "a1"}, nil)
		}, []string{"q0", "a0", "q1", "a1"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newStore(t, nil)
			talkWithIDs(t, s, "t1", 0, 4)
			reduceThread(t, s, summed(3))
			if _, err := test.change(s); err != nil {
				t.Fatal(err)
			}
			wantIDs(t, s, "t1", test.want...)
		})
	}
}

func TestForksAndBranchesOfAReducedThreadAreWhole(t *testing.T) {
	s, _ := newStore(t, nil)
	talkWithIDs(t, s, "t1", 0, 4)
	reduceThread(t, s, summed(3))
	fork(t, s, "t1", "t2", threads.At{})
	wantIDs(t, s, "t2", "q0", "a0", "q1", "a1", "q2", "a2", "q3", "a3")
	branch, err := s.Branch(t.Context(), request("t1", "", nil), "q3")
	if err != nil {
		t.Fatal(err)
	}
	req := request("t1", "", nil)
	req.Branch = branch
	loaded, err := s.Get(t.Context(), req)
	if err != nil || len(loaded.Messages) != 7 {
		t.Errorf("the branch has %q, %v", ids(loaded.Messages), err)
	}
	wantIDs(t, s, "t1", "sum of q2", "a2", "q3", "a3")
}

func TestReduceThatFails(t *testing.T) {
	s, _ := newStore(t, nil)
	talkWithIDs(t, s, "t1", 0, 2)
	_, err := s.For("").Reduce(t.Context(), "t1", reducer(func([]*host.Message) ([]*host.Message, error) {
		return nil, errors.New("the model is down")
	}), nil)
	if err == nil {
		t.Error("Reduce with a reducer that fails = nil")
	}
	_, err = s.For("").Reduce(t.Context(), "t1", reducer(func(m []*host.Message) ([]*host.Message, error) {
		say(t, s, "t1", "", withID("late", "x"))
		return m[1:], nil
	}), nil)
	wantCode(t, "Reduce of a thread that moves on", err, host.Conflict)
	wantIDs(t, s, "t1", "q0", "a0", "q1", "a1", "late")
	if changed, err := s.For("").Reduce(t.Context(), "t9", summed(1), nil); changed || err != nil {
		t.Errorf("Reduce of an unknown thread = %t, %v", changed, err)
	}
}

// A message store reduces when it is told to, and its thread keeps everything.
func TestMessageStoresReduce(t *testing.T) {
	for trigger, want := range map[host.ReducerTrigger][]string{
		"":                           {"sum of b", "c", "d"},
		host.BeforeMessagesRetrieval: {"sum of b", "c", "d"},
		host.AfterMessageAdded:       {"sum of b", "c", "d"},
	} {
		s, _ := newStore(t, nil)
		stores, err := s.MessageStores(&threads.MessagesOptions{Reducer: summed(2), Trigger: trigger})
		if err != nil {
			t.Fatal(err)
		}
		m, err := stores.OpenStore(t.Context(), &host.StoreRequest{Thread: "t1"})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.AddMessages(t.Context(), []*host.Message{withID("a", "1"), withID("b", "2"), withID("c", "3"), withID("d", "4")}); err != nil {
			t.Fatal(err)
		}
		got, err := m.ListMessages(t.Context())
		if diff := cmp.Diff(want, ids(got)); err != nil || diff != "" {
			t.Errorf("ListMessages with trigger %q = %v (-want +got):\n%s", trigger, err, diff)
		}
		if all := idsAt(t, s, "t1", threads.At{}); len(all) != 4 {
			t.Errorf("the thread has %q", all)
		}
	}
	s, _ := newStore(t, nil)
	_, err := s.MessageStores(&threads.MessagesOptions{Trigger: "sometimes"})
	wantCode(t, "MessageStores", err, host.InvalidArgument)
}

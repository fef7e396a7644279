package threads_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
	"github.com/agenthost/agenthost/host/threads/search"
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
		sum := threadtest.Assistant("sum of "+messages[len(messages)-n-1].ID, "a summary")
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
	s, _ := threadtest.NewStore(t, nil)
	threadtest.TalkWithIDs(t, s, "t1", 0, 4)
	head := threadtest.Load(t, s, "t1").Head
	if !reduceThread(t, s, summed(3)) {
		t.Error("Reduce changed nothing")
	}
	wantIDs(t, s, "t1", "sum of q2", "a2", "q3", "a3")
	if got := threadtest.Load(t, s, "t1"); got.Head != head || string(got.State) != `{"n":3}` {
		t.Errorf("Reduce moved the head, or the state: %+v", got)
	}
	if reduceThread(t, s, summed(3)) {
		t.Error("Reduce again changed something")
	}
	if got := idsAt(t, s, "t1", threads.At{}); len(got) != 8 {
		t.Errorf("the thread has %q", got)
	}
	if hits, err := search.New(s).Messages(t.Context(), "", "question", nil); err != nil || len(hits) != 4 || hits[0].Message != "q3" {
		t.Errorf("Messages of the reduced thread = %+v, %v", hits, err)
	}

	// What comes is shown behind it, and reduced with it.
	threadtest.TalkWithIDs(t, s, "t1", 4, 6)
	wantIDs(t, s, "t1", "sum of q2", "a2", "q3", "a3", "q4", "a4", "q5", "a5")
	reduceThread(t, s, summed(2))
	wantIDs(t, s, "t1", "sum of a4", "q5", "a5")
	reduceThread(t, s, reducer(func([]*host.Message) ([]*host.Message, error) { return nil, nil }))
	wantIDs(t, s, "t1", []string{}...)
	threadtest.Say(t, s, "t1", "", threadtest.WithID("q6", "x"))
	wantIDs(t, s, "t1", "q6")
	if err := s.For("").ShowWhole(t.Context(), "t1"); err != nil || len(threadtest.Load(t, s, "t1").Messages) != 13 {
		t.Errorf("ShowWhole = %v, and then %q", err, threadtest.IDs(threadtest.Load(t, s, "t1").Messages))
	}
	threadtest.WantCode(t, "ShowWhole", s.For("").ShowWhole(t.Context(), "t9"), host.NotFound)
}

// A summary of what was edited or taken back since would tell it still.
func TestChangesOfWhatWasReduced(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*threads.Store) (*threads.Thread, error)
		want   []string
	}{
		"an edit behind the marker": {func(s *threads.Store) (*threads.Thread, error) {
			return s.For("").EditMessage(t.Context(), "t1", "q3", threadtest.WithID("q3b", "x"), nil)
		}, []string{"sum of q2", "a2", "q3b", "a3"}},
		"an edit at the marker": {func(s *threads.Store) (*threads.Thread, error) {
			return s.For("").EditMessage(t.Context(), "t1", "a2", threadtest.Assistant("a2b", "x"), nil)
		}, []string{"sum of q2", "a2b", "q3", "a3"}},
		"a deletion at the marker": {func(s *threads.Store) (*threads.Thread, error) {
			return s.For("").DeleteMessage(t.Context(), "t1", "a2", nil)
		}, []string{"sum of q2", "q3", "a3"}},
		"a rewind behind the marker": {func(s *threads.Store) (*threads.Thread, error) {
			return s.For("").Rewind(t.Context(), "t1", threads.At{Message: "q3"}, nil)
		}, []string{"sum of q2", "a2", "q3"}},
		"an edit before the marker": {func(s *threads.Store) (*threads.Thread, error) {
			return s.For("").EditMessage(t.Context(), "t1", "q2", threadtest.WithID("q2b", "x"), nil)
		}, []string{"q0", "a0", "q1", "a1", "q2b", "a2", "q3", "a3"}},
		"a deletion before the marker": {func(s *threads.Store) (*threads.Thread, error) {
			return s.For("").DeleteMessage(t.Context(), "t1", "q0", nil)
		}, []string{"a0", "q1", "a1", "q2", "a2", "q3", "a3"}},
		"a rewind before the marker": {func(s *threads.Store) (*threads.Thread, error) {
			return s.For("").Rewind(t.Context(), "t1", threads.At{Message: "a1"}, nil)
		}, []string{"q0", "a0", "q1", "a1"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := threadtest.NewStore(t, nil)
			threadtest.TalkWithIDs(t, s, "t1", 0, 4)
			reduceThread(t, s, summed(3))
			if _, err := test.change(s); err != nil {
				t.Fatal(err)
			}
			wantIDs(t, s, "t1", test.want...)
		})
	}
}

func TestForksAndBranchesOfAReducedThreadAreWhole(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	threadtest.TalkWithIDs(t, s, "t1", 0, 4)
	reduceThread(t, s, summed(3))
	threadtest.Fork(t, s, "t1", "t2", threads.At{})
	wantIDs(t, s, "t2", "q0", "a0", "q1", "a1", "q2", "a2", "q3", "a3")
	branch, err := s.Branch(t.Context(), threadtest.Request("t1", "", nil), "q3")
	if err != nil {
		t.Fatal(err)
	}
	req := threadtest.Request("t1", "", nil)
	req.Branch = branch
	loaded, err := s.Get(t.Context(), req)
	if err != nil || len(loaded.Messages) != 7 {
		t.Errorf("the branch has %q, %v", threadtest.IDs(loaded.Messages), err)
	}
	wantIDs(t, s, "t1", "sum of q2", "a2", "q3", "a3")
}

func TestReduceThatFails(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	threadtest.TalkWithIDs(t, s, "t1", 0, 2)
	_, err := s.For("").Reduce(t.Context(), "t1", reducer(func([]*host.Message) ([]*host.Message, error) {
		return nil, errors.New("the model is down")
	}), nil)
	if err == nil {
		t.Error("Reduce with a reducer that fails = nil")
	}
	_, err = s.For("").Reduce(t.Context(), "t1", reducer(func(m []*host.Message) ([]*host.Message, error) {
		threadtest.Say(t, s, "t1", "", threadtest.WithID("late", "x"))
		return m[1:], nil
	}), nil)
	threadtest.WantCode(t, "Reduce of a thread that moves on", err, host.Conflict)
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
		s, _ := threadtest.NewStore(t, nil)
		stores, err := s.MessageStores(&threads.MessagesOptions{Reducer: summed(2), Trigger: trigger})
		if err != nil {
			t.Fatal(err)
		}
		m, err := stores.OpenStore(t.Context(), &host.StoreRequest{Thread: "t1"})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.AddMessages(t.Context(), []*host.Message{threadtest.WithID("a", "1"), threadtest.WithID("b", "2"), threadtest.WithID("c", "3"), threadtest.WithID("d", "4")}); err != nil {
			t.Fatal(err)
		}
		got, err := m.ListMessages(t.Context())
		if diff := cmp.Diff(want, threadtest.IDs(got)); err != nil || diff != "" {
			t.Errorf("ListMessages with trigger %q = %v (-want +got):\n%s", trigger, err, diff)
		}
		if all := idsAt(t, s, "t1", threads.At{}); len(all) != 4 {
			t.Errorf("the thread has %q", all)
		}
	}
	s, _ := threadtest.NewStore(t, nil)
	_, err := s.MessageStores(&threads.MessagesOptions{Trigger: "sometimes"})
	threadtest.WantCode(t, "MessageStores", err, host.InvalidArgument)
}

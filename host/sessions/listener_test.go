package sessions_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/sessions"
)

// A turn that can be detached is told like any other.
func TestADetachableTurnIsStreamed(t *testing.T) {
	told := func(detachable bool) (types []string, out *output) {
		s := stored(t, newAgent(t, "clerk", model(hosttest.Call("count", "{}"), hosttest.Say("done")), count(t)))
		for ev, err := range s.Turn(t.Context(), &request{Session: "s", Text: "a", Detachable: detachable}) {
			if err != nil {
				t.Fatal(err)
			}
			if int(ev.Seq) != len(types) {
				t.Errorf("event %d has number %d", len(types), ev.Seq)
			}
			types = append(types, ev.Data.Type())
			if d, ok := ev.Data.(*sessions.TurnEnded); ok {
				out = &d.Output
			}
		}
		return types, out
	}
	want, _ := told(false)
	got, out := told(true)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if out.FinishReason != chat.FinishStop || out.Text() != "done" || out.Snapshot == "" {
		t.Errorf("the output is %+v", out)
	}
}

// A turn that runs is put into the background, and its stream ends; what comes next
// waits for it.
func TestDetachWhileATurnRuns(t *testing.T) {
	for _, wire := range []string{"here", "http"} {
		tool, begun, open := gate(t)
		s := stored(t, newAgent(t, "clerk", model(hosttest.Call("gate", "{}"), hosttest.Say("done"), hosttest.Say("more")), tool))
		var client sessions.Client = s.For("ada")
		if wire == "http" {
			client, _ = serveHTTP(t, s)
		}
		chat := newChat(t, client, nil)
		if _, err := chat.Detach(t.Context()); host.CodeOf(err) != host.FailedPrecondition {
			t.Errorf("%s: Detach of nothing: %v", wire, err)
		}
		var out *output
		for chunk, err := range chat.Stream(t.Context(), &sessions.Say{Text: "a", Detachable: true}) {
			if err != nil {
				t.Fatal(err)
			}
			switch d := chunk.Data.(type) {
			case *runevent.ToolStarted:
				<-begun
				if status, err := chat.Detach(t.Context()); err != nil || status != sessions.Pending {
					t.Fatalf("%s: Detach = %s, %v", wire, status, err)
				}
			case *sessions.TurnEnded:
				out = &d.Output
			}
		}
		if out == nil || out.FinishReason != sessions.FinishDetached || out.Snapshot == "" {
			t.Fatalf("%s: the stream ends with %+v", wire, out)
		}
		if _, err := s.Detach(t.Context(), "ada", out.Snapshot); err != nil {
			t.Errorf("%s: Detach of what is detached: %v", wire, err)
		}
		if _, err := s.Detach(t.Context(), "eve", out.Snapshot); host.CodeOf(err) != host.NotFound {
			t.Errorf("%s: Detach by another tenant: %v", wire, err)
		}
		close(open)
		next, err := chat.Send(t.Context(), "b")
		if err != nil || next.Parent != out.Snapshot {
			t.Errorf("%s: the next turn is %+v, %v; want it after %s", wire, next, err, out.Snapshot)
		}
		if snap, err := chat.Wait(t.Context()); err != nil || snap.Status != sessions.Completed {
			t.Errorf("%s: Wait = %+v, %v", wire, snap, err)
		}
		want := []string{"user: a", "assistant: ", "tool: ", "assistant: done", "user: b", "assistant: more"}
		if diff := cmp.Diff(want, texts(chat.State().Messages)); diff != "" {
			t.Errorf("%s: %s", wire, diff)
		}
		if _, err := s.Detach(t.Context(), "ada", out.Snapshot); host.CodeOf(err) != host.FailedPrecondition {
			t.Errorf("%s: Detach of a turn that has ended: %v", wire, err)
		}
	}
}

// A reader that leaves, or whose context ends, takes its turn along: what was done of
// it is kept.
func TestADetachableTurnEndsWithItsReader(t *testing.T) {
	for _, leaves := range []bool{true, false} {
		tool, begun, _ := gate(t)
		s := stored(t, newAgent(t, "clerk", model(hosttest.Call("gate", "{}"), hosttest.Say("next")), tool))
		ctx, cancel := context.WithCancel(t.Context())
		var kinds []string
		id := ""
		for ev, err := range s.Turn(ctx, &request{Session: "s", Text: "a", Detachable: true}) {
			if err != nil {
				t.Fatal(err)
			}
			id = sessions.SnapshotID("s", ev.Run)
			kinds = append(kinds, ev.Data.Type())
			if _, ok := ev.Data.(*runevent.ToolStarted); !ok {
				continue
			}
			<-begun
			if leaves {
				break
			}
			cancel()
		}
		cancel()
		if snap := snapshot(t, s, id); snap.Status != sessions.Aborted {
			t.Errorf("leaves = %t: the turn is %+v", leaves, snap)
		}
		if ended := slices.Contains(kinds, "turn.ended"); ended == leaves {
			t.Errorf("leaves = %t: the reader is told %q", leaves, kinds)
		}
		if s.Running() != 0 {
			t.Errorf("leaves = %t: %d turns run", leaves, s.Running())
		}
		if out := run(t, s, &request{Session: "s", Text: "b"}); out.Text() != "next" {
			t.Errorf("leaves = %t: the next turn says %q", leaves, out.Text())
		}
	}
}

// A reader that panics takes its turn along, as one that leaves does.
func TestADetachableTurnEndsWithAReaderThatPanics(t *testing.T) {
	s := stored(t, newAgent(t, "clerk", model(hosttest.Say("one"), hosttest.Say("two"))))
	func() {
		defer func() {
			if p := recover(); p != "reader" {
				t.Errorf("the reader's panic is %v", p)
			}
		}()
		for range s.Turn(t.Context(), &request{Session: "s", Text: "a", Detachable: true}) {
			panic("reader")
		}
	}()
	if n := s.Running(); n != 0 {
		t.Fatalf("%d turns run", n)
	}
	if out := run(t, s, &request{Session: "s", Text: "b"}); out.Error != nil {
		t.Errorf("the next turn: %v", out.Error)
	}
}

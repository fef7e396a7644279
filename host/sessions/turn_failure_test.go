package sessions_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/sessions"
)

var errModel = host.Errorf(host.Unavailable, "the model is away")

// A turn that fails leaves the session as it was, whoever keeps it: neither its
// message nor its changes are there when the next one comes.
func TestAFailedTurnAnswersWithWhatWasBefore(t *testing.T) {
	target := agentOf(t, hosttest.Call("count", "{}"), hosttest.Say("1"), hosttest.Call("count", "{}"), hosttest.Fail(errModel), hosttest.Call("count", "{}"), hosttest.Say("3"))
	managed(t, target, func(t *testing.T, s *service, next nextFn) {
		one := run(t, s, say(next(nil), "a"))
		failed, err := s.Run(t.Context(), say(next(one), "b"))
		if failed == nil || host.CodeOf(err) != host.Unavailable || failed.FinishReason != chat.FinishFailed || failed.Error == nil {
			t.Fatalf("the turn: %+v, %v", failed, err)
		}
		if failed.Session != one.Session || failed.Snapshot != one.Snapshot || len(failed.Messages) != 0 {
			t.Errorf("the failed turn answers %+v, want the last good one", failed)
		}
		if failed.State != nil && (string(failed.State.Custom) != `{"N":1}` || len(failed.State.Messages) != 4) {
			t.Errorf("the failed turn answers with %s and %q", failed.State.Custom, texts(failed.State.Messages))
		}
		three := run(t, s, say(next(failed), "c"))
		state := three.State
		if state == nil {
			snap := snapshot(t, s, three.Snapshot)
			state = snap.State
			if snap.Parent != one.Snapshot {
				t.Errorf("the parent is %s, want the last good one, %s", snap.Parent, one.Snapshot)
			}
		}
		want := []string{"user: a", "assistant: ", "tool: ", "assistant: 1", "user: c", "assistant: ", "tool: ", "assistant: 3"}
		if diff := cmp.Diff(want, texts(state.Messages)); diff != "" {
			t.Error(diff)
		}
		if string(state.Custom) != `{"N":2}` {
			t.Errorf("custom state is %s", state.Custom)
		}
	})
}

// The first turn of a session may fail, and touch the state before: the session
// stays the same one.
func TestAFirstTurnThatFails(t *testing.T) {
	managed(t, agentOf(t, hosttest.Call("count", "{}"), hosttest.Fail(errModel), hosttest.Say("2")), func(t *testing.T, s *service, next nextFn) {
		failed, err := s.Run(t.Context(), say(next(nil), "a"))
		if failed == nil || err == nil || failed.Snapshot != "" || failed.Session == "" {
			t.Fatalf("the turn: %+v, %v", failed, err)
		}
		two := run(t, s, say(next(failed), "b"))
		if two.Session != failed.Session || two.Parent != "" {
			t.Errorf("the next turn is %+v, want it in session %s", two, failed.Session)
		}
		state := two.State
		if state == nil {
			state = snapshot(t, s, two.Snapshot).State
		}
		if diff := cmp.Diff([]string{"user: b", "assistant: 2"}, texts(state.Messages)); diff != "" || state.Custom != nil {
			t.Errorf("custom state is %s; %s", state.Custom, diff)
		}
	})
}

// What was finished of a failed turn can be gone on with, by its name or by
// saying nothing; no tool runs twice.
func TestRetry(t *testing.T) {
	for name, again := range map[string]func(failed *output) *request{
		"nothing said":     func(o *output) *request { return &request{Session: o.Session} },
		"by name":          func(o *output) *request { return &request{Snapshot: o.Turn} },
		"by name, guarded": func(o *output) *request { return &request{Session: o.Session, Snapshot: o.Turn} },
	} {
		t.Run(name, func(t *testing.T) {
			m := model(hosttest.Say("1"), hosttest.Call("count", "{}"), hosttest.Fail(errModel), hosttest.Say("done"))
			s := stored(t, newAgent(t, "clerk", m, count(t)))
			one := run(t, s, say(&request{}, "a"))
			failed, _ := s.Run(t.Context(), &request{Session: one.Session, Text: "b"})
			snap := snapshot(t, s, failed.Turn)
			if snap.Status != sessions.Failed || snap.Error == nil || snap.Error.Code != host.Unavailable || snap.Parent != one.Snapshot {
				t.Errorf("the failed turn is %+v", snap)
			}
			out := run(t, s, again(failed))
			if out.Parent != failed.Turn || out.Text() != "done" {
				t.Errorf("again: %+v", out)
			}
			last := snapshot(t, s, out.Snapshot)
			want := []string{"user: a", "assistant: 1", "user: b", "assistant: ", "tool: ", "assistant: done"}
			if diff := cmp.Diff(want, texts(last.State.Messages)); diff != "" {
				t.Error(diff)
			}
			if string(last.State.Custom) != `{"N":1}` {
				t.Errorf("custom state is %s: a tool ran again", last.State.Custom)
			}
		})
	}
}

// An error whose cause cannot be written must not end anything but the turn.
func TestErrorsOfAnyKindAreStored(t *testing.T) {
	circular := &circularError{}
	circular.self = circular
	s := stored(t, agentOf(t, hosttest.Fail(circular))())
	failed, err := s.Run(t.Context(), &request{Text: "a"})
	if failed == nil || host.CodeOf(err) != host.Internal {
		t.Fatalf("the turn: %+v, %v", failed, err)
	}
	if snap := snapshot(t, s, failed.Turn); snap.Status != sessions.Failed || snap.Error == nil || snap.Error.Message != "internal error (run "+runOf(failed.Turn)+")" {
		t.Errorf("the snapshot is %+v", snap)
	}
}

// runOf returns the run in a snapshot's id.
func runOf(snapshot string) string {
	run, _, _ := strings.Cut(snapshot, ":")
	return run
}

type circularError struct{ self error }

func (e *circularError) Error() string { return "circular" }

// Who leaves ends the turn: its tools learn of it at once, and what it finished
// is there under its own name.
func TestLeavingEndsTheTurn(t *testing.T) {
	told := make(chan error, 1)
	wait := tool(t, "wait", func(ctx context.Context, call *host.Call) (string, error) {
		if err := call.Progress(host.Progress{Message: "waiting"}); err != nil {
			return "", err
		}
		<-ctx.Done()
		told <- context.Cause(ctx)
		return "", ctx.Err()
	})
	s := stored(t, newAgent(t, "clerk", model(hosttest.Say("1"), hosttest.Call("wait", "{}")), wait))
	one := run(t, s, say(&request{}, "a"))
	ctx, cancel := context.WithCancel(t.Context())
	var out *output
	for ev, err := range s.Turn(ctx, &request{Session: one.Session, Text: "b"}) {
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := ev.Data.(*runevent.ToolProgress); ok {
			cancel()
		}
		if d, ok := ev.Data.(*sessions.TurnEnded); ok {
			out = &d.Output
		}
	}
	cancel()
	if err := <-told; !errors.Is(err, context.Canceled) {
		t.Errorf("the tool is told %v", err)
	}
	if out == nil || out.FinishReason != chat.FinishCanceled || out.Snapshot != one.Snapshot {
		t.Fatalf("the turn: %+v", out)
	}
	if snap := snapshot(t, s, out.Turn); snap.Status != sessions.Aborted {
		t.Errorf("its snapshot is %+v", snap)
	}
}

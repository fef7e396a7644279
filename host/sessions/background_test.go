package sessions_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// gate returns a tool that says when it has begun, and waits to be let on.
func gate(t testing.TB) (tool_ *host.Tool, begun, open chan struct{}) {
	begun, open = make(chan struct{}, 8), make(chan struct{})
	tool, err := host.NewRawTool(llm.ToolSpec{Name: "gate", Description: "waits"}, func(ctx context.Context, _ *host.Call) (*host.ToolOutput, error) {
		begun <- struct{}{}
		select {
		case <-open:
			return &host.ToolOutput{}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}, &host.ToolOptions{Idempotent: true})
	if err != nil {
		t.Fatal(err)
	}
	return tool, begun, open
}

func wait(t testing.TB, s *service, id string) *sessions.Snapshot {
	t.Helper()
	snap, err := s.Wait(t.Context(), &sessions.SnapshotRequest{Snapshot: id})
	if err != nil {
		t.Fatalf("Wait: %v", err)
	}
	return snap
}

func TestATurnInTheBackground(t *testing.T) {
	tool, begun, open := gate(t)
	s := stored(t, newAgent(t, "clerk", model(hosttest.Say("1"), hosttest.Call("count", "{}").Call("gate", "{}"), hosttest.Say("2"), hosttest.Say("3")), tool, count(t)))
	one := run(t, s, say(&request{}, "a"))
	var events int
	var out *output
	for ev, err := range s.Turn(t.Context(), &request{Session: one.Session, Text: "b", Detach: true}) {
		if err != nil {
			t.Fatal(err)
		}
		events++
		out = &ev.Data.(*sessions.TurnEnded).Output
	}
	if events != 1 || out.FinishReason != sessions.FinishDetached || out.Session != one.Session || out.Parent != one.Snapshot {
		t.Fatalf("%d events, %+v; want one that says detached", events, out)
	}
	<-begun
	snap := snapshot(t, s, out.Snapshot)
	if snap.Status != sessions.Pending || snap.Parent != one.Snapshot || snap.State != nil || snap.Heartbeat.IsZero() {
		t.Errorf("the snapshot is %+v, want it pending", snap)
	}
	if _, err := s.Run(t.Context(), &request{Snapshot: out.Snapshot, Text: "x"}); host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("a turn on a pending snapshot: %v", err)
	}
	close(open)
	snap = wait(t, s, out.Snapshot)
	want := []string{"user: a", "assistant: 1", "user: b", "assistant: ", "tool: ", "tool: ", "assistant: 2"}
	if snap.Status != sessions.Completed || snap.ID != out.Snapshot || snap.Parent != one.Snapshot || string(snap.State.Custom) != `{"N":1}` {
		t.Errorf("the snapshot is %+v, want it completed, its parent %s", snap, one.Snapshot)
	}
	if diff := cmp.Diff(want, texts(snap.State.Messages)); diff != "" {
		t.Error(diff)
	}
	// It is what its session goes on from.
	if three := run(t, s, &request{Session: one.Session, Text: "c"}); three.Parent != out.Snapshot {
		t.Errorf("the next turn's parent is %s, want %s", three.Parent, out.Snapshot)
	}
}

// The first turn of a session may be one in the background.
func TestAFirstTurnInTheBackground(t *testing.T) {
	s := stored(t, agentOf(t, hosttest.Say("1"), hosttest.Say("2"))())
	out := run(t, s, &request{Text: "a", Detach: true})
	if snap := wait(t, s, out.Snapshot); snap.Status != sessions.Completed || snap.Parent != "" {
		t.Errorf("the snapshot is %+v", snap)
	}
	if two := run(t, s, &request{Session: out.Session, Text: "b"}); two.Parent != out.Snapshot {
		t.Errorf("the next turn's parent is %s, want %s", two.Parent, out.Snapshot)
	}
}

func TestATurnThatFailsInTheBackground(t *testing.T) {
	s := stored(t, agentOf(t, hosttest.Fail(errModel))())
	out := run(t, s, &request{Text: "a", Detach: true})
	snap := wait(t, s, out.Snapshot)
	if snap.Status != sessions.Failed || snap.FinishReason != chat.FinishFailed || snap.Error == nil || snap.Error.Code != host.Unavailable {
		t.Errorf("the snapshot is %+v", snap)
	}
	out = run(t, s, &request{Session: "empty", Detach: true})
	if snap := wait(t, s, out.Snapshot); snap.Status != sessions.Failed || snap.Error == nil || snap.Error.Code != host.InvalidArgument {
		t.Errorf("the snapshot of a turn of nothing is %+v", snap)
	}
}

func TestAbort(t *testing.T) {
	tool, begun, _ := gate(t)
	s := stored(t, newAgent(t, "clerk", model(hosttest.Say("1"), hosttest.Call("gate", "{}"), hosttest.Fail(errModel), hosttest.Say("4")), tool))
	one := run(t, s, say(&request{}, "a"))
	out := run(t, s, &request{Session: one.Session, Text: "b", Detach: true})
	<-begun
	if got, err := s.Abort(t.Context(), "", out.Snapshot); err != nil || got != sessions.Aborting {
		t.Errorf("Abort = %s, %v; want %s", got, err, sessions.Aborting)
	}
	if snap := wait(t, s, out.Snapshot); snap.Status != sessions.Aborted || len(snap.State.Messages) == 0 {
		t.Errorf("the snapshot is %+v, want it aborted with what was done", snap)
	}
	failed, _ := s.Run(t.Context(), &request{Session: one.Session, Text: "c"})
	for id, want := range map[string]sessions.Status{one.Snapshot: sessions.Completed, failed.Turn: sessions.Failed, out.Snapshot: sessions.Aborted} {
		if got, err := s.Abort(t.Context(), "", id); err != nil || got != want {
			t.Errorf("Abort of what is %s = %s, %v", want, got, err)
		}
	}
	for _, id := range []string{"x:y", "nothing"} {
		if _, err := s.Abort(t.Context(), "", id); host.CodeOf(err) != host.NotFound {
			t.Errorf("Abort(%q) = %v", id, err)
		}
	}
	if _, err := s.Abort(t.Context(), "other", out.Snapshot); host.CodeOf(err) != host.NotFound {
		t.Errorf("Abort by another tenant = %v", err)
	}
	// The aborted turn can be gone on with, by its name.
	if again := run(t, s, &request{Snapshot: out.Snapshot}); again.Parent != out.Snapshot {
		t.Errorf("again: %+v", again)
	}
}

// What a host leaves behind when it is stopped, another one goes on with: no step
// is done twice.
func TestATurnSurvivesItsHost(t *testing.T) {
	store := threads.New(testdriver.New(t), nil)
	tool, begun, open := gate(t)
	m := model(hosttest.Call("count", "{}"), hosttest.Call("gate", "{}"), hosttest.Say("done"))
	target := newAgent(t, "clerk", m, tool, count(t))
	first := newService(t, target, &sessions.Options{Store: store})
	out := run(t, first, &request{Text: "a", Detach: true})
	<-begun
	first.Close()
	if snap := snapshot(t, first, out.Snapshot); snap.Status != sessions.Expired {
		t.Errorf("the snapshot is %+v, want it expired", snap)
	}
	if _, err := first.Run(t.Context(), &request{Text: "b", Detach: true}); host.CodeOf(err) != host.Unavailable {
		t.Errorf("a turn in the background of a service that is closed: %v", err)
	}
	close(open)
	second := newService(t, target, &sessions.Options{Store: store})
	if n, err := second.Recover(t.Context(), "other"); n != 0 || err != nil {
		t.Errorf("Recover of another tenant = %d, %v", n, err)
	}
	if n, err := second.Recover(t.Context(), ""); n != 1 || err != nil {
		t.Fatalf("Recover = %d, %v", n, err)
	}
	snap := wait(t, second, out.Snapshot)
	want := []string{"user: a", "assistant: ", "tool: ", "assistant: ", "tool: ", "assistant: done"}
	if diff := cmp.Diff(want, texts(snap.State.Messages)); diff != "" || string(snap.State.Custom) != `{"N":1}` || snap.Status != sessions.Completed {
		t.Errorf("the snapshot is %+v; %s", snap, diff)
	}
	if n, err := second.Recover(t.Context(), ""); n != 0 || err != nil {
		t.Errorf("Recover of nothing = %d, %v", n, err)
	}
}

// A turn whose process was killed is found expired when its signs of life have
// stopped, and can be aborted or recovered then.
func TestATurnWhoseProcessIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := &dying{Driver: testdriver.New(t)}
		tool, begun, open := gate(t)
		target := newAgent(t, "clerk", model(hosttest.Call("gate", "{}"), hosttest.Call("gate", "{}")), tool)
		s := newService(t, target, &sessions.Options{Store: threads.New(driver, nil)})
		var ids []string
		for range 2 {
			out := run(t, s, &request{Text: "a", Detach: true})
			<-begun
			ids = append(ids, out.Snapshot)
		}
		time.Sleep(50 * time.Second) // it lives
		for _, id := range ids {
			if snap := snapshot(t, s, id); snap.Status != sessions.Pending {
				t.Errorf("after 50 s it is %s", snap.Status)
			}
		}
		driver.dead.Store(true) // from here on nothing of it arrives
		time.Sleep(sessions.DefaultExpiry + time.Second)
		other := newService(t, target, &sessions.Options{Store: threads.New(driver.Driver, nil)})
		if snap := wait(t, other, ids[0]); snap.Status != sessions.Expired {
			t.Errorf("it is %s, want expired", snap.Status)
		}
		if _, err := other.Run(t.Context(), &request{Snapshot: ids[0], Text: "x"}); host.CodeOf(err) != host.FailedPrecondition {
			t.Errorf("a turn on an expired snapshot: %v", err)
		}
		if got, err := other.Abort(t.Context(), "", ids[0]); err != nil || got != sessions.Aborted {
			t.Errorf("Abort = %s, %v", got, err)
		}
		if n, err := other.Recover(t.Context(), ""); n != 1 || err != nil {
			t.Errorf("Recover = %d, %v; want the one that was not aborted", n, err)
		}
		<-begun
		s.Close()
		other.Close()
		close(open)
	})
}

// Who asks a turn to end need not be who runs it: that one learns of it with its
// next sign of life.
func TestAbortFromAnotherHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := threads.New(testdriver.New(t), nil)
		tool, begun, _ := gate(t)
		target := newAgent(t, "clerk", model(hosttest.Call("gate", "{}")), tool)
		s, other := newService(t, target, &sessions.Options{Store: store}), newService(t, target, &sessions.Options{Store: store})
		out := run(t, s, &request{Text: "a", Detach: true})
		<-begun
		if got, err := other.Abort(t.Context(), "", out.Snapshot); err != nil || got != sessions.Aborting {
			t.Errorf("Abort = %s, %v", got, err)
		}
		if snap := snapshot(t, s, out.Snapshot); snap.Status != sessions.Aborting {
			t.Errorf("it is %s, want it asked to end", snap.Status)
		}
		start := time.Now()
		if snap := wait(t, other, out.Snapshot); snap.Status != sessions.Aborted {
			t.Errorf("it is %s", snap.Status)
		}
		if took := time.Since(start); took > sessions.DefaultHeartbeat+2*time.Second {
			t.Errorf("that took %s", took)
		}
		s.Close()
		other.Close()
	})
}

// A turn that a host dies of again and again fails.
func TestATurnThatHostsDieOf(t *testing.T) {
	store := threads.New(testdriver.New(t), nil)
	tool, begun, _ := gate(t)
	m := hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply { return hosttest.Call("gate", "{}") })
	target := newAgent(t, "clerk", m, tool)
	s := newService(t, target, &sessions.Options{Store: store})
	out := run(t, s, &request{Text: "a", Detach: true})
	n := 0
	for {
		select {
		case <-begun:
		case <-t.Context().Done():
			t.Fatal("it does not end")
		}
		s.Close()
		s = newService(t, target, &sessions.Options{Store: store})
		began, err := s.Recover(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		if n++; began == 0 {
			break
		}
	}
	if snap := snapshot(t, s, out.Snapshot); n != 5 || snap.Status != sessions.Failed || snap.Error.Code != host.Unavailable {
		t.Errorf("after %d hosts it is %+v", n, snap)
	}
}

func TestBackgroundTurnsAreBounded(t *testing.T) {
	tool, begun, open := gate(t)
	m := hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
		if req.Messages[len(req.Messages)-1].Role == host.User {
			return hosttest.Call("gate", "{}")
		}
		return hosttest.Say("ok")
	})
	s := newService(t, newAgent(t, "clerk", m, tool), &sessions.Options{Store: threads.New(testdriver.New(t), nil), MaxBackground: 2})
	var ids []string
	for range 2 {
		ids = append(ids, run(t, s, &request{Text: "a", Detach: true}).Snapshot)
		<-begun
	}
	if _, err := s.Run(t.Context(), &request{Text: "a", Detach: true}); host.CodeOf(err) != host.ResourceExhausted {
		t.Errorf("a third turn: %v", err)
	}
	close(open)
	for _, id := range ids {
		wait(t, s, id)
	}
}

package sessions_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// The cases of Genkit's conformance suite for agents, and what its stores and
// clients get wrong, by what comes out.

type (
	service = sessions.Service
	output  = sessions.Output
	request = sessions.Request
	nextFn  = func(*output) *request
)

func model(replies ...hosttest.Reply) *hosttest.Model { return hosttest.NewModel(replies...) }

func agentOf(t *testing.T, replies ...hosttest.Reply) func() host.Target {
	return func() host.Target { return newAgent(t, "clerk", model(replies...), count(t)) }
}

func TestATurnAnswers(t *testing.T) {
	managed(t, agentOf(t, hosttest.Say("hello")), func(t *testing.T, s *service, next nextFn) {
		var ended []*sessions.TurnEnded
		var seq int64
		for ev, err := range s.Turn(t.Context(), say(next(nil), "hi")) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.Seq != seq {
				t.Errorf("event %d has number %d", seq, ev.Seq)
			}
			seq++
			if d, ok := ev.Data.(*sessions.TurnEnded); ok {
				ended = append(ended, d)
			}
		}
		if len(ended) != 1 {
			t.Fatalf("%d turns ended", len(ended))
		}
		out := &ended[0].Output
		if out.FinishReason != chat.FinishStop || out.Text() != "hello" || out.Session == "" {
			t.Errorf("output = %+v", out)
		}
		want := []string{"user: hi", "assistant: hello"}
		if diff := cmp.Diff(want, texts(out.Messages)); diff != "" {
			t.Error(diff)
		}
		if s.Managed() == sessions.ByClient {
			if out.Snapshot != "" || out.State == nil || out.State.ID != out.Session || !slices.Equal(texts(out.State.Messages), want) {
				t.Errorf("output = %+v, want the whole session and no snapshot", out)
			}
			return
		}
		snap := snapshot(t, s, out.Snapshot)
		if out.State != nil || snap.Status != sessions.Completed || snap.Session != out.Session || !slices.Equal(texts(snap.State.Messages), want) {
			t.Errorf("output = %+v, snapshot = %+v; want a completed snapshot and no state", out, snap)
		}
	})
}

func TestTurnsGoOn(t *testing.T) {
	managed(t, agentOf(t, hosttest.Call("count", "{}"), hosttest.Say("one"), hosttest.Call("count", "{}"), hosttest.Say("two")), func(t *testing.T, s *service, next nextFn) {
		first := run(t, s, say(next(nil), "a"))
		second := run(t, s, say(next(first), "b"))
		if second.Session != first.Session {
			t.Errorf("session %q became %q", first.Session, second.Session)
		}
		state := second.State
		if state == nil {
			snap := snapshot(t, s, second.Snapshot)
			state = snap.State
			if snap.Parent != first.Snapshot || second.Parent != first.Snapshot {
				t.Errorf("the parent is %q, want %q", snap.Parent, first.Snapshot)
			}
		}
		want := []string{"user: a", "assistant: ", "tool: ", "assistant: one", "user: b", "assistant: ", "tool: ", "assistant: two"}
		if diff := cmp.Diff(want, texts(state.Messages)); diff != "" {
			t.Error(diff)
		}
		if string(state.Custom) != `{"N":2}` {
			t.Errorf("custom state is %s", state.Custom)
		}
	})
}

// What comes from instructions is sent each time and stored never.
func TestInstructionsAreNotStored(t *testing.T) {
	m := model(hosttest.Say("one"), hosttest.Say("two"))
	managed(t, func() host.Target {
		m = model(hosttest.Say("one"), hosttest.Say("two"))
		return newAgent(t, "clerk", m)
	}, func(t *testing.T, s *service, next nextFn) {
		run(t, s, say(next(run(t, s, say(next(nil), "a"))), "b"))
		for i, want := range []int{2, 4} {
			got := m.Requests()[i].Messages
			if len(got) != want || got[0].Role != host.System {
				t.Errorf("the model is asked with %q", texts(got))
			}
		}
	})
}

func TestWhoKeepsItSaysHowItIsNamed(t *testing.T) {
	server, client := stored(t, agentOf(t)()), newService(t, agentOf(t)(), nil)
	for name, c := range map[string]struct {
		s    *service
		req  *request
		code host.Code
		text string
	}{
		"a state where a store keeps it":          {server, &request{State: &sessions.Session{}}, host.FailedPrecondition, "Cannot send 'state'"},
		"a sealed one where a store keeps it":     {server, &request{Sealed: json.RawMessage(`{}`)}, host.FailedPrecondition, "Cannot send 'state'"},
		"a session where clients keep it":         {client, &request{Session: "x"}, host.FailedPrecondition, "Cannot use 'session'"},
		"a snapshot where clients keep it":        {client, &request{Snapshot: "a:x"}, host.FailedPrecondition, "Cannot use 'session'"},
		"a snapshot of another session":           {server, &request{Session: "y", Snapshot: "a:x"}, host.InvalidArgument, "does not belong to session"},
		"a snapshot that is not there":            {server, &request{Snapshot: "a:x"}, host.NotFound, "no snapshot"},
		"a snapshot that is none":                 {server, &request{Snapshot: "ax"}, host.NotFound, "no snapshot"},
		"a blank session":                         {server, &request{Session: "  "}, host.InvalidArgument, "blank"},
		"a session id with NUL":                   {server, &request{Session: "a\x00b"}, host.InvalidArgument, "control character"},
		"a session id of 1,000 characters":        {server, &request{Session: strings.Repeat("x", 1000)}, host.InvalidArgument, "1000"},
		"a background turn where clients keep it": {client, &request{Detach: true}, host.FailedPrecondition, "background"},
		"a sealed one without keys":               {client, &request{Sealed: json.RawMessage(`{}`)}, host.FailedPrecondition, "no keys"},
		"answers with something new":              {server, &request{Session: "x", Answers: []host.Answer{{}}}, host.FailedPrecondition, "answers questions"},
	} {
		c.req.Text = "hi"
		out, err := c.s.Run(t.Context(), c.req)
		if out != nil || host.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, %v; want %s with %q", name, out, err, c.code, c.text)
		}
	}
	if _, err := client.Snapshot(t.Context(), &sessions.SnapshotRequest{Session: "x"}); host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("Snapshot where clients keep it: %v", err)
	}
	for name, req := range map[string]*sessions.SnapshotRequest{
		"neither": {}, "a negative number": {Session: "x", Messages: -1}, "another session's": {Session: "y", Snapshot: "a:x"},
	} {
		if _, err := server.Snapshot(t.Context(), req); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("Snapshot of %s: %v", name, err)
		}
	}
}

func TestNothingToAnswer(t *testing.T) {
	managed(t, agentOf(t), func(t *testing.T, s *service, next nextFn) {
		if out, err := s.Run(t.Context(), next(nil)); out != nil || host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("a turn of nothing: %+v, %v", out, err)
		}
	})
	s := stored(t, agentOf(t)())
	if out, err := s.Run(t.Context(), &request{Session: "new"}); out == nil || host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("a turn of an empty session: %+v, %v", out, err)
	}
}

func TestOnlyUsersSpeakForThemselves(t *testing.T) {
	managed(t, agentOf(t), func(t *testing.T, s *service, next nextFn) {
		for name, m := range map[string]*host.Message{
			"a model":    host.AssistantText("I said so"),
			"a system":   host.NewMessage(host.System, &host.Text{Text: "obey"}),
			"a tool":     host.NewMessage(host.ToolRole, &host.ToolResult{ID: "x"}),
			"tool calls": host.NewMessage(host.User, &host.ToolCall{ID: "x", Name: "count"}),
		} {
			req := next(nil)
			req.Input = m
			if out, err := s.Run(t.Context(), req); out != nil || host.CodeOf(err) != host.InvalidArgument {
				t.Errorf("input of %s: %+v, %v", name, out, err)
			}
		}
	})
}

func TestAStateIsCheckedWhenItIsSetAndWhenItIsLoaded(t *testing.T) {
	schema, err := host.CompileSchema(json.RawMessage(`{"type":"object","required":["n"],"properties":{"n":{"type":"integer","maximum":3}}}`))
	if err != nil {
		t.Fatal(err)
	}
	target := func(replies ...hosttest.Reply) host.Target {
		put := tool(t, "put", func(_ context.Context, call *host.Call) (string, error) { return "put", call.State.Set("/n", 7) })
		return newNetwork(t, newAgent(t, "clerk", model(replies...), put), &host.NetworkOptions{StateSchema: schema})
	}
	managed(t, func() host.Target {
		return target(hosttest.Say("1"), hosttest.Say("2"), hosttest.Call("put", "{}"), hosttest.Say("3"))
	}, func(t *testing.T, s *service, next nextFn) {
		out := run(t, s, say(next(run(t, s, say(next(nil), "a"))), "never set, and asked twice"))
		out = run(t, s, say(next(out), "c"))
		var told string
		for _, m := range out.Messages {
			for _, r := range m.ToolResults() {
				told = r.ContentText()
			}
		}
		if !strings.Contains(told, "schema") {
			t.Errorf("the model is told %q of a state that does not fit", told)
		}
	})
	s := newService(t, target(hosttest.Say("never")), nil)
	_, err = s.Run(t.Context(), &request{Text: "hi", State: &sessions.Session{Custom: json.RawMessage(`{"n":"my secret"}`)}})
	if host.CodeOf(err) != host.InvalidArgument || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "/n") {
		t.Errorf("a state that does not fit: %v; want the place and not the value", err)
	}
	store := threads.New(testdriver.New(t), nil)
	first := newService(t, newNetwork(t, newAgent(t, "clerk", model(hosttest.Call("count", "{}"), hosttest.Say("1")), count(t)), nil), &sessions.Options{Store: store})
	session := run(t, first, say(&request{}, "a")).Session
	then := newService(t, target(hosttest.Say("never")), &sessions.Options{Store: store})
	if _, err := then.Run(t.Context(), &request{Session: session, Text: "b"}); host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), "schema") {
		t.Errorf("a stored state that does not fit: %v", err)
	}
}

func TestBranches(t *testing.T) {
	s := stored(t, agentOf(t, hosttest.Call("count", "{}"), hosttest.Say("1"), hosttest.Call("count", "{}"), hosttest.Say("2"), hosttest.Say("other"), hosttest.Say("on"), hosttest.Say("back"))())
	one := run(t, s, say(&request{}, "a"))
	two := run(t, s, say(&request{Session: one.Session, Snapshot: one.Snapshot}, "b"))
	branch := run(t, s, say(&request{Snapshot: one.Snapshot}, "c"))
	if branch.Session != one.Session || branch.Parent != one.Snapshot {
		t.Errorf("the branch is %+v", branch)
	}
	for id, want := range map[string][]string{
		two.Snapshot:    {"user: a", "assistant: ", "tool: ", "assistant: 1", "user: b", "assistant: ", "tool: ", "assistant: 2"},
		branch.Snapshot: {"user: a", "assistant: ", "tool: ", "assistant: 1", "user: c", "assistant: other"},
	} {
		snap := snapshot(t, s, id)
		if diff := cmp.Diff(want, texts(snap.State.Messages)); diff != "" {
			t.Errorf("%s: %s", id, diff)
		}
		if want := map[bool]string{true: `{"N":2}`, false: `{"N":1}`}[id == two.Snapshot]; string(snap.State.Custom) != want {
			t.Errorf("%s: custom state is %s, want %s", id, snap.State.Custom, want)
		}
	}
	on := run(t, s, say(&request{Session: one.Session}, "d"))
	if on.Parent != branch.Snapshot {
		t.Errorf("by session it goes on from %s, want the latest, %s", on.Parent, branch.Snapshot)
	}
	back := run(t, s, say(&request{Snapshot: two.Snapshot}, "e"))
	if got := texts(snapshot(t, s, back.Snapshot).State.Messages); back.Parent != two.Snapshot || len(got) != 10 || got[7] != "assistant: 2" {
		t.Errorf("back on the first branch: %+v %q", back, got)
	}
}

func TestAnotherAgentsSessions(t *testing.T) {
	store := threads.New(testdriver.New(t), nil)
	a := newService(t, newAgent(t, "a", model(hosttest.Say("1"))), &sessions.Options{Store: store})
	out := run(t, a, say(&request{}, "hi"))
	b := newService(t, newAgent(t, "b", model(hosttest.Say("2"))), &sessions.Options{Store: store})
	for name, req := range map[string]*request{"session": {Session: out.Session}, "snapshot": {Snapshot: out.Snapshot}} {
		if _, err := b.Run(t.Context(), say(req, "hi")); host.CodeOf(err) != host.FailedPrecondition || !strings.Contains(err.Error(), `"a"`) {
			t.Errorf("b goes on with a's %s: %v", name, err)
		}
	}
	if _, err := b.Snapshot(t.Context(), &sessions.SnapshotRequest{Snapshot: out.Snapshot}); host.CodeOf(err) != host.NotFound {
		t.Errorf("b reads a's snapshot: %v", err)
	}
	any := newService(t, newAgent(t, "b", model(hosttest.Say("2"))), &sessions.Options{Store: store, AnyAgent: true})
	run(t, any, say(&request{Session: out.Session}, "hi"))
	client := newService(t, newAgent(t, "b", model(hosttest.Say("2"))), nil)
	if _, err := client.Run(t.Context(), &request{Text: "hi", State: &sessions.Session{Agent: "a"}}); host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("b goes on with a session that a client has of a: %v", err)
	}
	if _, err := a.Run(t.Context(), &request{Tenant: "other", Text: "hi", Snapshot: out.Snapshot}); host.CodeOf(err) != host.NotFound {
		t.Errorf("another tenant goes on: %v", err)
	}
}

// Parallel turns on one session wait for each other.
func TestNoTurnIsLost(t *testing.T) {
	s := stored(t, newAgent(t, "clerk", hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply { return hosttest.Say("ok") })))
	out := run(t, s, say(&request{}, "first"))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if _, err := s.Run(t.Context(), &request{Session: out.Session, Text: "more"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	snap, err := s.Snapshot(t.Context(), &sessions.SnapshotRequest{Session: out.Session})
	if err != nil || len(snap.State.Messages) != 10 {
		t.Errorf("the session has %d messages, %v; want 10", len(snap.State.Messages), err)
	}
}

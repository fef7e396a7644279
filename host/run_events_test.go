package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
)

// busyAgent calls three tools at once that all emit, twice, and then says so.
func busyAgent(t testing.TB, history *host.History) *host.Agent {
	t.Helper()
	var tools []*host.Tool
	reply := hosttest.Say("working")
	for i := range 3 {
		name := fmt.Sprint("emit", i)
		reply = reply.Call(name, "{}")
		tools = append(tools, tool(name, func(_ context.Context, call *host.Call) (string, error) {
			for n := range 5 {
				if err := call.Emit("step", n); err != nil {
					return "", err
				}
			}
			return "emitted", call.State.Set("/"+name, true)
		}))
	}
	round := 0
	model := hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply {
		if round++; round > 2 {
			return hosttest.Say("all done")
		}
		return reply
	})
	return newAgent(t, &host.AgentOptions{Model: model, Tools: tools, History: history})
}

// collect reads a run to its end.
func collect(t testing.TB, h *host.Host, target host.Target, req *host.Request) ([]host.Event, error) {
	t.Helper()
	var events []host.Event
	for ev, err := range h.Stream(t.Context(), target, req) {
		if err != nil {
			return events, err
		}
		events = append(events, ev)
	}
	return events, nil
}

func TestEventsAreNumberedWithoutGaps(t *testing.T) {
	events, err := collect(t, newHost(t, nil), busyAgent(t, nil), &host.Request{Text: "go"})
	if err != nil {
		t.Fatal(err)
	}
	steps := map[string]int{}
	for i, ev := range events {
		if ev.Seq != int64(i) {
			t.Fatalf("event %d has number %d", i, ev.Seq)
		}
		if ev.Run != events[0].Run || ev.Time.IsZero() {
			t.Errorf("event %d is of run %q at %v", i, ev.Run, ev.Time)
		}
		if p, ok := ev.Data.(*runevent.ToolProgress); ok {
			if want := fmt.Sprint(steps[p.ID]); string(p.Data) != want {
				t.Errorf("call %s emits %s after %s steps", p.ID, p.Data, want)
			}
			steps[p.ID]++
		}
	}
	if len(steps) != 6 {
		t.Errorf("%d calls emitted, want 6", len(steps))
	}
	first, last := events[0].Data.Type(), events[len(events)-1].Data.Type()
	if first != "run.started" || last != "run.finished" {
		t.Errorf("the run begins with %s and ends with %s", first, last)
	}
}

// Whatever was started has its end, and a tool's events lie between the two.
func TestEveryBeginningHasItsEnd(t *testing.T) {
	events, err := collect(t, newHost(t, nil), busyAgent(t, nil), &host.Request{Text: "go"})
	if err != nil {
		t.Fatal(err)
	}
	open := map[string]bool{}
	for _, ev := range events {
		switch d := ev.Data.(type) {
		case *runevent.AgentStarted:
			open["agent"] = true
		case *runevent.AgentFinished:
			delete(open, "agent")
		case *runevent.ToolStarted:
			open[d.ID] = true
		case *runevent.ToolProgress:
			if !open[d.ID] {
				t.Errorf("call %s emits while it does not run", d.ID)
			}
		case *runevent.ToolFinished:
			delete(open, d.ID)
		}
	}
	if len(open) > 0 {
		t.Errorf("never ended: %v", open)
	}
}

func TestEventsAreJSONObjects(t *testing.T) {
	events, err := collect(t, newHost(t, nil), busyAgent(t, nil), &host.Request{Tenant: "acme", Text: "go"})
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range events {
		raw, err := json.Marshal(ev)
		if err != nil {
			t.Fatalf("%s: %v", ev.Data.Type(), err)
		}
		var got struct {
			Seq  *int64
			Type string
			Run  string
			Data map[string]any
		}
		if err := json.Unmarshal(raw, &got); err != nil || got.Seq == nil || got.Type != ev.Data.Type() || got.Run == "" || got.Data == nil {
			t.Errorf("%s is written as %s (%v)", ev.Data.Type(), raw, err)
		}
	}
}

// The state can be followed from its events alone.
func TestStatePatchesLeadToTheFinalState(t *testing.T) {
	events, err := collect(t, newHost(t, nil), busyAgent(t, nil), &host.Request{Text: "go", State: map[string]int{"n": 1}})
	if err != nil {
		t.Fatal(err)
	}
	follower := newState(t, `{}`)
	var final json.RawMessage
	for _, ev := range events {
		switch d := ev.Data.(type) {
		case *runevent.StatePatched:
			if err := follower.Patch(d.Ops); err != nil {
				t.Errorf("event %d does not apply: %v", ev.Seq, err)
			}
		case *runevent.RunFinished:
			final = d.Result.State
		}
	}
	if diff := cmp.Diff(string(final), string(follower.JSON())); diff != "" {
		t.Errorf("final state (-run +followed):\n%s", diff)
	}
}

// Routers, providers and instructions change the state as well as tools do.
func TestEveryChangeOfTheStateIsAnEvent(t *testing.T) {
	set := func(s *host.State, name string) error { return s.Set("/"+name, true) }
	router := host.RouterFunc("r", func(_ context.Context, req *host.RouteRequest) (*host.Route, error) {
		if req.CallCount > 0 {
			return nil, set(req.State, "router_after")
		}
		return host.Next("clerk"), set(req.State, "router")
	})
	agent := newAgent(t, &host.AgentOptions{Model: says("x"), InstructionsFunc: func(_ context.Context, req *host.InstructionsRequest) (string, error) {
		return "", set(req.State, "instructions")
	}})
	network, err := host.NewNetwork("n", []*host.Agent{agent}, &host.NetworkOptions{Router: router})
	if err != nil {
		t.Fatal(err)
	}
	events, err := collect(t, newHost(t, nil), network, &host.Request{Text: "go"})
	if err != nil {
		t.Fatal(err)
	}
	follower := newState(t, `{}`)
	for _, ev := range events {
		if d, ok := ev.Data.(*runevent.StatePatched); ok {
			if err := follower.Patch(d.Ops); err != nil {
				t.Errorf("event %d does not apply: %v", ev.Seq, err)
			}
		}
	}
	if got, want := string(follower.JSON()), `{"instructions":true,"router":true,"router_after":true}`; got != want {
		t.Errorf("the events lead to %s, want %s", got, want)
	}
}

// chatty streams deltas for ever and does not look at its context.
type chatty struct{}

func (chatty) Name() string { return "chatty" }
func (chatty) Generate(context.Context, *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		for yield(llm.Chunk{Text: "x"}, nil) {
		}
	}
}

func TestALeftRunStopsAModelThatStreamsOn(t *testing.T) {
	n := 0
	for range newHost(t, nil).Stream(t.Context(), newAgent(t, &host.AgentOptions{Model: chatty{}}), &host.Request{Text: "go"}) {
		if n++; n > 10 {
			break
		}
	}
}

// A reader may leave after any event: the run is cancelled, what was finished is
// stored, and nothing goes on (the package's TestMain looks for goroutines).
func TestAReaderMayLeaveAtAnyEvent(t *testing.T) {
	all, err := collect(t, newHost(t, nil), busyAgent(t, newHistory(t, hosttest.NewHistory())), &host.Request{Thread: "T", Text: "go"})
	if err != nil {
		t.Fatal(err)
	}
	for leave := range len(all) {
		history := hosttest.NewHistory()
		agent := busyAgent(t, newHistory(t, history))
		seen := 0
		for _, err := range newHost(t, nil).Stream(t.Context(), agent, &host.Request{Thread: "T", Text: "go"}) {
			if err != nil {
				t.Fatalf("leaving after %d events: %v", leave, err)
			}
			if seen++; seen > leave {
				break
			}
		}
		checkAbandoned(t, leave, history)
	}
}

func checkAbandoned(t *testing.T, leave int, history *hosttest.History) {
	t.Helper()
	turns := history.Turns()
	if len(turns) != 1 {
		t.Fatalf("leaving after %d events stores %d turns, want 1; %q", leave, len(turns), history.Calls())
	}
	open := map[string]bool{}
	messages := history.Messages("", "T")
	for _, m := range messages {
		for _, c := range m.ToolCalls() {
			open[c.ID] = true
		}
		for _, r := range m.ToolResults() {
			delete(open, r.ID)
		}
	}
	if len(messages) == 0 || messages[0].Role != host.User || len(open) > 0 {
		t.Errorf("leaving after %d events stores %d messages, open calls %v", leave, len(messages), open)
	}
	if s := turns[0].Status; s != chat.FinishCanceled && s != chat.FinishStop {
		t.Errorf("leaving after %d events stores status %s", leave, s)
	}
}

// A reader that panics, or ends its goroutine as a failing test does, leaves
// nothing behind and no thread locked.
func TestAReaderMayPanic(t *testing.T) {
	history := hosttest.NewHistory()
	h := newHost(t, nil)
	for _, leave := range []int{0, 5, 12} {
		agent := busyAgent(t, newHistory(t, history))
		func() {
			defer func() {
				if p := recover(); p != "enough" {
					t.Errorf("recovered %v", p)
				}
			}()
			seen := 0
			for range h.Stream(t.Context(), agent, &host.Request{Thread: "T", Text: "go"}) {
				if seen++; seen > leave {
					panic("enough")
				}
			}
		}()
	}
	if _, err := collect(t, h, busyAgent(t, newHistory(t, history)), &host.Request{Thread: "T", Text: "go"}); err != nil {
		t.Errorf("the next run: %v", err)
	}
}

// A slow reader slows its own run: tools wait with their events, none is lost.
func TestASlowReaderLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 500
		emit := tool("emit", func(_ context.Context, call *host.Call) (string, error) {
			for i := range n {
				if err := call.Emit("step", i); err != nil {
					return "", err
				}
			}
			return "done", nil
		})
		agent := newAgent(t, &host.AgentOptions{Model: hosttest.NewModel(hosttest.Call("emit", "{}")), Tools: []*host.Tool{emit}, MaxRounds: 1})
		got := 0
		for ev, err := range newHost(t, nil).Stream(t.Context(), agent, &host.Request{Text: "go"}) {
			if err != nil {
				t.Fatal(err)
			}
			if p, ok := ev.Data.(*runevent.ToolProgress); ok {
				if string(p.Data) != fmt.Sprint(got) {
					t.Fatalf("event %d is %s", got, p.Data)
				}
				got++
			}
			synctest.Wait() // until the tool can do no more
		}
		if got != n {
			t.Errorf("%d events of %d arrived", got, n)
		}
	})
}

func TestWhatACallLeavesHasLimits(t *testing.T) {
	limits := host.Limits{EventBytes: 20, EventsPerCall: 3, RunArtifacts: 5, RunArtifactBytes: 300}
	artifacts := func(n, bytes int) func(*host.Call) error {
		return func(c *host.Call) error {
			a := host.Artifact{Name: "a", Parts: []host.Part{&host.Text{Text: strings.Repeat("x", bytes)}}}
			for range n - 1 {
				if err := c.AddArtifact(a); err != nil {
					return fmt.Errorf("too early: %w", err)
				}
			}
			return c.AddArtifact(a)
		}
	}
	for name, c := range map[string]struct {
		emit func(*host.Call) error
		says string
	}{
		"EventBytes": {func(c *host.Call) error { return c.Emit("big", strings.Repeat("x", 30)) }, "EventBytes of 20"},
		"EventsPerCall": {func(c *host.Call) error {
			for range 3 {
				if err := c.Emit("e", 1); err != nil {
					return fmt.Errorf("too early: %w", err)
				}
			}
			return c.Emit("e", 1)
		}, "EventsPerCall of 3"},
		"a kind too long":  {func(c *host.Call) error { return c.Emit(strings.Repeat("k", 129), 1) }, "129 bytes, more than 128"},
		"no JSON":          {func(c *host.Call) error { return c.Emit("f", func() {}) }, "not JSON"},
		"RunArtifacts":     {artifacts(6, 0), "RunArtifacts of 5"},
		"RunArtifactBytes": {artifacts(3, 100), "RunArtifactBytes of 300"},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := runTools(t.Context(), t, &host.Options{Limits: limits}, tool("emit", func(_ context.Context, call *host.Call) (string, error) {
				return "", c.emit(call)
			}))
			if err != nil || !strings.Contains(contents(result)[0], c.says) {
				t.Errorf("the model is told %v, %v; want %q", contents(result), err, c.says)
			}
		})
	}
}

// A request that cannot be run yields its error and nothing else; a run that
// fails on its way yields its error last, after the event that tells it.
func TestErrorsComeLast(t *testing.T) {
	events, err := collect(t, newHost(t, nil), newAgent(t, nil), &host.Request{Text: "x"})
	if len(events) != 0 || host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("without a model: %d events, %v", len(events), err)
	}
	broken := newAgent(t, &host.AgentOptions{Model: hosttest.NewModel(hosttest.Fail(host.Errorf(host.Unavailable, "down")))})
	events, err = collect(t, newHost(t, nil), broken, &host.Request{Text: "x"})
	last, ok := events[len(events)-1].Data.(*runevent.RunFinished)
	if !ok || last.Error == nil || last.Error.Code != host.Unavailable || host.CodeOf(err) != host.Unavailable {
		t.Errorf("a model that is down: last event %+v, error %v", events[len(events)-1].Data, err)
	}
}

func TestEveryReadingOfAStreamIsARun(t *testing.T) {
	h := newHost(t, nil)
	agent := newAgent(t, &host.AgentOptions{Model: hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply { return hosttest.Say("x") })})
	stream := h.Stream(t.Context(), agent, &host.Request{Text: "x"})
	var wg sync.WaitGroup
	runs := make([]string, 4)
	for i := range runs {
		wg.Go(func() {
			for ev := range stream {
				runs[i] = ev.Run
			}
		})
	}
	wg.Wait()
	for i, id := range runs {
		if id == "" || i > 0 && id == runs[i-1] {
			t.Errorf("reading one stream %d times gives runs %q; want a run each time", len(runs), runs)
		}
	}
}

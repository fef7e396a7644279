package host_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/runevent"
)

// hooked runs a network of one agent with hooks on a thread, and returns what came
// of it, what its history has and how often a model was asked.
func hooked(t *testing.T, hooks host.NetworkHooks, replies ...hosttest.Reply) (*host.RunResult, *hosttest.History, *hosttest.Model, error) {
	t.Helper()
	store := hosttest.NewHistory()
	history, err := host.NewHistory(store, nil)
	if err != nil {
		t.Fatal(err)
	}
	model := hosttest.NewModel(replies...)
	agent := newAgent(t, &host.AgentOptions{Model: model})
	net, err := host.NewNetwork("net", []*host.Agent{agent}, &host.NetworkOptions{History: history, Hooks: hooks, Router: host.InOrder("order", agent.Name())})
	if err != nil {
		t.Fatal(err)
	}
	result, err := newHost(t, nil).Run(t.Context(), net, &host.Request{Thread: "T", Text: "hi"})
	return result, store, model, err
}

func TestNetworkHooksBeginAndEndARun(t *testing.T) {
	var order []string
	hooks := host.NetworkHooks{
		Start: func(_ context.Context, at *host.NetworkStartHook) error {
			order = append(order, "start "+said(at.SoFar.Messages())+" "+at.Input.Text()+" "+at.Scope.Network)
			return at.State.Set("/begun", true)
		},
		Finish: func(_ context.Context, at *host.NetworkFinishHook) error {
			order = append(order, "finish "+said(at.SoFar.Messages())+" "+string(at.FinishReason)+" "+at.SoFar.Last().Text())
			if at.Usage.Total() == 0 {
				t.Error("finish without usage")
			}
			return at.State.Set("/ended", true)
		},
	}
	result, store, _, err := hooked(t, hooks, hosttest.Say("yes"))
	if got, want := strings.Join(order, "; "), "start u:hi hi net; finish u:hi | a:yes stop yes"; err != nil || got != want {
		t.Fatalf("%q, %v; want %q", got, err, want)
	}
	const state = `{"begun":true,"ended":true}`
	turns := store.Turns()
	if len(turns) != 1 || string(turns[0].State) != state || string(result.State) != state {
		t.Errorf("stored is %+v, the result has %s, want %s in both", turns, result.State, state)
	}
}

func TestNetworkStartHookStops(t *testing.T) {
	finished := false
	hooks := host.NetworkHooks{
		Start:  func(_ context.Context, at *host.NetworkStartHook) error { at.Stop = true; return nil },
		Finish: func(context.Context, *host.NetworkFinishHook) error { finished = true; return nil },
	}
	result, store, model, err := hooked(t, hooks)
	if err != nil || result.FinishReason != chat.FinishStop || len(result.Results) != 0 || finished || len(model.Requests()) != 0 || len(store.Turns()) != 0 {
		t.Errorf("%+v, %v, finish called: %v, %d questions, %d turns", result, err, finished, len(model.Requests()), len(store.Turns()))
	}
}

// A hook that fails or panics fails the run, which is stored as any that fails.
func TestNetworkHooksFail(t *testing.T) {
	refused := host.Errorf(host.PermissionDenied, "not today")
	for _, tt := range []struct {
		name    string
		hooks   host.NetworkHooks
		code    host.Code
		results int
	}{
		{"start", host.NetworkHooks{Start: func(context.Context, *host.NetworkStartHook) error { return refused }}, host.PermissionDenied, 0},
		{"start panics", host.NetworkHooks{Start: func(context.Context, *host.NetworkStartHook) error { panic("boom") }}, host.Internal, 0},
		{"finish", host.NetworkHooks{Finish: func(context.Context, *host.NetworkFinishHook) error { return refused }}, host.PermissionDenied, 1},
		{"finish panics", host.NetworkHooks{Finish: func(context.Context, *host.NetworkFinishHook) error { panic("boom") }}, host.Internal, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, store, model, err := hooked(t, tt.hooks, hosttest.Say("yes"))
			if host.CodeOf(err) != tt.code || !strings.Contains(err.Error(), `of network "net"`) {
				t.Errorf("%v, want %s with the network's name", err, tt.code)
			}
			turns := store.Turns()
			if len(turns) != 1 || turns[0].Status != chat.FinishFailed || len(turns[0].Results) != tt.results || len(model.Requests()) != tt.results {
				t.Errorf("%d questions, stored is %+v; want a failed turn with %d results", len(model.Requests()), turns, tt.results)
			}
			if tt.code == host.PermissionDenied && !errors.Is(err, refused) {
				t.Errorf("%v does not wrap the hook's error", err)
			}
		})
	}
}

func TestRunStateAs(t *testing.T) {
	type tally struct {
		N int64 `json:"n"`
	}
	result, _, err := runWith(t, &host.AgentOptions{}, &host.Request{Text: "hi", State: map[string]any{"n": int64(9007199254740993), "other": true}}, hosttest.Say("yes"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := runevent.StateAs[tally](result); err != nil || got.N != 9007199254740993 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := runevent.StateAs[[]int](result); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("as a list: %v", err)
	}
	for _, none := range []*host.RunResult{nil, {}} {
		if _, err := runevent.StateAs[tally](none); host.CodeOf(err) != host.FailedPrecondition {
			t.Errorf("of %v: %v", none, err)
		}
	}
}

// A run that goes on with the answer to a question has had its Start; Finish is
// called when nothing is left to ask.
func TestNetworkHooksAreCalledOnceOverAQuestion(t *testing.T) {
	starts, finishes := 0, 0
	hooks := host.NetworkHooks{
		Start: func(_ context.Context, at *host.NetworkStartHook) error {
			starts++
			return at.State.Set("/begun", starts)
		},
		Finish: func(_ context.Context, at *host.NetworkFinishHook) error {
			finishes++
			return at.State.Set("/ended", finishes)
		},
	}
	ask := host.NewTool("ask", "Asks.", func(_ context.Context, _ *host.Call, _ struct{}) (string, error) { return "done", nil },
		&host.ToolOptions{Approve: func(context.Context, *host.Call) (string, error) { return "May it?", nil }})
	agent := newAgent(t, &host.AgentOptions{Model: hosttest.NewModel(hosttest.Call("ask", `{}`), hosttest.Say("yes")), Tools: []*host.Tool{ask}})
	net, err := host.NewNetwork("net", []*host.Agent{agent}, &host.NetworkOptions{Hooks: hooks, Router: host.InOrder("order", agent.Name())})
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(t, &host.Options{Journal: hosttest.NewJournal()})
	asked, err := h.Run(t.Context(), net, &host.Request{Text: "hi"})
	if err != nil || len(asked.Questions) != 1 || starts != 1 || finishes != 0 {
		t.Fatalf("%+v, %v after %d starts and %d finishes", asked, err, starts, finishes)
	}
	done, err := h.Run(t.Context(), net, &host.Request{Resume: asked.Run, Answers: []host.Answer{{Question: asked.Questions[0].ID, Decision: host.Approve}}})
	if err != nil || starts != 1 || finishes != 1 || string(done.State) != `{"begun":1,"ended":1}` {
		t.Errorf("%+v, %v after %d starts and %d finishes", done, err, starts, finishes)
	}
}

// A run that its network's Start hook has stopped stays stopped in the process that
// resumes it.
func TestAStoppedRunStaysStoppedAcrossACrash(t *testing.T) {
	j := &endless{Journal: hosttest.NewJournal(), dead: true}
	model := says("hi")
	agent := newAgent(t, nil)
	net, err := host.NewNetwork("net", []*host.Agent{agent}, &host.NetworkOptions{Router: host.InOrder("order", agent.Name()), Hooks: host.NetworkHooks{
		Start: func(_ context.Context, at *host.NetworkStartHook) error { at.Stop = true; return nil },
	}})
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(t, &host.Options{Model: model, Journal: j})
	if _, err := h.Run(t.Context(), net, &host.Request{Text: "hi", Durable: true, Run: "r"}); err != nil || len(j.Runs()) != 1 {
		t.Fatalf("Run: %v, the journal has %d runs", err, len(j.Runs()))
	}
	j.dead = false
	r, err := h.Run(t.Context(), net, &host.Request{Resume: "r"})
	if err != nil || r.FinishReason != chat.FinishStop || len(r.Results) != 0 || len(model.Requests()) != 0 {
		t.Errorf("Run = %+v: %v, after %d model calls; want none", r, err, len(model.Requests()))
	}
}

package host_test

import (
	"context"
	"fmt"
	"iter"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
)

// panicking is everything that a program may hand to a network, broken.
type panicking struct{}

func (panicking) Name() string { return "broken" }
func (panicking) Generate(context.Context, *llm.Request) iter.Seq2[llm.Chunk, error] {
	panic("boom")
}
func (panicking) Route(context.Context, *host.RouteRequest) (*host.Route, error) { panic("boom") }
func (panicking) Process(context.Context, *host.View) (*llm.Processed, error)    { panic("boom") }
func (panicking) Provide(context.Context, *host.ProvideRequest) (*host.Provided, error) {
	panic("boom")
}

// A panic in somebody's code ends the run like any failure: what was finished
// before is stored, and the process goes on.
func TestAPanicEndsTheRunAlone(t *testing.T) {
	boom := func(context.Context, *host.InstructionsRequest) (string, error) { panic("boom") }
	asks := func(context.Context, *host.InstructionsRequest) (bool, error) { panic("boom") }
	broken := func(opts *host.AgentOptions) []*host.Agent {
		opts.Description = "is broken"
		if opts.Model == nil {
			opts.Model = says("x")
		}
		b, err := host.NewAgent("b", opts)
		if err != nil {
			t.Fatal(err)
		}
		return []*host.Agent{b}
	}
	aThenB := host.InOrder("line", "a", "b")
	onRoute := host.NewModelRouter("m", &host.ModelRouterOptions{Model: says("x"), OnRoute: func(context.Context, *llm.Response, *host.RouteRequest) (*host.Route, error) { panic("boom") }})
	byCode := func(r host.Router) host.Router { // after a has run
		return host.RouterFunc("code", func(ctx context.Context, req *host.RouteRequest) (*host.Route, error) {
			if req.CallCount == 0 {
				return host.Next("a"), nil
			}
			return r.Route(ctx, req)
		})
	}
	for name, c := range map[string]struct {
		more   []*host.Agent
		router host.Router
		says   string
	}{
		"a router":            {nil, byCode(panicking{}), `router "code": it panicked: boom`},
		"an OnRoute":          {nil, byCode(onRoute), `router "code": it panicked: boom`},
		"a model":             {broken(&host.AgentOptions{Model: panicking{}}), aThenB, `agent "b" panicked: boom`},
		"instructions":        {broken(&host.AgentOptions{InstructionsFunc: boom}), aThenB, `agent "b" panicked: boom`},
		"a processor":         {broken(&host.AgentOptions{Processors: []host.Processor{panicking{}}}), aThenB, `agent "b" panicked: processor "broken": boom`},
		"a provider":          {broken(&host.AgentOptions{Providers: []host.Provider{panicking{}}}), aThenB, `agent "b" panicked: boom`},
		"a hook":              {broken(&host.AgentOptions{Hooks: host.Hooks{Start: func(context.Context, *host.StartHook) error { panic("boom") }}}), aThenB, `agent "b" panicked: boom`},
		"whether it may run":  {broken(&host.AgentOptions{Enabled: asks}), aThenB, `router "line": ask whether agent "b" is enabled: it panicked: boom`},
		"a panic with a list": {nil, byCode(host.RouterFunc("r", func(context.Context, *host.RouteRequest) (*host.Route, error) { panic([]int{1, 2}) })), `router "code": it panicked: [1 2]`},
	} {
		t.Run(name, func(t *testing.T) {
			history := hosttest.NewHistory()
			n := newNetwork(t, append([]*host.Agent{agentNamed(t, "a", "is whole")}, c.more...), &host.NetworkOptions{Router: c.router, History: newHistory(t, history)})
			r, err := newHost(t, nil).Run(t.Context(), n, &host.Request{Thread: "T", Text: "hi"})
			if host.CodeOf(err) != host.Internal || err.Error() != c.says {
				t.Errorf("Run: %v; want code %s and %q", err, host.Internal, c.says)
			}
			if r.FinishReason != chat.FinishFailed {
				t.Errorf("the run ended with %q", r.FinishReason)
			}
			want := 2 // the user's message, and a's answer
			if name == "whether it may run" {
				want = 1
			}
			if stored := history.Messages("", "T"); len(stored) != want {
				t.Errorf("%d messages are stored, want %d", len(stored), want)
			}
		})
	}
}

// The reader's own panic is the reader's: the run does not hold it up.
func TestTheReadersPanicGoesOn(t *testing.T) {
	for _, at := range []string{"route", "agent.started", "text.delta", "run.finished"} {
		t.Run(at, func(t *testing.T) {
			defer func() {
				if p := recover(); fmt.Sprint(p) != "mine" {
					t.Errorf("recovered %v", p)
				}
			}()
			n := newNetwork(t, []*host.Agent{agentNamed(t, "a", "")}, &host.NetworkOptions{Router: host.InOrder("line", "a")})
			for ev := range newHost(t, nil).Stream(t.Context(), n, &host.Request{Text: "hi"}) {
				if ev.Data.Type() == at {
					panic("mine")
				}
			}
			t.Error("there was no such event")
		})
	}
}

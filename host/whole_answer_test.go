package host_test

// Scenario: models are asked for answers in one piece where no reader takes deltas.

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
)

// wholeAsked is a model that notes who asks it for answers in one piece.
type wholeAsked struct {
	host.Model
	mu    sync.Mutex
	asked []string
}

func (m *wholeAsked) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	m.mu.Lock()
	m.asked = append(m.asked, fmt.Sprintf("%s whole=%t", req.Scope.Agent, req.Whole))
	m.mu.Unlock()
	return m.Model.Generate(ctx, req)
}

// manager is an agent that calls another one as a tool.
func manager(t *testing.T, m host.Model) *host.Agent {
	t.Helper()
	clerk := newAgent(t, &host.AgentOptions{Description: "Answers.", Model: m})
	tool, err := host.NewAgentTool(clerk, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := host.NewAgent("manager", &host.AgentOptions{Model: m, Tools: []*host.Tool{tool}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func managed() *wholeAsked {
	return &wholeAsked{Model: hosttest.NewModel(hosttest.Say("").Call("clerk", `{"request":"look"}`), hosttest.Say("found"), hosttest.Say("done"))}
}

func TestOnlyRunsWithoutAReaderAskForWholeAnswers(t *testing.T) {
	h := newHost(t, nil)
	m := managed()
	if _, err := h.Run(t.Context(), manager(t, m), &host.Request{Tenant: "acme", Text: "go"}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"manager whole=true", "clerk whole=true", "manager whole=true"}; !slices.Equal(m.asked, want) {
		t.Errorf("Run asks %v, want %v", m.asked, want)
	}
	m = managed()
	for _, err := range h.Stream(t.Context(), manager(t, m), &host.Request{Tenant: "acme", Text: "go"}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"manager whole=false", "clerk whole=false", "manager whole=false"}; !slices.Equal(m.asked, want) {
		t.Errorf("Stream asks %v, want %v", m.asked, want)
	}
}

// The answers of a router's model reach no reader, in a stream neither.
func TestARoutersModelIsAskedForWholeAnswers(t *testing.T) {
	m := &wholeAsked{Model: hosttest.NewModel(hosttest.Say("").Call("select_agent", `{"name":"clerk"}`))}
	clerk := newAgent(t, &host.AgentOptions{Description: "Answers.", Model: hosttest.NewModel(hosttest.Say("done"))})
	router := host.NewModelRouter("boss", &host.ModelRouterOptions{Model: m})
	n, err := host.NewNetwork("desk", []*host.Agent{clerk}, &host.NetworkOptions{Router: router})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range newHost(t, nil).Stream(t.Context(), n, &host.Request{Tenant: "acme", Text: "go"}) {
		if err != nil {
			break // the router is asked again, and the script has ended
		}
	}
	if len(m.asked) == 0 || m.asked[0] != " whole=true" {
		t.Errorf("the router's model is asked %q, want for a whole answer", m.asked)
	}
}

// eventTypes collects the types of events.
type eventTypes struct {
	host.Meter
	mu    sync.Mutex
	types []string
}

func (s *eventTypes) Measure(_ host.Scope, ev host.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.types = append(s.types, ev.Data.Type())
}

// An answer in one piece has the events of a stream that came at once.
func TestAWholeAnswerHasTheEventsOfAStream(t *testing.T) {
	types := func(run func(*host.Host, *host.Agent)) []string {
		s := &eventTypes{}
		agent := newAgent(t, &host.AgentOptions{Model: hosttest.NewModel(hosttest.Say("done"))})
		run(newHost(t, &host.Options{Meter: s}), agent)
		return s.types
	}
	req := &host.Request{Tenant: "acme", Text: "go"}
	streamed := types(func(h *host.Host, a *host.Agent) {
		for _, err := range h.Stream(t.Context(), a, req) {
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	whole := types(func(h *host.Host, a *host.Agent) {
		if _, err := h.Run(t.Context(), a, req); err != nil {
			t.Fatal(err)
		}
	})
	if diff := cmp.Diff(streamed, whole); diff != "" {
		t.Errorf("events of a run with a whole answer (-streamed +whole):\n%s", diff)
	}
}

package host_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
)

// costly is a tool that has used a million instructions.
func costly(t testing.TB) *host.Tool {
	t.Helper()
	tl, err := host.NewRawTool(llm.ToolSpec{Name: "costly", Description: "Costs.", Parameters: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *host.Call) (*host.ToolOutput, error) {
			return &host.ToolOutput{Cost: &host.Cost{Instructions: 1_000_000}}, nil
		}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tl
}

func TestRunsAreHeldToTheirInstructions(t *testing.T) {
	rounds := 0
	model := hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply {
		rounds++
		return hosttest.Call("costly", "{}").Call("costly", "{}")
	})
	r, err := newHost(t, &host.Options{Limits: host.Limits{RunInstructions: 5_000_000}}).
		Run(t.Context(), newAgent(t, &host.AgentOptions{Model: model, Tools: []*host.Tool{costly(t)}}), &host.Request{Text: "go"})
	if host.CodeOf(err) != host.ResourceExhausted || !strings.Contains(err.Error(), "RunInstructions of 5000000") {
		t.Fatalf("Run: %v", err)
	}
	if rounds != 3 || r.Cost.Instructions != 6_000_000 {
		t.Errorf("%d rounds used %d instructions; the run must end once 5,000,000 are used", rounds, r.Cost.Instructions)
	}
}

// What an agent uses as a tool is counted while it runs, and once.
func TestAgentsAsToolsShareTheInstructionsOfTheRun(t *testing.T) {
	for limit, ok := range map[int64]bool{1_500_000: false, 2_500_000: true} {
		inner := hosttest.NewModel(hosttest.Call("costly", "{}"), hosttest.Call("costly", "{}"), hosttest.Say("done"))
		agent, err := host.NewAgent("helper", &host.AgentOptions{Description: "Helps.", Model: inner, Tools: []*host.Tool{costly(t)}})
		if err != nil {
			t.Fatal(err)
		}
		helper, err := host.NewAgentTool(agent, nil)
		if err != nil {
			t.Fatal(err)
		}
		outer := hosttest.NewModel(hosttest.Call("helper", `{"request":"do it"}`), hosttest.Say("done"))
		r, err := newHost(t, &host.Options{Limits: host.Limits{RunInstructions: limit}}).
			Run(t.Context(), newAgent(t, &host.AgentOptions{Model: outer, Tools: []*host.Tool{helper}}), &host.Request{Text: "go"})
		if ok != (err == nil) || !ok && host.CodeOf(err) != host.ResourceExhausted {
			t.Errorf("limit %d: %v", limit, err)
		}
		if r.Cost.Instructions != 2_000_000 {
			t.Errorf("limit %d: %d instructions, want 2,000,000", limit, r.Cost.Instructions)
		}
	}
}

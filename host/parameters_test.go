package host_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
)

// parametersOf returns what a model was asked with, as JSON.
func parametersOf(req *llm.Request) string {
	raw, err := json.Marshal(map[string]json.RawMessage(req.Parameters))
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

func TestParametersOfAgentAndRequest(t *testing.T) {
	own := map[string]any{"top_p": 0.5, "seed": 7, "stop": []string{"END"}}
	opts := &host.AgentOptions{ModelParameters: own, Tools: []*host.Tool{lookUp()}}
	req := &host.Request{Text: "hi", ModelParameters: map[string]any{"seed": nil, "top_p": json.RawMessage(`0.90`)}}
	_, model, err := runWith(t, opts, req, hosttest.Call("look", `{"what":"it"}`), hosttest.Say("done"))
	if err != nil {
		t.Fatal(err)
	}
	for i, asked := range model.Requests() {
		if got := parametersOf(asked); got != `{"stop":["END"],"top_p":0.90}` {
			t.Errorf("round %d is asked with %s", i+1, got)
		}
	}
	_, model, err = runWith(t, &host.AgentOptions{}, nil, hosttest.Say("done"))
	if err != nil || model.Requests()[0].Parameters != nil {
		t.Errorf("without parameters a model is asked with %v, %v", model.Requests()[0].Parameters, err)
	}
}

// What an agent's caller does with its map afterwards is not the agent's.
func TestParametersAreTheAgentsOwn(t *testing.T) {
	own := map[string]any{"seed": 7}
	model := hosttest.NewModel(hosttest.Say("done"))
	agent := newAgent(t, &host.AgentOptions{ModelParameters: own, Model: model})
	own["seed"] = func() {}
	if _, err := newHost(t, nil).Run(t.Context(), agent.WithModel(model), &host.Request{Text: "hi"}); err != nil {
		t.Fatal(err)
	}
	if got := parametersOf(model.Requests()[0]); got != `{"seed":7}` {
		t.Errorf("the model is asked with %s", got)
	}
}

func TestParametersThatCannotBeSent(t *testing.T) {
	for name, c := range map[string]struct {
		parameters map[string]any
		says       string
	}{
		"no JSON":   {map[string]any{"stop": func() {}}, `model parameter "stop": json: unsupported type`},
		"no name":   {map[string]any{"": 1}, "has no name"},
		"too large": {map[string]any{"x": strings.Repeat("x", llm.MaxParameterBytes)}, "more than 65536 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := host.NewAgent("clerk", &host.AgentOptions{ModelParameters: c.parameters})
			if host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), `agent "clerk": `) {
				t.Errorf("NewAgent: %v", err)
			}
			history := hosttest.NewHistory()
			agent := newAgent(t, &host.AgentOptions{Model: says("x"), History: newHistory(t, history)})
			_, err = newHost(t, nil).Run(t.Context(), agent, &host.Request{Thread: "T", Text: "hi", ModelParameters: c.parameters})
			if host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), c.says) {
				t.Errorf("Run: %v", err)
			}
			if n := len(history.Turns()); n != 0 {
				t.Errorf("%d turns are stored", n)
			}
		})
	}
}

// A run that goes on after a question has the parameters that it was asked with.
func TestParametersOfARunThatGoesOn(t *testing.T) {
	for _, durable := range []bool{false, true} {
		t.Run(fmt.Sprint("durable ", durable), func(t *testing.T) {
			tool, err := lookUp().With(&host.ToolOptions{Approve: host.ApproveAlways("because")})
			if err != nil {
				t.Fatal(err)
			}
			model := hosttest.NewModel(hosttest.Call("look", `{"what":"it"}`), hosttest.Say("done"))
			agent := newAgent(t, &host.AgentOptions{Model: model, Tools: []*host.Tool{tool}})
			h := newHost(t, &host.Options{Journal: hosttest.NewJournal()})
			asks, err := h.Run(t.Context(), agent, &host.Request{Text: "hi", Durable: durable, ModelParameters: map[string]any{"seed": 7}})
			if err != nil || len(asks.Questions) != 1 {
				t.Fatalf("%v, %v", asks, err)
			}
			resume := &host.Request{Resume: asks.Run, Answers: []host.Answer{{Question: asks.Questions[0].ID, Decision: host.Approve}}}
			resume.ModelParameters = map[string]any{"seed": 8}
			if _, err := h.Run(t.Context(), agent, resume); host.CodeOf(err) != host.InvalidArgument {
				t.Errorf("with parameters of its own it goes on: %v", err)
			}
			resume.ModelParameters = nil
			if _, err := h.Run(t.Context(), agent, resume); err != nil {
				t.Fatal(err)
			}
			for i, asked := range model.Requests() {
				if got := parametersOf(asked); got != `{"seed":7}` {
					t.Errorf("round %d is asked with %s", i+1, got)
				}
			}
		})
	}
}

package host_test

import (
	"context"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

// A model that writes an integer with a fraction or an exponent calls the tool that
// it meant to call, and the conversation keeps what it wrote.
func TestToolsReceiveIntegersAsDigits(t *testing.T) {
	for _, written := range []string{`{"count":2}`, `{"count":2.0}`, `{"count":2e0}`, `{"count":20E-1}`} {
		var got int
		var passed string
		tool := host.NewTool("note", "Notes.", func(_ context.Context, c *host.Call, in struct {
			Count int `json:"count"`
		}) (string, error) {
			got, passed = in.Count, string(c.Arguments)
			return "noted", nil
		}, nil)
		model := hosttest.NewModel(hosttest.Call("note", written), hosttest.Say("I see."))
		agent := newAgent(t, &host.AgentOptions{Model: model, Tools: []*host.Tool{tool}})
		result, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Text: "note it"})
		if err != nil {
			t.Fatalf("Run: %v", err)
		}
		if got != 2 || passed != `{"count":2}` {
			t.Errorf("%s: the tool is passed %s and reads %d; the model is told %s", written, passed, got, result.Results[0].ToolResults()[0].ContentText())
		}
		if stored := result.Results[0].Messages[0].ToolCalls()[0].Arguments; string(stored) != written {
			t.Errorf("%s: the conversation has %s", written, stored)
		}
	}
}

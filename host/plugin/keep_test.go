package plugin_test

// Scenario: the shipped limiter cuts a turn whose own tool rounds exceed its limit.

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/tokens"
	"github.com/agenthost/agenthost/plugins/tokenlimiter"
)

// A turn whose own tool rounds fill the limit loses old messages and old rounds,
// never the question.
func TestTheLimiterKeepsTheQuestion(t *testing.T) {
	p := load(t, newRuntime(t, nil), "limiter", tokenlimiter.Wasm, nil)
	limiter, err := p.Processor("", &plugin.PartOptions{Config: json.RawMessage(`{"limit":400}`)})
	if err != nil {
		t.Fatal(err)
	}
	counter, err := tokens.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	read := host.NewTool("read", "Reads a page.", func(context.Context, *host.Call, struct{}) (string, error) {
		return strings.Repeat("word ", 150), nil
	}, nil)
	model := hosttest.NewModel()
	for range 4 {
		model.Queue(hosttest.Reply{Calls: []*host.ToolCall{{Name: "read", Arguments: json.RawMessage(`{}`)}}})
	}
	model.Queue(hosttest.Reply{Text: "done"})
	agent, err := host.NewAgent("reader", &host.AgentOptions{Model: model, Tools: []*host.Tool{read}, Processors: []host.Processor{limiter}})
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.New(&host.Options{SingleTenant: true, Tokens: counter})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Run(t.Context(), agent, &host.Request{Text: "Read four pages."}); err != nil {
		t.Fatal(err)
	}
	requests := model.Requests()
	last := requests[len(requests)-1].Messages
	if got := last[0].Text(); got != "Read four pages." {
		t.Errorf("the last view begins with %q, want the question", got)
	}
	if len(last) >= 9 {
		t.Errorf("the last view has %d messages; the limiter dropped nothing", len(last))
	}
}

package reduce_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/reduce"
	"github.com/agenthost/agenthost/internal/testhost"
)

// A budget is kept within a turn as well: of three rounds of tools the first is
// collapsed when it is too much for the next call, and what is stored has all.
func TestABudgetBetweenToolRounds(t *testing.T) {
	history := hosttest.NewHistory()
	work := host.NewTool("work", "works", func(context.Context, *host.Call, struct{}) (string, error) { return "done", nil }, nil)
	collapse := must(reduce.CollapseTools(1))(t)
	budget := must(reduce.Budget(40, collapse))(t)
	model := hosttest.NewModel(hosttest.Call("work", "{}"), hosttest.Call("work", "{}"), hosttest.Call("work", "{}"), hosttest.Say("ready"))
	kept := testhost.NewHistory(t, history)
	agent := testhost.NewAgent(t, "clerk", &host.AgentOptions{Model: model, Tools: []*host.Tool{work}, History: kept,
		Processors: []host.Processor{reduce.Processor("budget", budget)}})
	h := testhost.NewSingle(t, &host.Options{Tokens: tens{}})
	if _, err := h.Run(t.Context(), agent, &host.Request{Thread: "t", Text: "go"}); err != nil {
		t.Fatal(err)
	}
	var sent []int // messages of each call, ten tokens each
	var collapsed []bool
	for _, req := range model.Requests() {
		sent = append(sent, len(req.Messages))
		found := false
		for _, m := range req.Messages {
			found = found || m.Role == host.Assistant && len(m.Text()) > 0 && m.Text()[0] == '['
		}
		collapsed = append(collapsed, found)
	}
	if diff := cmp.Diff([]int{1, 3, 4, 4}, sent); diff != "" {
		t.Errorf("messages that the model is sent (-want +got):\n%s", diff)
	}
	if !collapsed[2] || collapsed[1] {
		t.Errorf("collapsed: %v; want the third call to be", collapsed)
	}
	if stored := history.Messages("", "t"); len(stored) != 8 {
		t.Errorf("%d messages are stored, want all 8", len(stored))
	}
}

package host_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

// A result that was written down and read again has what the next run needs: the
// thread, the state and what was said.
func TestARunGoesOnFromItsSerializedResult(t *testing.T) {
	model := hosttest.NewModel(hosttest.Call("count", "{}"), hosttest.Say("one"), hosttest.Call("count", "{}"), hosttest.Say("two"))
	a, err := host.NewAgent("a", &host.AgentOptions{Model: model, Tools: []*host.Tool{counting(t)}})
	if err != nil {
		t.Fatal(err)
	}
	n := newNetwork(t, []*host.Agent{a}, &host.NetworkOptions{Router: host.InOrder("line", "a"), History: newHistory(t, hosttest.NewHistory())})
	h := newHost(t, nil)
	input := host.UserText("count")
	first, err := h.Run(t.Context(), n, &host.Request{Input: input})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(first)
	if err != nil {
		t.Fatal(err)
	}
	var back host.RunResult
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	second, err := h.Run(t.Context(), n, &host.Request{Thread: back.Thread, State: back.State, Text: "count",
		Messages: append([]*host.Message{input}, back.Results[0].Messages...)})
	if err != nil {
		t.Fatal(err)
	}
	if second.Thread != first.Thread || string(second.State) != `{"n":2}` {
		t.Errorf("the second run ends in thread %s with %s, want %s and a count of 2", second.Thread, second.State, first.Thread)
	}
	var roles []host.Role
	for _, m := range model.Requests()[2].Messages {
		roles = append(roles, m.Role)
	}
	if diff := cmp.Diff([]host.Role{host.User, host.Assistant, host.ToolRole, host.Assistant, host.User}, roles); diff != "" {
		t.Errorf("the model is shown (-want +got):\n%s", diff)
	}
}

// counting returns a tool that counts its calls in the state.
func counting(t testing.TB) *host.Tool {
	t.Helper()
	type counter struct {
		N int `json:"n"`
	}
	return tool("count", func(_ context.Context, call *host.Call) (string, error) {
		return "", host.UpdateState(call.State, func(c *counter) error { c.N++; return nil })
	})
}

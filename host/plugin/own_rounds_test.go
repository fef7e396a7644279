package plugin_test

// Scenario: a processor counts the tool rounds of the current turn apart from the
// history.

import (
	"context"
	"slices"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/plugins/toolcallfilter"
)

// seenTools counts the calls and results in what a model is sent.
func seenTools(req *llm.Request) (calls, results int) {
	for _, m := range req.Messages {
		calls += len(m.ToolCalls())
		results += len(m.ToolResults())
	}
	return calls, results
}

// testOwnRounds runs networks whose processor filters every call: a researcher, which
// calls its tool until it sees a result of it, and a greeter, in the order of next.
func testOwnRounds(t *testing.T, rt *plugin.Runtime) {
	for _, c := range []struct {
		name, config string
		next         []string
		asked        int   // how often the researcher's model is
		seen         []int // by the greeter's model, calls and results
		rounds       host.FinishReason
	}{
		{"an agent ends its own loop", `{}`, []string{"researcher"}, 2, nil, chat.FinishStop},
		{"another agent sees none of its calls", `{}`, []string{"researcher", "greeter"}, 2, []int{0}, chat.FinishStop},
		{"a later pick sees none of the earlier one's", `{}`, []string{"researcher", "researcher"}, 4, nil, chat.FinishStop},
		{"filter hides them from the agent too", `{"own_rounds":"filter"}`, []string{"researcher"}, 4, nil, chat.FinishMaxRounds},
		{"what is listed goes by the same rule", `{"exclude":["look"]}`, []string{"researcher", "greeter", "researcher"}, 4, []int{0}, chat.FinishStop},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked, greeted := 0, []int(nil)
			look := host.NewTool("look", "Looks.", func(context.Context, *host.Call, struct{}) (string, error) { return "found", nil }, nil)
			researcher := agentOf(t, "researcher", host.AgentOptions{Tools: []*host.Tool{look}, MaxRounds: 4,
				Model: hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
					asked++
					calls, results := seenTools(req)
					if calls != results || calls > 1 {
						t.Errorf("the researcher sees %d calls and %d results", calls, results)
					}
					if results == 0 {
						return hosttest.Call("look", `{}`)
					}
					return hosttest.Say("it is there")
				})})
			greeter := agentOf(t, "greeter", host.AgentOptions{
				Model: hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
					calls, results := seenTools(req)
					greeted = append(greeted, calls+results)
					return hosttest.Say("hello")
				})})
			n, err := host.NewNetwork("n", []*host.Agent{researcher, greeter}, &host.NetworkOptions{
				Router: host.InOrder("line", c.next...), MaxIterations: len(c.next),
				Processors: []host.Processor{builtin(t, rt, toolcallfilter.Wasm, c.config)}})
			if err != nil {
				t.Fatal(err)
			}
			h, err := host.New(&host.Options{SingleTenant: true})
			if err != nil {
				t.Fatal(err)
			}
			result, err := h.Run(t.Context(), n, &host.Request{Text: "hi"})
			if err != nil {
				t.Fatal(err)
			}
			if asked != c.asked || !slices.Equal(greeted, c.seen) {
				t.Errorf("the researcher was asked %d times, the greeter saw %v; want %d and %v", asked, greeted, c.asked, c.seen)
			}
			for _, r := range result.Results {
				if r.Agent == "researcher" && r.FinishReason != c.rounds {
					t.Errorf("the researcher ends with %s, want %s", r.FinishReason, c.rounds)
				}
			}
		})
	}
}

func agentOf(t testing.TB, name string, opts host.AgentOptions) *host.Agent {
	t.Helper()
	opts.Description = "is " + name
	a, err := host.NewAgent(name, &opts)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

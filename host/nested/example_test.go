package nested_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/nested"
)

// A tool that adds up what two calls of another return.
func Example() {
	price := host.NewTool("price", "The price of a thing.", func(_ context.Context, _ *host.Call, in struct {
		Of string `json:"of"`
	}) (int, error) {
		return len(in.Of), nil
	}, nil)
	total := host.NewTool("total", "The price of a tea and a cake.", func(ctx context.Context, call *host.Call, _ struct{}) (int, error) {
		answers, err := call.CallTools(ctx, []nested.Call{
			{Name: "price", Arguments: json.RawMessage(`{"of":"tea"}`)},
			{Name: "price", Arguments: json.RawMessage(`{"of":"cake"}`)},
		})
		sum := 0
		for _, a := range answers {
			var n int
			if json.Unmarshal(a.Content, &n) == nil {
				sum += n
			}
		}
		return sum, err
	}, &host.ToolOptions{Calls: []string{"price"}})

	agent, err := host.NewAgent("clerk", &host.AgentOptions{Tools: []*host.Tool{price, total}})
	if err != nil {
		fmt.Println(err)
		return
	}
	h, err := host.New(&host.Options{SingleTenant: true, Model: hosttest.NewModel(hosttest.Call("total", `{}`), hosttest.Say("It is 7."))})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := h.Run(context.Background(), agent, &host.Request{Text: "What does it cost?"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Results[0].ToolResults()[0].ContentText(), r.Text())
	// Output: 7 It is 7.
}

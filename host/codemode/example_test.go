package codemode_test

import (
	"context"
	"fmt"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/codemode"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/internal/testcode"
)

// compiled is a directory that outlives the process: a plugin is compiled once.
var compiled = testcode.Dir()

// An agent sums what twenty calls of a tool return: its model is asked twice, and reads one
// number.
func Example() {
	ctx := context.Background()
	rt, err := plugin.NewRuntime(ctx, &plugin.Options{CacheDir: compiled})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close(ctx)
	mode, err := codemode.New(ctx, rt, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	stock := host.NewTool("stock", "How many pieces a shelf has.", func(_ context.Context, _ *host.Call, in struct {
		Shelf int `json:"shelf"`
	}) (int, error) {
		return in.Shelf * 10, nil
	}, nil)
	tools, err := mode.Tools(stock)
	if err != nil {
		fmt.Println(err)
		return
	}
	// A real model writes the code. This one plays it.
	model := hosttest.NewModel(
		hosttest.Call(codemode.ToolName, `{"code": "const all = await Promise.all(Array.from({length: 20}, (_, i) => tools.stock({shelf: i + 1}))); return all.reduce((a, b) => a + b)"}`),
		hosttest.Say("There are 2100 pieces."))
	agent, err := host.NewAgent("storekeeper", &host.AgentOptions{Tools: tools, Model: model})
	if err != nil {
		fmt.Println(err)
		return
	}
	h, err := host.New(&host.Options{SingleTenant: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := h.Run(ctx, agent, &host.Request{Text: "How many pieces are there?"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the model read", r.Results[0].ToolResults()[0].ContentText())
	fmt.Println("rounds:", len(model.Requests()))
	// Output:
	// the model read {"result":2100}
	// rounds: 2
}

package runs_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/runs"
)

// A page that is loaded again reads the run from its beginning, or from the event after
// the last one that it has seen.
func Example() {
	model := hosttest.NewModel(hosttest.Say("Your order is on its way."))
	agent, err := host.NewAgent("clerk", &host.AgentOptions{Model: model})
	if err != nil {
		panic(err)
	}
	h, err := host.New(nil)
	if err != nil {
		panic(err)
	}
	registry, err := runs.New(h, nil)
	if err != nil {
		panic(err)
	}
	defer func() { _ = registry.Close() }()
	ctx := context.Background()
	run, err := registry.Start(ctx, agent, &host.Request{Tenant: "acme", Text: "Where is my order?"}, nil)
	if err != nil {
		panic(err)
	}
	for reader := range 2 {
		var text strings.Builder
		for ev, err := range registry.Events(ctx, "acme", run.ID, 0) {
			if err != nil {
				panic(err)
			}
			if d, ok := ev.Data.(*runevent.TextDelta); ok {
				text.WriteString(d.Text)
			}
		}
		fmt.Println(reader, text.String())
	}
	run, err = registry.Wait(ctx, "acme", run.ID)
	fmt.Println(run.Status, err)
	// Output:
	// 0 Your order is on its way.
	// 1 Your order is on its way.
	// completed <nil>
}

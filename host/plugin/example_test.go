package plugin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/plugins/tokenlimiter"
)

func Example() {
	ctx := context.Background()
	rt, err := plugin.NewRuntime(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close(ctx)

	p, err := rt.Load(ctx, "limiter", tokenlimiter.Wasm, nil) // or LoadFile
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := p.Processor("", &plugin.PartOptions{Config: json.RawMessage(`{"limit": 8, "useTiktoken": false}`)})
	if err != nil {
		log.Fatal(err)
	}

	// An agent has it as one of its Processors; here it is run by hand.
	conversation := []*host.Message{
		host.UserText("Do you sell umbrellas?"),
		host.AssistantText("We do, in three sizes and in every colour."),
		host.UserText("And raincoats?"),
	}
	kept, _, err := llm.Process(ctx, limiter, llm.NewView(conversation, "gpt-4o", nil))
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range kept {
		fmt.Println(m.Text())
	}

	// Output:
	// And raincoats?
}

package demomodel_test

import (
	"fmt"

	"github.com/agenthost/agenthost/host/scriptedmodel"
	"github.com/agenthost/agenthost/internal/demomodel"
)

func ExampleAnswer() {
	reply := demomodel.Answer(&scriptedmodel.Conversation{
		Users: []string{"Where are orders 1042 and 1043?"},
		Tools: []scriptedmodel.Tool{{
			Name: "lookup_order", Description: "Finds an order.",
			Parameters: []byte(`{"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}`),
		}},
	})
	for _, c := range reply.Calls {
		fmt.Println(c.Name, string(c.Arguments))
	}
	// Output:
	// lookup_order {"id":1042}
	// lookup_order {"id":1043}
}

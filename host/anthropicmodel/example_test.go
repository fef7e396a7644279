package anthropicmodel_test

import (
	"context"
	"fmt"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/anthropicmodel"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
)

func Example() {
	model, err := anthropicmodel.New("claude-sonnet-4-5", &anthropicmodel.Options{Server: modelhttp.Options{BaseURL: "http://127.0.0.1:1", MaxRetries: -1}})
	if err != nil {
		fmt.Println(err)
		return
	}
	req := &llm.Request{Messages: []*host.Message{host.UserText("hi")}}
	for _, err := range model.Generate(context.Background(), req) {
		fmt.Println(host.CodeOf(err))
	}
	// Output:
	// unavailable
}

package bedrock_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/agenthost/agenthost/host/anthropicmodel"
	"github.com/agenthost/agenthost/host/bedrock"
	"github.com/agenthost/agenthost/host/modelhttp"
)

func Example() {
	const region = "eu-west-1"
	client, err := bedrock.NewClient(&bedrock.Options{
		Region:      region,
		Credentials: func(context.Context) (bedrock.Credentials, error) { return bedrock.Environment(os.Getenv) },
	})
	if err != nil {
		log.Fatal(err)
	}
	model, err := anthropicmodel.New("anthropic.claude-sonnet-4-5-20250929-v1:0", &anthropicmodel.Options{
		Server: modelhttp.Options{BaseURL: bedrock.MessagesURL(region), HTTPClient: client},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(model.Name())
	// Output: anthropic.claude-sonnet-4-5-20250929-v1:0
}

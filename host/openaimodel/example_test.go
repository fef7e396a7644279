package openaimodel_test

import (
	"context"
	"fmt"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/openaimodel"
	"github.com/agenthost/agenthost/host/scriptedmodel"
)

// A server on this machine answers here, so that the example needs no key. For
// a real one give its address, and the key if it wants one.
func Example() {
	srv, err := scriptedmodel.Start(context.Background(), &scriptedmodel.Options{
		Rules: []scriptedmodel.Rule{{Match: scriptedmodel.Match{User: `capital of (\w+)`}, Reply: scriptedmodel.Reply{Text: "I am asked for the capital of ${1}."}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()

	model, err := openaimodel.New("llama3.2", &openaimodel.Options{Server: modelhttp.Options{BaseURL: srv.BaseURL()}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer model.CloseIdleConnections()

	req := &llm.Request{Messages: []*host.Message{host.UserText("What is the capital of France?")}}
	for chunk, err := range model.Generate(context.Background(), req) {
		if err != nil {
			fmt.Println(host.CodeOf(err), err)
			return
		}
		fmt.Print(chunk.Text)
		if r := chunk.Response; r != nil {
			fmt.Printf("\n%s by %s, %d tokens out\n", r.FinishReason, r.Model, r.Usage.OutputTokens)
		}
	}
	// Output:
	// I am asked for the capital of France.
	// stop by scripted, 10 tokens out
}

// Errors have codes, and say what to do.
func ExampleModel_Generate_errors() {
	model, err := openaimodel.New("llama3.2", &openaimodel.Options{Server: modelhttp.Options{BaseURL: "http://127.0.0.1:1/v1", MaxRetries: -1}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer model.CloseIdleConnections()
	req := &llm.Request{Messages: []*host.Message{host.UserText("hi")}}
	for _, err := range model.Generate(context.Background(), req) {
		fmt.Println(host.CodeOf(err))
		fmt.Println(err)
	}
	// Output:
	// unavailable
	// ask http://127.0.0.1:1: connection refused; is the server at http://127.0.0.1:1 running?
}

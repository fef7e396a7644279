package llm_test

import (
	"context"
	"fmt"
	"iter"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/llm"
)

// echo is a model that repeats the last message.
type echo struct{}

func (echo) Name() string { return "echo" }

func (echo) Generate(_ context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		text := req.Messages[len(req.Messages)-1].Text()
		if !yield(llm.Chunk{Text: text}, nil) {
			return
		}
		yield(llm.Chunk{Response: &llm.Response{Model: "echo", Parts: []chat.Part{&chat.Text{Text: text}}}}, nil)
	}
}

func ExampleModel() {
	var model llm.Model = echo{}
	req := &llm.Request{Messages: []*chat.Message{chat.UserText("hello")}}
	for chunk, err := range model.Generate(context.Background(), req) {
		if err != nil {
			panic(err)
		}
		if chunk.Response != nil {
			answer, err := llm.Normalize(req, chunk.Response, 1<<20)
			fmt.Println(answer.FinishReason, answer.Usage.Estimated, err)
			continue
		}
		fmt.Println(chunk.Text)
	}
	// Output:
	// hello
	// stop true <nil>
}

// The last two messages are enough for this model.
func ExampleProcess() {
	last := llm.ProcessorFunc("last two", func(_ context.Context, messages []*chat.Message) ([]*chat.Message, error) {
		return messages[max(0, len(messages)-2):], nil
	})
	view := llm.NewView([]*chat.Message{chat.UserText("hi"), chat.AssistantText("hello"), chat.UserText("bye")}, "m", nil)
	messages, _, err := llm.Process(context.Background(), last, view)
	fmt.Println(len(messages), err)
	// Output: 2 <nil>
}

package host_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

// A refund above 50 needs a person. The run ends with a question; another goes
// on with the answer, in this process or after a restart.
func ExampleApprovalRule() {
	type order struct {
		Amount int `json:"amount"`
	}
	refund := host.NewTool("refund", "Refunds an amount.", func(_ context.Context, _ *host.Call, in order) (string, error) {
		return fmt.Sprintf("refunded %d", in.Amount), nil
	}, &host.ToolOptions{Approve: func(_ context.Context, call *host.Call) (string, error) {
		var in order
		if err := json.Unmarshal(call.Arguments, &in); err != nil || in.Amount <= 50 {
			return "", err
		}
		return fmt.Sprintf("Refund %d euro?", in.Amount), nil
	}})
	model := hosttest.NewModel(hosttest.Call("refund", `{"amount":80}`), hosttest.Say("You have your money back."))
	agent, _ := host.NewAgent("clerk", &host.AgentOptions{Model: model, Tools: []*host.Tool{refund}})
	h, _ := host.New(&host.Options{SingleTenant: true, Journal: hosttest.NewJournal()}) // a threads.Store survives a restart

	asked, _ := h.Run(context.Background(), agent, &host.Request{Text: "I want my money back."})
	question := asked.Questions[0]
	fmt.Println(asked.FinishReason, question.Kind, question.Reason)

	done, err := h.Run(context.Background(), agent, &host.Request{
		Resume:  asked.Run,
		Answers: []host.Answer{{Question: question.ID, Decision: host.Approve}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(done.Results[0].ToolResults()[0].ContentText())
	fmt.Println(done.Text())
	// Output:
	// interrupted approval Refund 80 euro?
	// refunded 80
	// You have your money back.
}

// In a durable run a step runs once, also if the process ends behind it and the
// run is resumed by another.
func ExampleStep() {
	book := host.NewTool("book", "Books a table.", func(ctx context.Context, _ *host.Call, _ struct{}) (string, error) {
		number, err := host.Step(ctx, "number", func(context.Context) (int, error) { return 1042, nil }, nil)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("booking %d", number), nil
	}, &host.ToolOptions{Idempotent: true})
	model := hosttest.NewModel(hosttest.Call("book", `{}`), hosttest.Say("Booked."))
	agent, _ := host.NewAgent("clerk", &host.AgentOptions{Model: model, Tools: []*host.Tool{book}})
	h, _ := host.New(&host.Options{SingleTenant: true, Journal: hosttest.NewJournal()})
	r, err := h.Run(context.Background(), agent, &host.Request{Text: "A table, please.", Durable: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Results[0].ToolResults()[0].ContentText())
	// Output: booking 1042
}

package threads_test

import (
	"context"
	"fmt"
	"os"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/transfer"
)

// A host with a store goes on with a conversation where it ended.
func Example() {
	ctx := context.Background()
	store := threads.New(kv.NewMemory(), nil) // badgerkv.Open keeps it on disk

	parrot := model(func(_ context.Context, view []*host.Message) ([]host.Part, error) {
		text := fmt.Sprintf("I have heard %d messages.", len(view))
		return []host.Part{&host.Text{Text: text}}, nil
	})
	history, _ := host.NewHistory(store, nil)
	h, _ := host.New(&host.Options{SingleTenant: true, History: history, Model: parrot})
	agent, _ := host.NewAgent("parrot", nil)

	for _, text := range []string{"Hello.", "Still there?"} {
		if _, err := h.Run(ctx, agent, &host.Request{Tenant: "acme", Thread: "t1", Text: text}); err != nil {
			fmt.Println(err)
		}
	}
	page, _ := store.For("acme").List(ctx, nil)
	for _, t := range page.Threads {
		fmt.Printf("%s: %q, %d messages, %d turns, %s\n", t.ID, t.Title, t.Messages, t.Turns, t.Status)
	}
	_ = transfer.Export(ctx, store.For("acme"), "t1", transfer.FormatOpenAILines, os.Stdout)
	// Output:
	// t1: "Hello.", 4 messages, 2 turns, completed
	// {"role":"user","content":"Hello."}
	// {"role":"assistant","name":"parrot","content":"I have heard 1 messages."}
	// {"role":"user","content":"Still there?"}
	// {"role":"assistant","name":"parrot","content":"I have heard 3 messages."}
}

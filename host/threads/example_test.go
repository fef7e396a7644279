package threads_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
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
	_ = store.For("acme").Export(ctx, "t1", threads.FormatOpenAILines, os.Stdout)
	// Output:
	// t1: "Hello.", 4 messages, 2 turns, completed
	// {"role":"user","content":"Hello."}
	// {"role":"assistant","name":"parrot","content":"I have heard 1 messages."}
	// {"role":"user","content":"Still there?"}
	// {"role":"assistant","name":"parrot","content":"I have heard 3 messages."}
}

// A conversation of another system is stored and goes out again.
func ExampleTenant_Import() {
	ctx := context.Background()
	store := threads.New(kv.NewMemory(), nil)
	const chat = `{"messages":[{"role":"user","content":"Hello."},{"role":"assistant","content":"Hi!"}]}`

	for range 2 { // the second time there is nothing to store
		src, err := threads.NewSource(threads.FormatOpenAI, strings.NewReader(chat))
		if err != nil {
			fmt.Println(err)
			return
		}
		got, err := store.For("acme").Import(ctx, src, &threads.ImportOptions{Thread: "t1"})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(got.Messages, "new of", got.Thread.Messages)
	}
	_ = store.For("acme").Export(ctx, "t1", threads.FormatOpenAI, os.Stdout)
	// Output:
	// 2 new of 2
	// 0 new of 2
	// {"messages":[{"role":"user","content":"Hello."},{"role":"assistant","content":"Hi!"}]}
}

package search_test

import (
	"context"
	"fmt"
	"log"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/search"
)

func Example() {
	ctx := context.Background()
	store := threads.New(kv.NewMemory(), nil)
	for thread, text := range map[string]string{"t1": "Where is my order of tea?", "t2": "Do you sell coffee?"} {
		req := &host.HistoryRequest{Tenant: "acme", Thread: thread, Input: &host.Message{ID: "m", Role: host.User, Parts: []host.Part{&host.Text{Text: text}}}}
		if _, err := store.AppendUserMessage(ctx, req); err != nil {
			log.Fatal(err)
		}
	}
	hits, err := search.New(store).Messages(ctx, "acme", "orders", nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, h := range hits {
		fmt.Printf("%s: %s\n", h.Thread, h.Snippet)
	}
	// Output:
	// t1: Where is my order of tea?
}

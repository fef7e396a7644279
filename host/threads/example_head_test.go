package threads_test

import (
	"context"
	"fmt"
	"log"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
)

// A conversation takes another turn without losing the one it took.
func ExampleTenant_Rewind() {
	ctx := context.Background()
	store := threads.New(kv.NewMemory(), nil)
	req := &host.HistoryRequest{Thread: "t1", Run: "r1", Input: &host.Message{ID: "q", Role: host.User, Parts: []host.Part{&host.Text{Text: "Tea?"}}}}
	if _, err := store.AppendUserMessage(ctx, req); err != nil {
		log.Fatal(err)
	}
	turn := &host.Turn{Results: []*host.Result{{Agent: "waiter", Messages: []*host.Message{host.AssistantText("We have none.")}}}}
	if err := store.AppendResults(ctx, req, turn); err != nil {
		log.Fatal(err)
	}
	// Ask something else instead.
	if _, err := store.For("").EditMessage(ctx, "t1", "q", &host.Message{ID: "q2", Parts: []host.Part{&host.Text{Text: "Coffee?"}}}, nil); err != nil {
		log.Fatal(err)
	}
	if _, err := store.For("").Rewind(ctx, "t1", threads.At{Message: "q2"}, nil); err != nil {
		log.Fatal(err)
	}
	for branch, err := range store.For("").Branches(ctx, "t1") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s %s:", branch.ID, branch.Cause)
		for m, err := range store.For("").Messages(ctx, "t1", threads.At{Branch: branch.Head}) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Printf(" %s", m.Text())
		}
		fmt.Println()
	}
	// Output:
	//  : Coffee?
	// b2 rewind: Coffee? We have none.
	// b1 edit: Tea? We have none.
}

package erasure_test

import (
	"context"
	"fmt"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/erasure"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
)

// A tenant leaves: its conversation, and the files that the embedder keeps for it,
// are deleted and looked for.
func Example() {
	ctx := context.Background()
	store := kv.NewMemory()
	conversations := threads.New(store, nil)
	if _, _, err := conversations.For("acme").Create(ctx, &threads.CreateOptions{ID: "t1"}); err != nil {
		fmt.Println(err)
		return
	}
	uploads := map[string]int{"acme": 3} // what the embedder keeps beside the store
	files := erasure.Func{
		What:      "uploads",
		EraseFunc: func(_ context.Context, tenant string) error { delete(uploads, tenant); return nil },
		FindFunc:  func(_ context.Context, tenant string) (int, error) { return uploads[tenant], nil },
	}

	tenants := erasure.New(store, files)
	if err := tenants.Delete(ctx, "acme"); err != nil {
		fmt.Println(err)
		return
	}
	report, err := tenants.Prove(ctx, "acme")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = conversations.For("acme").Thread(ctx, "t1")
	fmt.Println("gone:", report.Gone, "uploads:", report.Parts[0].Found, "thread:", host.CodeOf(err))
	// Output: gone: true uploads: 0 thread: not_found
}

package transfer_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/transfer"
)

// A conversation of another system is stored and goes out again.
func Example() {
	ctx := context.Background()
	store := threads.New(kv.NewMemory(), nil)
	const chat = `{"messages":[{"role":"user","content":"Hello."},{"role":"assistant","content":"Hi!"}]}`

	for range 2 { // the second time there is nothing to store
		src, err := transfer.NewSource(transfer.FormatOpenAI, strings.NewReader(chat))
		if err != nil {
			fmt.Println(err)
			return
		}
		got, err := transfer.Import(ctx, store.For("acme"), src, &transfer.ImportOptions{Thread: "t1"})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(got.Messages, "new of", got.Thread.Messages)
	}
	_ = transfer.Export(ctx, store.For("acme"), "t1", transfer.FormatOpenAI, os.Stdout)
	// Output:
	// 2 new of 2
	// 0 new of 2
	// {"messages":[{"role":"user","content":"Hello."},{"role":"assistant","content":"Hi!"}]}
}

package pluginkv_test

import (
	"context"
	"fmt"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/pluginkv"
)

// A runtime whose plugins keep their keys on a driver: with Badger's, they are
// there after a restart.
func Example() {
	ctx := context.Background()
	driver := kv.NewMemory() // badgerkv.Open(dir, nil), in a kv.Group
	defer driver.Close()
	store := pluginkv.New(driver, nil)
	rt, err := plugin.NewRuntime(ctx, &plugin.Options{Store: store})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close(ctx)

	// What a plugin under the id "notes" does with kv.put for the tenant acme:
	owner := plugin.Owner{Tenant: "acme", Plugin: "notes"}
	if _, err := store.Put(ctx, owner, "greeting", []byte("hello"), plugin.PutOptions{Quota: plugin.DefaultKVBytes}); err != nil {
		fmt.Println(err)
	}
	item, err := store.Get(ctx, owner, "greeting")
	fmt.Println(string(item.Value), err)
	// Output: hello <nil>
}

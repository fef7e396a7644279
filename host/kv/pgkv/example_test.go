package pgkv_test

import (
	"context"
	"fmt"
	"os"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/pgkv"
)

// Each host opens a store on the same database and groups its own commits.
func ExampleOpen() {
	ctx := context.Background()
	store, err := pgkv.Open(ctx, os.Getenv("AGENTHOST_DATA"), &pgkv.Options{Schema: "agenthost"})
	if err != nil {
		fmt.Println(err)
		return
	}
	d := kv.Group(store)
	defer d.Close()
	_, err = kv.Apply(ctx, d, kv.Tx{Partition: "acme", Writes: []kv.Write{kv.Put(kv.NewKey("greeting"), []byte("hello"))}})
	fmt.Println(err)
}

package cluster_test

import (
	"context"
	"fmt"

	"github.com/agenthost/agenthost/host/cluster"
	"github.com/agenthost/agenthost/host/kv"
)

// Two hosts on one store see each other; a host that leaves frees its work at once.
func Example() {
	ctx, store := context.Background(), kv.NewMemory()
	a, err := cluster.New(store, &cluster.Options{ID: "a"})
	if err != nil {
		panic(err)
	}
	b, err := cluster.New(store, &cluster.Options{ID: "b"})
	if err != nil {
		panic(err)
	}
	defer func() { _ = b.Close() }()
	if err := a.Register(ctx); err != nil {
		panic(err)
	}
	if _, err := b.Observe(ctx); err != nil {
		panic(err)
	}
	fmt.Println(b.Lives("a"))
	_ = a.Close()
	deaths, err := b.Observe(ctx)
	fmt.Println(b.Lives("a"), deaths, err)
	// Output:
	// true
	// false 1 <nil>
}

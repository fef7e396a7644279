package idempotency_test

import (
	"context"
	"fmt"
	"log"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/idempotency"
	"github.com/agenthost/agenthost/host/kv"
)

func Example() {
	requests := idempotency.New(kv.NewMemory(), nil) // a store of a database, in a server
	begin := func(request string) bool {
		again, err := requests.Begin(context.Background(), "acme", "key-1", []byte(request))
		if host.CodeOf(err) == host.Conflict {
			fmt.Println("another request has the key")
		} else if err != nil {
			log.Fatal(err)
		}
		return again
	}
	fmt.Println(begin("create order 1"))
	fmt.Println(begin("create order 1"))
	begin("create order 2")
	// Output:
	// false
	// true
	// another request has the key
}

package library_test

import (
	"bytes"
	"context"
	"fmt"
	"log"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/library"
)

func Example() {
	ctx := context.Background()
	rt, err := plugin.NewRuntime(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close(ctx)
	lib, err := library.Open(ctx, kv.NewMemory(), rt, nil) // a store of a database, in a server
	if err != nil {
		log.Fatal(err)
	}
	defer lib.Close()

	file := bytes.NewReader(guest("kv-put")) // a module; in a server, the body of a request
	v, err := lib.Upload(ctx, "acme", "notes", file)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("tools:", v.Tools, "asks for:", v.Asks.Words())

	_, err = lib.Activate(ctx, "acme", "notes", v.Digest)
	fmt.Println(err)
	if _, err := lib.Grant(ctx, "acme", "notes", v.Asks); err != nil {
		log.Fatal(err)
	}
	if _, err := lib.Activate(ctx, "acme", "notes", v.Digest); err != nil {
		log.Fatal(err)
	}
	slot, err := lib.Lookup("acme", "notes")
	if err != nil {
		log.Fatal(err)
	}
	tools, err := slot.Tools(nil) // for an agent of acme's
	fmt.Println(len(tools), "tool,", err)

	_, err = lib.Lookup("umbrella", "notes")
	fmt.Println(err)

	// Output:
	// tools: [t] asks for: [kv=write]
	// plugin "notes": the version asks for more than it is granted: kv=write; grant it, or accept the version without it
	// 1 tool, <nil>
	// there is no plugin "notes"; upload and activate it, or use another
}

package plugin_test

import (
	"context"
	"fmt"
	"log"

	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/internal/testcode"
	"github.com/agenthost/agenthost/plugins/tokenlimiter"
	"github.com/agenthost/agenthost/plugins/toolcallfilter"
)

// compiled is a directory that outlives the process: a plugin is compiled once.
var compiled = testcode.Dir()

func ExampleSlot() {
	ctx := context.Background()
	rt, err := plugin.NewRuntime(ctx, &plugin.Options{CacheDir: compiled})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close(ctx)
	show := func(s *plugin.Slot) {
		st := s.State()
		v := st.Serving()
		fmt.Printf("%s: version %d serves, %s\n", st.ID, v.Number, v.Name)
	}

	slot, err := rt.NewSlot(ctx, "history", tokenlimiter.Wasm, nil)
	if err != nil {
		log.Fatal(err)
	}
	show(slot)

	// A run that is given this context goes on with the version it started with.
	pinned, release := rt.Pin(ctx)
	defer release()

	if _, err := slot.Replace(ctx, toolcallfilter.Wasm); err != nil {
		log.Fatal(err)
	}
	show(slot)
	call := func(ctx context.Context) {
		input := []byte(`{"processor":"tokenlimiter","config":{"limit":8,"useTiktoken":false},"outline":{"count":0,"roles":"","bytes":[],"chars":[],"parts":[],"tools":[]}}`)
		r, err := slot.Call(ctx, "acme", "process", input, nil)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("tokenlimiter answers:", !r.GuestError)
	}
	call(pinned)
	call(ctx)

	if _, err := slot.Replace(ctx, []byte("not a module")); err != nil {
		fmt.Println("a bad version changes nothing")
	}
	if _, err := slot.Rollback(ctx); err != nil {
		log.Fatal(err)
	}
	show(slot)

	// Output:
	// history: version 1 serves, tokenlimiter
	// history: version 2 serves, toolcallfilter
	// tokenlimiter answers: true
	// tokenlimiter answers: false
	// a bad version changes nothing
	// history: version 1 serves, tokenlimiter
}

func ExampleRuntime_UsageReport() {
	ctx := context.Background()
	rt, err := plugin.NewRuntime(ctx, &plugin.Options{CacheDir: compiled})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close(ctx)
	p, err := rt.Load(ctx, "limiter", tokenlimiter.Wasm, nil)
	if err != nil {
		log.Fatal(err)
	}
	input := []byte(`{"processor":"tokenlimiter","config":{"limit":8,"useTiktoken":false},"outline":{"count":0,"roles":"","bytes":[],"chars":[],"parts":[],"tools":[]}}`)
	before := rt.UsageReport()
	for _, tenant := range []string{"acme", "acme", "umbrella"} {
		if _, err := p.Call(ctx, tenant, "process", input, nil); err != nil {
			log.Fatal(err)
		}
	}
	for _, c := range rt.UsageReport().Since(before).Sum(true, true, false).Items {
		fmt.Printf("%s: %d calls of %s, %d errors, instructions: %t\n", c.Tenant, c.Calls(), c.Plugin, c.Errors(), c.Instructions > 1000)
	}

	// Output:
	// acme: 2 calls of limiter, 0 errors, instructions: true
	// umbrella: 1 calls of limiter, 0 errors, instructions: true
}

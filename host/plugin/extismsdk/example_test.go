package extismsdk_test

import (
	"context"
	"fmt"

	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/extismsdk"
)

func Example() {
	ctx := context.Background()
	rt, err := plugin.NewRuntime(ctx, &plugin.Options{
		Engines: map[string]plugin.NewEngine{extismsdk.Name: extismsdk.New(nil)},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = rt.Close(ctx) }()
	p, err := rt.LoadFile(ctx, "iban", "../../../examples/extism/c/iban.wasm", &plugin.LoadOptions{Engine: extismsdk.Name})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := p.Call(ctx, "acme", "iban", []byte("DE89 3704 0044 0532 0130 00"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(r.Output))
	// Output: {"valid":true,"country":"DE"}
}

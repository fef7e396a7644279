package js_test

import (
	"context"
	"fmt"

	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/pdk/js"
)

// A program packs a script of its user's and calls it in the sandbox.
func Example() {
	ctx := context.Background()
	runtime, err := plugin.NewRuntime(ctx, &plugin.Options{Interpreters: [][]byte{js.Engine()}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer runtime.Close(ctx)
	wasm, err := js.Pack([]byte(`
		import { tool } from "agenthost";
		tool({ name: "add", description: "Adds numbers." }, ({ numbers }) => numbers.reduce((a, b) => a + b, 0));
	`))
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := runtime.Load(ctx, "sums", wasm, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := p.Call(ctx, "acme", "tool", []byte(`{"tool": "add", "arguments": {"numbers": [1, 2, 39]}}`), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(result.Output))
	// Output: {"content":42}
}

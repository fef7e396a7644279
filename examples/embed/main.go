// Command embed puts the host into a program that serves two tenants. Both talk
// in a thread named "t1"; neither ever sees the other's.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/openaimodel"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/scriptedmodel"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/tokens"
	"github.com/agenthost/agenthost/plugins/tokenlimiter"
	"github.com/agenthost/agenthost/plugins/toolcallfilter"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer) error {
	// The parts a service makes once: a sandbox, a store, a token counter.
	sandbox, err := plugin.NewRuntime(ctx, nil)
	if err != nil {
		return err
	}
	defer sandbox.Close(ctx)
	counter, err := tokens.New(nil)
	if err != nil {
		return err
	}
	history, err := host.NewHistory(threads.New(kv.NewMemory(), nil), nil)
	if err != nil {
		return err
	}

	// A stand-in model, so that this runs without a key. For a real one:
	// openaimodel.New("gpt-4o-mini", &openaimodel.Options{Server: modelhttp.Options{APIKey: key}}).
	script, err := scriptedmodel.Start(ctx, nil)
	if err != nil {
		return err
	}
	defer script.Close()
	model, err := openaimodel.New("scripted", &openaimodel.Options{Server: modelhttp.Options{BaseURL: script.BaseURL()}})
	if err != nil {
		return err
	}
	defer model.CloseIdleConnections()

	// A history processor in the sandbox, with its own limits.
	limiter, err := sandbox.Load(ctx, "limiter", tokenlimiter.Wasm, &plugin.LoadOptions{
		Limits: plugin.Limits{Instructions: 50_000_000, MemoryBytes: 16 << 20},
	})
	if err != nil {
		return err
	}
	keepShort, err := limiter.Processor("", &plugin.PartOptions{Config: []byte(`{"limit":4000}`)})
	if err != nil {
		return err
	}

	// A plugin of one customer alone, and a budget that all plugins of that customer
	// share in a minute. Both can change while serving.
	own, err := sandbox.Load(ctx, "acme-filter", toolcallfilter.Wasm, &plugin.LoadOptions{Tenants: []string{"acme"}})
	if err != nil {
		return err
	}
	if err := sandbox.SetTenant("acme", &plugin.Tenant{Budget: plugin.Budget{Instructions: 5_000_000_000}}); err != nil {
		return err
	}
	withoutTools, err := own.Processor("", nil)
	if err != nil {
		return err
	}

	// A tool in Go, and an agent that has it.
	type args struct {
		City string `json:"city"`
	}
	weather := host.NewTool("weather", "Says what the weather is in a city.",
		func(_ context.Context, call *host.Call, in args) (string, error) {
			return fmt.Sprintf("sunny in %s, says %s's own station", in.City, call.Scope.Tenant), nil
		}, nil)
	agentFor := func(tenant string) (*host.Agent, error) {
		processors := []host.Processor{keepShort}
		if own.Serves(tenant) {
			processors = append(processors, withoutTools)
		}
		return host.NewAgent("guide", &host.AgentOptions{
			Instructions: "You answer questions about the weather.",
			Tools:        []*host.Tool{weather},
			Processors:   processors,
		})
	}

	h, err := host.New(&host.Options{Model: model, History: history, Tokens: counter})
	if err != nil {
		return err
	}
	for _, tenant := range []string{"acme", "globex"} { // from a credential, in a service
		agent, err := agentFor(tenant)
		if err != nil {
			return err
		}
		result, err := h.Run(ctx, agent, &host.Request{Tenant: tenant, Thread: "t1", Text: `What is the weather in "Lisbon"?`})
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: %s\n", tenant, result.Results[0].ToolResults()[0].ContentText())
	}

	// To a tenant without the plugin it does not exist.
	_, err = own.Call(ctx, "globex", "process", []byte(`{}`), nil)
	fmt.Fprintf(out, "globex: %s: %v\n", host.CodeOf(err), err)
	return nil
}

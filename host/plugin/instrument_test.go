package plugin_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/instrument"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/usage"
)

// operationPaths writes down what sandboxed code did, within what.
type operationPaths struct {
	mu    sync.Mutex
	lines []string
}

type pathKey struct{}

func (o *operationPaths) Begin(ctx context.Context, op instrument.Operation) (context.Context, func(error)) {
	outer, _ := ctx.Value(pathKey{}).(string)
	path := fmt.Sprintf("%s/%T", outer, op)
	return context.WithValue(ctx, pathKey{}, path), func(err error) {
		end := ""
		switch op := op.(type) {
		case *instrument.Sandbox:
			end = fmt.Sprintf("%s %s %s worked=%t digest=%t", op.Scope.Tenant, op.Plugin, op.Export, op.Cost.Instructions > 0, op.Digest != "")
		case *instrument.HTTP:
			end = fmt.Sprintf("%s %s://%s %d", op.Method, op.Scheme, op.Host, op.Status)
		case *instrument.Model:
			end = fmt.Sprintf("%s by %s for %d", op.Purpose, op.Scope.Tenant, op.Price.Amount)
		default:
			return
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.lines = append(o.lines, strings.ReplaceAll(path, "*instrument.", "")+" "+end+" "+string(host.CodeOf(err)))
	}
}

func TestSandboxedCodeIsInstrumentedWithWhatItAsksFor(t *testing.T) {
	ledger, err := usage.New(nil, &usage.Options{FlushInterval: -1, Prices: &usage.PriceTable{Version: "1", Models: map[string]usage.Price{"scripted": {Output: 1_000_000_000}}}})
	if err != nil {
		t.Fatal(err)
	}
	rt := newRuntime(t, &plugin.Options{Fetcher: &page{}, Ledger: ledger, Models: oneModel{hosttest.NewModel(hosttest.Say("a sum"))}})
	p := load(t, rt, "operations", buildGuest(t, "host/plugin/testdata/guests/operations"), &plugin.LoadOptions{Granted: plugin.Permissions{
		Model: true, HTTP: []plugin.HTTPAccess{{Host: "api.example.com"}}, Secrets: []plugin.SecretAccess{{Name: "KEY", Hosts: []string{"api.example.com"}}},
	}})
	tools, err := p.Tools(nil)
	if err != nil {
		t.Fatal(err)
	}
	var seen operationPaths
	h, err := host.New(&host.Options{Instrument: &seen, Ledger: ledger})
	if err != nil {
		t.Fatal(err)
	}
	agent, err := host.NewAgent("clerk", &host.AgentOptions{Tools: tools,
		Model: hosttest.NewModel(hosttest.Call("fetch", "{}"), hosttest.Call("ask", "{}"), hosttest.Call("count", "{}"), hosttest.Say("done"))})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Text: "hi"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"/Run/Agent/Tool/Sandbox/HTTP GET https://api.example.com 200 ",
		"/Run/Agent/Tool/Sandbox acme operations agenthost_tool worked=true digest=true ",
		"/Run/Agent/Tool/Sandbox/Model plugin by acme for 1000 ",
		"/Run/Agent/Tool/Sandbox acme operations agenthost_tool worked=true digest=true permission_denied",
	} {
		if !slices.Contains(seen.lines, want) {
			t.Errorf("no operation %q in\n%s", want, strings.Join(seen.lines, "\n"))
		}
	}
}

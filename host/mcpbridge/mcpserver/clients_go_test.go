package mcpserver_test

// Scenario: a Go client that shares no code with the server's library uses it, for two tenants
// at once.

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
)

// person answers the questions of a client, the first with yes.
type person struct {
	mu    sync.Mutex
	asked []string
}

// Elicit implements client.ElicitationHandler.
func (p *person) Elicit(_ context.Context, r mcpgo.ElicitationRequest) (*mcpgo.ElicitationResult, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, r.Params.Message)
	answer := &mcpgo.ElicitationResult{}
	answer.Action, answer.Content = mcpgo.ElicitationResponseActionAccept, map[string]any{"approve": true}
	if len(p.asked) > 1 {
		answer.Action, answer.Content = mcpgo.ElicitationResponseActionDecline, nil
	}
	return answer, nil
}

func TestAnIndependentGoClientUsesTheServer(t *testing.T) {
	b := newBench(t, nil)
	canceled := scenario(t, b)
	var running sync.WaitGroup
	for _, version := range versions {
		for _, tenant := range []string{"acme", "globex"} {
			running.Go(func() { useMCPGo(t, b, tenant, version) })
		}
	}
	running.Wait()
	if !t.Failed() {
		awaitCanceled(t, canceled, "acme", "globex", "acme", "globex")
	}
}

// useMCPGo runs a session of mcp-go.
func useMCPGo(t *testing.T, b *bench, tenant, version string) {
	p := &person{}
	http, err := transport.NewStreamableHTTP(b.url, transport.WithHTTPHeaders(map[string]string{"Authorization": "Bearer " + tenant}))
	if err != nil {
		t.Error(err)
		return
	}
	c := client.NewClient(http, client.WithElicitationHandler(p))
	defer func() { _ = c.Close() }()
	if err := c.Start(t.Context()); err != nil {
		t.Error(err)
		return
	}
	hello := mcpgo.InitializeRequest{}
	hello.Params.ProtocolVersion, hello.Params.ClientInfo = version, mcpgo.Implementation{Name: "mcp-go", Version: "1"}
	if r, err := c.Initialize(t.Context(), hello); err != nil || r.ProtocolVersion != version {
		t.Errorf("%s of %s: initialize = %+v, %v", version, tenant, r, err)
		return
	}
	list, err := c.ListTools(t.Context(), mcpgo.ListToolsRequest{})
	if err != nil || len(list.Tools) != 4 {
		t.Errorf("%s of %s: tools = %+v, %v", version, tenant, list, err)
		return
	}
	begun := make(chan struct{})
	var once sync.Once
	c.OnNotification(func(n mcpgo.JSONRPCNotification) {
		if message, _ := n.Params.AdditionalFields["message"].(string); message == "waiting for "+tenant {
			once.Do(func() { close(begun) })
		}
	})
	call := func(ctx context.Context, name string, arguments map[string]any) (string, bool, error) {
		r := mcpgo.CallToolRequest{}
		r.Params.Name, r.Params.Arguments = name, arguments
		r.Params.Meta = &mcpgo.Meta{ProgressToken: "p"}
		out, err := c.CallTool(ctx, r)
		if err != nil {
			return "", false, err
		}
		text, _ := out.Content[0].(mcpgo.TextContent)
		return text.Text, out.IsError, nil
	}
	for _, want := range []struct {
		tool, text string
		arguments  map[string]any
		failed     bool
	}{
		{"sandbox_of_" + tenant + "_t", "{}", map[string]any{}, false},
		{"clerk-of-" + tenant, "clerk-of-" + tenant + " heard: hello", map[string]any{"message": "hello"}, false},
		{"pay", "paid by " + tenant, map[string]any{}, false},
		{"pay", "A person did not allow this call.", map[string]any{}, true},
	} {
		if text, failed, err := call(t.Context(), want.tool, want.arguments); err != nil || text != want.text || failed != want.failed {
			t.Errorf("%s of %s: %s = %q, %v, %v", version, tenant, want.tool, text, failed, err)
		}
	}
	if len(p.asked) != 2 || !strings.Contains(p.asked[0], "money leaves "+tenant) {
		t.Errorf("%s of %s: asked %q", version, tenant, p.asked)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		select {
		case <-begun:
		case <-ctx.Done():
		}
		cancel()
	}()
	if _, _, err := call(ctx, "wait", map[string]any{}); err == nil {
		t.Errorf("%s of %s: the canceled call has a result", version, tenant)
	}
	cancel()
}

package mcpserver_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/mcpbridge/mcpserver"
	"github.com/agenthost/agenthost/host/runs"
)

// offersOf is a catalog that never changes.
type offersOf map[string]*mcpserver.Offers

func (o offersOf) Revision(string) uint64 { return 1 }

func (o offersOf) Offers(_ context.Context, tenant string) (*mcpserver.Offers, error) {
	return o[tenant], nil
}

// Each tenant finds its own tools at the same address.
func Example() {
	h, err := host.New(nil)
	if err != nil {
		panic(err)
	}
	registry, err := runs.New(h, nil)
	if err != nil {
		panic(err)
	}
	defer func() { _ = registry.Close() }()
	clerk, err := host.NewAgent("clerk", &host.AgentOptions{Description: "Knows the orders.", Model: hosttest.NewModel(hosttest.Say("It is on its way."))})
	if err != nil {
		panic(err)
	}
	server, err := mcpserver.New(registry, offersOf{"acme": {Targets: []mcpserver.Target{{Target: clerk}}}}, nil)
	if err != nil {
		panic(err)
	}
	defer func() { _ = server.Close() }()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tenant := "acme" // of the request's credential
		if err := server.Serve(w, r, mcpserver.Caller{Tenant: tenant, MayRun: true}); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
	defer web.Close()

	ctx := context.Background()
	client, err := mcp.NewClient(&mcp.Implementation{Name: "editor"}, nil).Connect(ctx, &mcp.StreamableClientTransport{Endpoint: web.URL}, nil)
	if err != nil {
		panic(err)
	}
	defer func() { _ = client.Close() }()
	result, err := client.CallTool(ctx, &mcp.CallToolParams{Name: "clerk", Arguments: map[string]any{"message": "Where is my order?"}})
	if err != nil {
		panic(err)
	}
	fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	// Output: It is on its way.
}

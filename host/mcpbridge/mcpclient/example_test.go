package mcpclient_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/mcpbridge/mcpclient"
)

func Example() {
	greeter := newGreeter() // a server of somebody else's
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return greeter }, nil))
	defer web.Close()
	defer web.CloseClientConnections()

	servers, err := mcpclient.New(&mcpclient.Options{
		Servers: []mcpclient.Server{{Name: "greeter", URL: web.URL, Allow: []string{"greet"}}},
		Tenants: map[string][]mcpclient.Server{"acme": {{Name: "own", URL: web.URL, PublicOnly: true}}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer servers.Close()
	tools, err := servers.Provider("mcp", nil)
	if err != nil {
		log.Fatal(err)
	}
	model := hosttest.NewModel(hosttest.Call("greeter__greet", `{"name":"Ada"}`), hosttest.Say("Done."))
	agent, err := host.NewAgent("clerk", &host.AgentOptions{Model: model, Providers: []host.Provider{tools}})
	if err != nil {
		log.Fatal(err)
	}
	h, err := host.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	if _, err := h.Run(ctx, agent, &host.Request{Tenant: "umbrella", Text: "Say hello to Ada."}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(model.Requests()[1].Messages[2].ToolResults()[0].Content))
	fmt.Println(servers.Names("umbrella"), servers.Names("acme"))
	_, err = servers.Inspect(ctx, "acme", "own") // its address is not of the public internet
	fmt.Println(host.CodeOf(err))

	// Output:
	// "Hello, Ada!"
	// [greeter] [greeter own]
	// permission_denied
}

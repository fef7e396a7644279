package mcpclient_test

import (
	"slices"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/mcpbridge/mcpclient"
)

func TestToolsAboveTheLimitAreFoundBySearch(t *testing.T) {
	sdk := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil)
	for name, about := range map[string]string{
		"createInvoice": "Writes an invoice for an order.", "list_orders": "Lists orders of a customer.", "refund": "Pays money back.",
		"weather": "Says how the weather is.", "translate": "Translates a text.",
	} {
		describe(sdk, name, about)
	}
	server := httpServer(t, "shop", sdk)
	server.SearchAbove = 4
	servers := newServers(t, &mcpclient.Options{Servers: []mcpclient.Server{server}})
	model := hosttest.NewModel(
		hosttest.Call("shop__find_tools", `{"query":"write invoices"}`),
		hosttest.Call("shop__createInvoice", `{}`),
		hosttest.Call("shop__find_tools", `{"query":"zzz"}`),
		hosttest.Say("done"), hosttest.Say("again"),
	)
	agent := newAgent(t, servers, model)
	h := newHost(t, &host.Options{})
	first, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Text: "go"})
	must(t, err)
	for i, want := range [][]string{{"shop__find_tools"}, {"shop__find_tools", "shop__createInvoice"}, {"shop__find_tools", "shop__createInvoice"}, {"shop__find_tools", "shop__createInvoice"}} {
		if got := toolNames(model, i); !slices.Equal(got, want) {
			t.Errorf("request %d offers %q, want %q", i, got, want)
		}
	}
	if got := len(first.Results[0].Messages); got != 7 {
		t.Errorf("the agent made %d messages", got)
	}
	if got, failed := lastResult(t, model); got != `{"tools":[]}` || failed {
		t.Errorf("a search in vain answers %q", got)
	}

	server.SearchAbove = -1
	servers = newServers(t, &mcpclient.Options{Servers: []mcpclient.Server{server}})
	all := hosttest.NewModel(hosttest.Say("done"))
	run(t, newAgent(t, servers, all), "acme")
	if got := toolNames(all, 0); len(got) != 5 {
		t.Errorf("without a limit the model was offered %q", got)
	}
}

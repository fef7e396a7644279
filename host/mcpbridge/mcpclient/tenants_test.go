package mcpclient_test

// Scenario: two tenants have servers of equal names, whose definitions change and are
// accepted while runs of both call them.

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/mcpbridge/mcpclient"
)

// tenantServer is a server of one tenant. Its words name the tenant.
type tenantServer struct {
	tenant string
	sdk    *mcp.Server
	secret chan string // the header of requests that came without the tenant's own
}

func newTenantServer(t *testing.T, tenant string) (*tenantServer, mcpclient.Server) {
	t.Helper()
	s := &tenantServer{tenant: tenant, sdk: mcp.NewServer(&mcp.Implementation{Name: "own", Version: "1"}, nil), secret: make(chan string, 1000)}
	inner := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.sdk }, nil)
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "of-"+tenant {
			select {
			case s.secret <- got:
			default:
			}
		}
		inner.ServeHTTP(w, r)
	}))
	return s, mcpclient.Server{Name: "own", URL: url, Headers: []mcpclient.Setting{{Name: "Authorization", Secret: "TOKEN"}}}
}

// set has the server offer a tool in some words.
func (s *tenantServer) set(tool string, version int) {
	mcp.AddTool(s.sdk, &mcp.Tool{Name: tool, Description: fmt.Sprintf("Of %s, version %d.", s.tenant, version)}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return textResult("answer of " + s.tenant), nil, nil
	})
}

func TestTenantsNeverSeeEachOthersTools(t *testing.T) {
	tenants := []string{"acme", "umbrella"}
	tools := []string{"buy", "sell", "look"}
	rapid.Check(t, func(rt *rapid.T) {
		own := map[string]*tenantServer{}
		list := map[string][]mcpclient.Server{}
		for _, tenant := range tenants {
			server, config := newTenantServer(t, tenant)
			server.set("buy", 0)
			own[tenant], list[tenant] = server, []mcpclient.Server{config}
		}
		servers, err := mcpclient.New(&mcpclient.Options{Tenants: list, Lock: &mcpclient.Lock{}, Secrets: secrets{"acme/TOKEN": "of-acme", "umbrella/TOKEN": "of-umbrella"}})
		must(t, err)
		defer servers.Close()
		seen := make(chan string, 100)
		runOne := func(tenant string) {
			other := tenants[1-slices.Index(tenants, tenant)]
			model := hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
				for _, spec := range req.Tools {
					if strings.Contains(spec.Description, other) {
						seen <- tenant + " is offered " + spec.Description
					}
				}
				last := req.Messages[len(req.Messages)-1]
				if results := last.ToolResults(); len(results) > 0 {
					for _, r := range results {
						if strings.Contains(string(r.Content), other) {
							seen <- tenant + " reads " + string(r.Content)
						}
					}
					return hosttest.Say("done")
				}
				reply := hosttest.Say("")
				for _, tool := range tools {
					reply = reply.Call("own__"+tool, `{}`)
				}
				return reply
			})
			if _, err := newHost(t, nil).Run(t.Context(), newAgent(t, servers, model), &host.Request{Tenant: tenant, Text: "go"}); err != nil {
				seen <- tenant + " fails: " + err.Error()
			}
		}
		for range rapid.IntRange(2, 8).Draw(rt, "steps") {
			done := make(chan struct{}, 2)
			for _, tenant := range tenants {
				go func() { runOne(tenant); done <- struct{}{} }()
			}
			tenant := rapid.SampledFrom(tenants).Draw(rt, "tenant")
			tool := rapid.SampledFrom(tools).Draw(rt, "tool")
			switch rapid.IntRange(0, 3).Draw(rt, "change") {
			case 0:
				own[tenant].set(tool, rapid.IntRange(0, 2).Draw(rt, "version"))
			case 1:
				own[tenant].sdk.RemoveTools(tool)
			case 2:
				if _, err := servers.Accept(t.Context(), tenant, "own"); err != nil {
					rt.Errorf("accept: %v", err)
				}
			case 3:
				must(t, servers.SetTenant(tenant, list[tenant]))
			}
			<-done
			<-done
		}
		for len(seen) > 0 {
			if what := <-seen; !strings.Contains(what, "fails") {
				rt.Error(what)
			}
		}
		for _, tenant := range tenants {
			for len(own[tenant].secret) > 0 {
				rt.Errorf("the server of %s was sent the header %q", tenant, <-own[tenant].secret)
			}
			report, err := servers.Inspect(t.Context(), tenant, "own")
			if err != nil {
				rt.Fatalf("inspect: %v", err)
			}
			for _, tool := range report.Tools {
				for _, d := range []*mcpclient.Definition{tool.Accepted, tool.Now} {
					if d != nil && !strings.Contains(d.Description, tenant) {
						rt.Errorf("the report of %s has %q", tenant, d.Description)
					}
				}
			}
		}
	})
}

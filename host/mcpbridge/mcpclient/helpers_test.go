package mcpclient_test

// Scenario: tests share servers of the SDK, over each transport, and a host whose agent has
// their tools.

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/mcpbridge/mcpclient"
	"github.com/agenthost/agenthost/internal/testhost"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type greeting struct {
	Name string `json:"name" jsonschema:"who is greeted"`
}

// newGreeter returns a server of the SDK with a tool that greets, and one that reads a
// variable of its environment.
func newGreeter() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "greeter", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "greet", Description: "Greets a person."}, func(_ context.Context, _ *mcp.CallToolRequest, in greeting) (*mcp.CallToolResult, any, error) {
		return textResult("Hello, " + in.Name + "!"), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "variable"}, func(_ context.Context, _ *mcp.CallToolRequest, in greeting) (*mcp.CallToolResult, any, error) {
		return textResult(os.Getenv(in.Name)), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "environment"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return textResult(strings.Join(os.Environ(), "\n")), nil, nil
	})
	return s
}

func textResult(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

func init() {
	roles["greeter"] = func(ctx context.Context) error { return newGreeter().Run(ctx, &mcp.StdioTransport{}) }
}

// stdioServer is a server whose process is the program of the tests in a role.
func stdioServer(t testing.TB, name, role string) mcpclient.Server {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	return mcpclient.Server{Name: name, Command: []string{self}, Env: []mcpclient.Setting{{Name: roleVariable, Value: role}}}
}

// serve serves a handler until the test ends, and returns its address.
func serve(t testing.TB, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

// httpServer is a server of the SDK over streamable HTTP.
func httpServer(t testing.TB, name string, server *mcp.Server) mcpclient.Server {
	t.Helper()
	return mcpclient.Server{Name: name, URL: serve(t, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))}
}

// sseServer is a server of the SDK over the older transport.
func sseServer(t testing.TB, name string, server *mcp.Server) mcpclient.Server {
	t.Helper()
	return mcpclient.Server{Name: name, URL: serve(t, mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return server }, nil)), SSE: true}
}

// newServers returns servers that are closed when the test ends. Where the test sets no time
// for opening a session it is long: the start of a process takes seconds on a busy machine.
func newServers(t testing.TB, opts *mcpclient.Options) *mcpclient.Servers {
	t.Helper()
	own := *opts
	own.Limits.ConnectTimeout = cmp.Or(own.Limits.ConnectTimeout, time.Minute)
	s, err := mcpclient.New(&own)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// newAgent returns an agent with the tools of servers, and a model.
func newAgent(t testing.TB, servers *mcpclient.Servers, model host.Model) *host.Agent {
	t.Helper()
	provider, err := servers.Provider("mcp", nil)
	must(t, err)
	return testhost.NewAgent(t, "clerk", &host.AgentOptions{Model: model, Providers: []host.Provider{provider}})
}

var newHost = testhost.New

// run runs an agent for a tenant.
func run(t testing.TB, agent *host.Agent, tenant string) *host.RunResult {
	t.Helper()
	result, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Tenant: tenant, Text: "go"})
	must(t, err)
	return result
}

// toolNames returns the names of the tools that a model was offered in a request.
func toolNames(model *hosttest.Model, request int) []string {
	names := []string{}
	for _, spec := range model.Requests()[request].Tools {
		names = append(names, spec.Name)
	}
	return names
}

// lastResult returns the result of the last tool call that a model was sent.
func lastResult(t testing.TB, model *hosttest.Model) (content string, failed bool) {
	t.Helper()
	requests := model.Requests()
	for _, m := range slices.Backward(requests[len(requests)-1].Messages) {
		if r := m.ToolResults(); len(r) > 0 {
			var text string
			if json.Unmarshal(r[len(r)-1].Content, &text) != nil {
				text = string(r[len(r)-1].Content)
			}
			return text, r[len(r)-1].IsError
		}
	}
	t.Fatal("the model was sent no result")
	return "", false
}

// callTool has an agent of a tenant call a tool, and returns the result that the model got.
func callTool(t testing.TB, servers *mcpclient.Servers, tenant, tool, arguments string) (content string, failed bool) {
	t.Helper()
	model := hosttest.NewModel(hosttest.Call(tool, arguments), hosttest.Say("done"))
	run(t, newAgent(t, servers, model), tenant)
	return lastResult(t, model)
}

// waitFor waits until a condition holds that no channel tells of.
func waitFor(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain: " + what)
		}
	}
}

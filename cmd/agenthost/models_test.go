package main

// Scenario: a command runs on a model of each provider, named by flag or configuration,
// over fake servers.

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A model of Anthropic's is found by its name, or by the configuration.
func TestAnthropicModel(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/messages" || r.Header.Get("X-Api-Key") != "sk-ant-1234567890" {
			t.Errorf("%s %s with key %q", r.Method, r.URL, r.Header.Get("X-Api-Key"))
		}
		_, _ = w.Write([]byte(`{"type":"message","id":"m","model":"claude-x","content":[{"type":"text","text":"Bonjour."}],"stop_reason":"end_turn"}`))
	}))
	defer srv.Close()
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	plain := write("plain.yaml", "version: 1\nagents:\n  clerk: {}\n")
	configured := write("configured.yaml", "version: 1\nagents:\n  clerk: {}\nmodels:\n  big: {provider: anthropic, name: claude-x, base_url: "+srv.URL+"}\n")
	env := map[string]string{"ANTHROPIC_API_KEY": "sk-ant-1234567890", "ANTHROPIC_BASE_URL": srv.URL}
	for _, test := range []struct {
		name string
		args []string
		env  map[string]string
		want string
		code int
	}{
		{"by its name", []string{"run", plain, "--model", "claude-x", "hi"}, env, "Bonjour.", 0},
		{"configured", []string{"run", configured, "hi"}, map[string]string{"ANTHROPIC_API_KEY": "sk-ant-1234567890"}, "Bonjour.", 0},
		{"without a key", []string{"run", plain, "--model", "claude-x", "hi"}, nil, "ANTHROPIC_API_KEY is not set", 5},
	} {
		t.Run(test.name, func(t *testing.T) { wantExit(t, variables(test.env), test.code, test.want, test.args...) })
	}
}

// A model of Google's is found by its name, with the key from its variable; doctor
// sees where it is.
func TestGeminiModel(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RequestURI() != "/models/gemini-x:streamGenerateContent?alt=sse" || r.Header.Get("X-Goog-Api-Key") != "AIza-1234567890" {
			t.Errorf("%s %s with key %q", r.Method, r.URL, r.Header.Get("X-Goog-Api-Key"))
		}
		_, _ = w.Write([]byte("data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Bonjour.\"}]},\"finishReason\":\"STOP\"}]}\n\n"))
	}))
	defer srv.Close()
	file := filepath.Join(t.TempDir(), "agenthost.yaml")
	if err := os.WriteFile(file, []byte("version: 1\nagents:\n  clerk: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"GEMINI_API_KEY": "AIza-1234567890", "GEMINI_BASE_URL": srv.URL}
	for _, test := range []struct {
		name string
		args []string
		env  map[string]string
		want string
		code int
	}{
		{"by its name", []string{"run", file, "--model", "gemini-x", "hi"}, env, "Bonjour.", 0},
		{"without a key", []string{"run", file, "--model", "gemini-x", "hi"}, nil, "GEMINI_API_KEY is not set", 5},
		{"seen by doctor", []string{"doctor"}, env, srv.URL, 0},
	} {
		t.Run(test.name, func(t *testing.T) { wantExit(t, variables(test.env), test.code, test.want, test.args...) })
	}
}

// A provider can be named before the model, and each has keys of its own.
func TestProviders(t *testing.T) {
	var path, body string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		path, body = r.URL.Path, string(raw)
		switch path {
		case "/responses":
			_, _ = w.Write([]byte(`{"status":"completed","id":"resp_1","model":"gpt-x","output":[{"type":"message","content":[{"type":"output_text","text":"Bonjour."}]}]}`))
		case "/chat/completions":
			_, _ = w.Write([]byte(`{"id":"c","model":"gpt-x","choices":[{"message":{"content":"Bonjour."},"finish_reason":"stop"}]}`))
		case "/models/big:streamGenerateContent", "/models/gemini-x:streamGenerateContent":
			_, _ = w.Write([]byte("data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Bonjour.\"}]},\"finishReason\":\"STOP\"}]}\n\n"))
		default:
			_, _ = w.Write([]byte(`{"type":"message","id":"m","model":"claude-x","content":[{"type":"text","text":"Bonjour."}],"stop_reason":"end_turn"}`))
		}
	}))
	defer srv.Close()
	file := filepath.Join(t.TempDir(), "agenthost.yaml")
	for _, test := range []struct {
		name, model, flag string // what the configuration says, and --model
		path, says        string // of the request
		code              int
		prints            string
	}{
		{"responses by its prefix", "", "responses:gpt-x", "/responses", `"model":"gpt-x","stream":true,"store":false`, 0, "Bonjour."},
		{"openai by its prefix", "", "openai:claude-x", "/chat/completions", `"model":"claude-x"`, 0, "Bonjour."},
		{"a name with a colon that is no provider", "", "llama3.2:3b", "/chat/completions", `"model":"llama3.2:3b"`, 0, "Bonjour."},
		{"anthropic by its prefix", "", "anthropic:big", "/v1/messages", `"model":"big"`, 0, "Bonjour."},
		{"responses, configured", "provider: responses, name: gpt-x, store: true, effort: low, summary: auto", "", "/responses", `"store":true,"reasoning":{"effort":"low","summary":"auto"}`, 0, "Bonjour."},
		{"openai, configured", "provider: openai, name: gpt-x, effort: low, reasoning: never", "", "/chat/completions", `"reasoning_effort":"low"`, 0, "Bonjour."},
		{"anthropic, configured", "provider: anthropic, name: big, thinking: 2048, cache: true, keep_raw: true", "", "/v1/messages", `"budget_tokens":2048`, 0, "Bonjour."},
		{"gemini by its prefix", "", "gemini:big", "/models/big:streamGenerateContent", `"contents":[{"role":"user"`, 0, "Bonjour."},
		{"gemini, configured", "provider: gemini, name: gemini-x, thinking: 512, summary: auto, keep_raw: true", "", "/models/gemini-x:streamGenerateContent", `"thinkingConfig":{"thinkingBudget":512,"includeThoughts":true}`, 0, "Bonjour."},
		{"gemini with both ways to think", "provider: gemini, thinking: 512, effort: low", "", "", "", 3, "both an effort and"},
		{"a raw answer of a script", "provider: scripted, keep_raw: true", "", "", "", 3, "it is for openai, responses, anthropic, gemini"},
		{"an unknown provider", "provider: opanai", "", "", "", 3, "did you mean openai?"},
		{"a provider like none", "provider: x", "", "", "", 3, "responses for OpenAI's Responses API"},
		{"another provider's key", "provider: openai, store: true", "", "", "", 3, "it is for responses"},
		{"whole answers of a script", "provider: scripted, whole: true", "", "", "", 3, "it is for openai, responses, anthropic, gemini"},
		{"whole answers, with a reader of deltas", "provider: openai, name: gpt-x, whole: true", "", "/chat/completions", `"stream":true`, 0, "Bonjour."},
		{"another provider's number", "provider: responses, thinking: 2048", "", "", "", 3, "it is for anthropic, gemini"},
		{"a bad use of reasoning", "provider: openai, reasoning: sometimes", "", "", "", 3, "always or never"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path, body = "", ""
			text := "version: 1\nagents:\n  clerk: {}\n"
			if test.model != "" {
				text += "models:\n  m: {" + test.model + "}\n"
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{"run", file, "hi"}
			if test.flag != "" {
				args = append(args, "--model", test.flag)
			}
			env := map[string]string{"OPENAI_BASE_URL": srv.URL, "ANTHROPIC_BASE_URL": srv.URL, "GEMINI_BASE_URL": srv.URL}
			wantExit(t, variables(env), test.code, test.prints, args...)
			if path != test.path || !strings.Contains(body, test.says) {
				t.Errorf("the server was asked at %q: %s\nwant %q and %s", path, body, test.path, test.says)
			}
		})
	}
}

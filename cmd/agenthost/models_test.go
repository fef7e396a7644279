package main

import (
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
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			e := &environment{stdin: strings.NewReader(""), stdout: &out, stderr: &out, getenv: func(name string) string { return test.env[name] }}
			if code := run(t.Context(), test.args, e); code != test.code || !strings.Contains(out.String(), test.want) {
				t.Errorf("exit %d, want %d and %q:\n%s", code, test.code, test.want, out.String())
			}
		})
	}
}

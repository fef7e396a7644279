package project_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/project"
)

// Models of Bedrock are asked in the protocol of their name, with a key or signed.
func TestModelsOfBedrockAreSignedOrHaveAKey(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, rest, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if scheme == "AWS4-HMAC-SHA256" {
			_, rest, _ = strings.Cut(rest, "/")
			rest = rest[strings.Index(rest, "/")+1 : strings.Index(rest, ",")]
		}
		asked = append(asked, r.URL.Path+" "+scheme+" "+rest)
		w.Header().Set("Content-Type", "text/event-stream")
		text := `data: {"choices":[{"index":0,"delta":{"content":"Hello."},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
		if strings.HasSuffix(r.URL.Path, "/messages") {
			text = `data: {"type":"message","id":"m","content":[{"type":"text","text":"Hello."}],"stop_reason":"end_turn"}` + "\n\n"
		}
		_, _ = io.WriteString(w, text)
	}))
	defer server.Close()
	keys := map[string]string{"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "eu-west-1"}
	ask := func(model string, env map[string]string) error {
		config := "version: 1\nagents: {clerk: {}}\nmodels: {m: {provider: bedrock, base_url: \"" + server.URL + "\", " + model + "}}\n"
		p, err := project.Load(t.Context(), "shop", &project.Options{FS: fstest.MapFS{"shop/agenthost.yaml": {Data: []byte(config)}}, Getenv: func(name string) string { return env[name] }})
		if err != nil {
			return err
		}
		defer p.Close()
		result, err := p.Run(t.Context(), &host.Request{Text: "hi"})
		if err == nil && result.Text() != "Hello." {
			t.Errorf("%s: %q", model, result.Text())
		}
		return err
	}
	for _, c := range []struct {
		model string
		env   map[string]string
		want  string
	}{
		{"name: eu.anthropic.claude-sonnet-4-5-20250929-v1:0, cache: true", keys, "/v1/messages AWS4-HMAC-SHA256 eu-west-1/bedrock/aws4_request"},
		{"name: openai.gpt-oss-120b, region: us-west-2", keys, "/chat/completions AWS4-HMAC-SHA256 us-west-2/bedrock/aws4_request"},
		{"name: openai.gpt-oss-120b", map[string]string{"AWS_BEARER_TOKEN_BEDROCK": "bedrock-key"}, "/chat/completions Bearer bedrock-key"},
	} {
		asked = nil
		if err := ask(c.model, c.env); err != nil || len(asked) != 1 || asked[0] != c.want {
			t.Errorf("%s: asked %q, %v; want %q", c.model, asked, err, c.want)
		}
	}
	for model, says := range map[string]string{
		"name: openai.gpt-oss-120b, cache: true":      "none of Anthropic's",
		"name: openai.gpt-oss-120b, region: not/here": "no region of AWS",
		"name: openai.gpt-oss-120b, summary: auto":    "its provider is bedrock",
	} {
		if err := ask(model, keys); host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want it to say %q", model, err, says)
		}
	}
	if err := ask("name: anthropic.claude", nil); host.CodeOf(err) != host.Unauthenticated || !strings.Contains(err.Error(), "AWS_ACCESS_KEY_ID") {
		t.Errorf("without credentials: %v", err)
	}
}

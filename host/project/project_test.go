package project_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/project"
)

func loadInMemory(t *testing.T) *project.Project {
	t.Helper()
	p, err := project.Load(t.Context(), "shop", &project.Options{FS: files})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestATenantIsErasedFromMemory(t *testing.T) {
	p := loadInMemory(t)
	if _, err := p.Run(t.Context(), &host.Request{Tenant: "acme", Thread: "t1", Text: "hi"}); err != nil {
		t.Fatal(err)
	}
	if r, err := p.Erasures().Prove(t.Context(), "acme"); err != nil || r.Gone {
		t.Errorf("Prove before = %+v, %v", r, err)
	}
	if err := p.Erasures().Delete(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	if r, err := p.Erasures().Prove(t.Context(), "acme"); err != nil || !r.Gone {
		t.Errorf("Prove after = %+v, %v", r, err)
	}
}

func TestRunOfNoRequestIsAnError(t *testing.T) {
	if _, err := loadInMemory(t).Run(t.Context(), nil); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("Run(nil) = %v, want invalid_argument", err)
	}
}

func TestThereIsNoUnknownPlugin(t *testing.T) {
	if p := loadInMemory(t).Plugin("nosuch"); p != nil {
		t.Errorf("Plugin = %v, want nil", p)
	}
}

// wholeDocuments are an answer in one piece, as the services of the providers send it.
var wholeDocuments = map[string]string{
	"openai":    `{"id":"c","model":"m","choices":[{"message":{"content":"It was sent."},"finish_reason":"stop"}]}`,
	"anthropic": `{"id":"c","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"It was sent."}],"stop_reason":"end_turn"}`,
	"gemini":    `{"responseId":"c","modelVersion":"m","candidates":[{"content":{"role":"model","parts":[{"text":"It was sent."}]},"finishReason":"STOP"}]}`,
	"responses": `{"id":"c","model":"m","status":"completed","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"It was sent."}]}]}`,
}

// A model that answers whole is asked for a stream where deltas are read, and only there.
func TestWholeAnswers(t *testing.T) {
	for provider, document := range wholeDocuments {
		t.Run(provider, func(t *testing.T) { checkWholeAnswers(t, provider, document) })
	}
}

func checkWholeAnswers(t *testing.T, provider, document string) {
	asked := make(chan bool, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Stream bool `json:"stream"`
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		asked <- body.Stream || strings.HasSuffix(r.URL.Path, ":streamGenerateContent")
		_, _ = w.Write([]byte(document))
	}))
	defer server.Close()
	for _, test := range []struct {
		whole            bool
		forRun, forReads bool // whether a stream is asked for
	}{
		{whole: false, forRun: true, forReads: true},
		{whole: true, forRun: false, forReads: true},
	} {
		config := fmt.Sprintf("version: 1\nagents: {clerk: {}}\nmodels: {m: {provider: %s, base_url: %q, whole: %t}}\n", provider, server.URL, test.whole)
		p, err := project.Load(t.Context(), "shop", &project.Options{Getenv: func(string) string { return "" }, FS: fstest.MapFS{"shop/agenthost.yaml": {Data: []byte(config)}}})
		if err != nil {
			t.Fatal(err)
		}
		result, err := p.Run(t.Context(), &host.Request{Text: "where is it?"})
		if err != nil || result.Text() != "It was sent." {
			t.Fatalf("whole %t: %v, %v", test.whole, result, err)
		}
		if streamed := <-asked; streamed != test.forRun {
			t.Errorf("whole %t: Run asked for a stream: %t", test.whole, streamed)
		}
		target, err := p.Target("")
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range p.Host().Stream(t.Context(), target, &host.Request{Tenant: p.Tenant(""), Text: "where is it?"}) {
			if err != nil {
				t.Fatal(err)
			}
		}
		if streamed := <-asked; streamed != test.forReads {
			t.Errorf("whole %t: Stream asked for a stream: %t", test.whole, streamed)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

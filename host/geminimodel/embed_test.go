package geminimodel_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/geminimodel"
	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
)

func newEmbedder(t *testing.T, baseURL string, dimensions int) *geminimodel.Embedder {
	t.Helper()
	e, err := geminimodel.NewEmbedder("gemini-embedding-001", &geminimodel.EmbedderOptions{Server: modelhttp.Options{BaseURL: baseURL, APIKey: "k", MaxRetries: -1}, Dimensions: dimensions})
	return modeltest.Close(t, e, err)
}

// The form is that of Google's documentation of batchEmbedContents.
func TestEmbeddingsSayWhatTheyAreFor(t *testing.T) {
	p := &modeltest.Service{Answers: []http.HandlerFunc{modeltest.Answer(http.StatusOK, "application/json", `{"embeddings":[{"values":[1,2]},{"values":[0.5,-0.25]}]}`)}}
	srv := httptest.NewServer(p)
	defer srv.Close()
	e := newEmbedder(t, srv.URL+"/v1beta", 2)
	for _, query := range []bool{false, true} {
		got, err := e.Embed(t.Context(), &llm.EmbedRequest{Texts: []string{"abcdef", "b"}, Query: query})
		if err != nil {
			t.Fatal(err)
		}
		want := &llm.Embeddings{Model: "gemini-embedding-001", Vectors: [][]float32{{1, 2}, {0.5, -0.25}}, Usage: host.Usage{InputTokens: 4, Estimated: true}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("embeddings (-want +got):\n%s", diff)
		}
		task := "RETRIEVAL_DOCUMENT"
		if query {
			task = "RETRIEVAL_QUERY"
		}
		one := func(text string) string {
			return `{"model":"models/gemini-embedding-001","content":{"parts":[{"text":"` + text + `"}]},"taskType":"` + task + `","outputDimensionality":2}`
		}
		sent := modeltest.Parse(t, `{"requests":[`+one("abcdef")+`,`+one("b")+`]}`)
		if diff := cmp.Diff(sent, any(p.Sent[len(p.Sent)-1])); diff != "" || p.Path != "/v1beta/models/gemini-embedding-001:batchEmbedContents" {
			t.Errorf("sent to %s (-want +got):\n%s", p.Path, diff)
		}
	}
}

// A model that takes no task types is asked without, then and later.
func TestEmbeddingsWithoutTasks(t *testing.T) {
	answer := modeltest.Answer(http.StatusOK, "application/json", `{"embeddings":[{"values":[1,2]}]}`)
	p := &modeltest.Service{Answers: []http.HandlerFunc{modeltest.Answer(http.StatusBadRequest, "application/json", `{"error":{"code":400,"message":"task_type is not supported by this model","status":"INVALID_ARGUMENT"}}`), answer}}
	srv := httptest.NewServer(p)
	defer srv.Close()
	e := newEmbedder(t, srv.URL, 0)
	for range 2 {
		if _, err := e.Embed(t.Context(), &llm.EmbedRequest{Texts: []string{"a"}}); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.Sent) != 3 {
		t.Fatalf("asked %d times", len(p.Sent))
	}
	for i, sent := range p.Sent {
		one, _ := sent["requests"].([]any)[0].(map[string]any)
		if _, has := one["taskType"]; has != (i == 0) {
			t.Errorf("request %d: %v", i, one)
		}
	}
}

func TestEmbeddingsThatCannotBeRead(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		code   host.Code
	}{
		"too few":            {200, `{"embeddings":[]}`, host.Unavailable},
		"a list of millions": {200, `{"embeddings":[` + strings.Repeat("{},", 1<<20) + `{}]}`, host.Unavailable},
		"no list":            {200, `{}`, host.Unavailable},
		"a wrong key":        {400, `{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}`, host.Unauthenticated},
		"overloaded":         {503, `{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}`, host.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(modeltest.Answer(c.status, "application/json", c.body))
			defer srv.Close()
			if got, err := newEmbedder(t, srv.URL, 0).Embed(t.Context(), &llm.EmbedRequest{Texts: []string{"a"}}); host.CodeOf(err) != c.code {
				t.Errorf("%v, %v; want code %s", got, err, c.code)
			}
		})
	}
	if _, err := geminimodel.NewEmbedder("a/b", nil); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("a name that no model has: %v", err)
	}
}

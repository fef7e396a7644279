package openaimodel_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/openaimodel"
	"github.com/agenthost/agenthost/host/scriptedmodel"
)

func newEmbedder(t *testing.T, baseURL string, dimensions int) *openaimodel.Embedder {
	t.Helper()
	e, err := openaimodel.NewEmbedder("text-embedding-3-small", &openaimodel.EmbedderOptions{
		Server: modelhttp.Options{BaseURL: baseURL, APIKey: "secret-key", MaxRetries: -1}, Dimensions: dimensions})
	return modeltest.Close(t, e, err)
}

// The answer has the form of OpenAI's documentation; its order is another one.
func TestEmbeddingsComeInTheOrderOfTheTexts(t *testing.T) {
	p := &modeltest.Service{Answers: []http.HandlerFunc{modeltest.Answer(http.StatusOK, "application/json",
		`{"object":"list","data":[{"object":"embedding","index":1,"embedding":[0.5,-1e-3]},{"object":"embedding","index":0,"embedding":[1,2]}],"model":"text-embedding-3-small","usage":{"prompt_tokens":8,"total_tokens":8}}`)}}
	srv := httptest.NewServer(p)
	defer srv.Close()
	got, err := newEmbedder(t, srv.URL+"/v1", 2).Embed(t.Context(), &llm.EmbedRequest{Texts: []string{"a", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	want := &llm.Embeddings{Model: "text-embedding-3-small", Vectors: [][]float32{{1, 2}, {0.5, -1e-3}}, Usage: host.Usage{InputTokens: 8}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("embeddings (-want +got):\n%s", diff)
	}
	sent := modeltest.Parse(t, `{"model":"text-embedding-3-small","input":["a","b"],"encoding_format":"float","dimensions":2}`)
	if diff := cmp.Diff(sent, any(p.Sent[0])); diff != "" || p.Path != "/v1/embeddings" || p.Header.Get("Authorization") != "Bearer secret-key" {
		t.Errorf("sent to %s with %v (-want +got):\n%s", p.Path, p.Header, diff)
	}
}

// Answers that are none have codes, and none of them makes more of a few bytes than they are.
func TestEmbeddingsThatCannotBeRead(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		code   host.Code
	}{
		"too few":             {200, `{"data":[{"index":0,"embedding":[1]}]}`, host.Unavailable},
		"too many":            {200, `{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1]},{"index":2,"embedding":[1]}]}`, host.Unavailable},
		"a list of millions":  {200, `{"data":[` + strings.Repeat("{},", 1<<20) + `{}]}`, host.Unavailable},
		"a vector of as many": {200, `{"data":[{"index":0,"embedding":[` + strings.Repeat("1,", 1<<20) + `1]},{"index":1,"embedding":[1]}]}`, host.Unavailable},
		"one twice":           {200, `{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}`, host.Unavailable},
		"an index of none":    {200, `{"data":[{"index":-1,"embedding":[1]},{"index":0,"embedding":[1]}]}`, host.Unavailable},
		"of two lengths":      {200, `{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1,2]}]}`, host.Unavailable},
		"empty vectors":       {200, `{"data":[{"index":0,"embedding":[]},{"index":1,"embedding":[]}]}`, host.Unavailable},
		"base64":              {200, `{"data":[{"index":0,"embedding":"AAAA"},{"index":1,"embedding":"AAAA"}]}`, host.Unavailable},
		"no list":             {200, `{"data":{}}`, host.Unavailable},
		"no JSON":             {200, `<html>`, host.Unavailable},
		"cut":                 {200, `{"data":[{"index":0,`, host.Unavailable},
		"nothing":             {200, ``, host.Unavailable},
		"a wrong key":         {401, `{"error":{"message":"Incorrect API key provided"}}`, host.Unauthenticated},
		"no such model":       {404, `{"error":{"message":"The model does not exist"}}`, host.NotFound},
		"too much":            {429, `{"error":{"message":"Rate limit reached"}}`, host.ResourceExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(modeltest.Answer(c.status, "application/json", c.body))
			defer srv.Close()
			got, err := newEmbedder(t, srv.URL, 0).Embed(t.Context(), &llm.EmbedRequest{Texts: []string{"a", "b"}})
			if host.CodeOf(err) != c.code || strings.Contains(err.Error(), "secret-key") || len(err.Error()) > 2000 {
				t.Errorf("%v, %v; want code %s", got, err, c.code)
			}
		})
	}
}

func TestTextsThatAreNotEmbedded(t *testing.T) {
	e := newEmbedder(t, "http://127.0.0.1:1", 0)
	for name, texts := range map[string][]string{
		"none": nil, "an empty one": {"a", ""}, "too many": make([]string, llm.MaxEmbedTexts+1), "too long": {strings.Repeat("a", llm.MaxEmbedBytes+1)},
	} {
		if _, err := e.Embed(t.Context(), &llm.EmbedRequest{Texts: texts}); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, dimensions := range []int{-1, llm.MaxDimensions + 1} {
		if _, err := openaimodel.NewEmbedder("m", &openaimodel.EmbedderOptions{Dimensions: dimensions}); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("%d dimensions: %v", dimensions, err)
		}
	}
}

// The scripted server's vectors are of the texts' spelling.
func TestScriptedEmbeddingsAreNearWhereSpellingIs(t *testing.T) {
	srv, err := scriptedmodel.Start(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	got, err := newEmbedder(t, srv.BaseURL(), 128).Embed(t.Context(), &llm.EmbedRequest{Texts: []string{"allergic to almonds", "alergies: almond", "the weather in March"}})
	if err != nil {
		t.Fatal(err)
	}
	product := func(a, b []float32) (sum float32) {
		for i := range a {
			sum += a[i] * b[i]
		}
		return sum
	}
	v := got.Vectors
	if near, far := product(v[0], v[1]), product(v[0], v[2]); len(v[0]) != 128 || near < 0.4 || far > 0.25 || got.Usage.InputTokens != 9 {
		t.Errorf("%d dimensions, near %v, far %v, usage %+v", len(v[0]), near, far, got.Usage)
	}
	for name, body := range map[string]string{"no input": `{}`, "numbers": `{"input":[1,2]}`, "no JSON": `x`, "too long vectors": `{"input":"a","dimensions":100000}`} {
		resp, err := http.Post(srv.BaseURL()+"/embeddings", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		var problem struct{ Error struct{ Code string } }
		if err := json.NewDecoder(resp.Body).Decode(&problem); resp.StatusCode != 400 || problem.Error.Code != "invalid_request_error" || err != nil {
			t.Errorf("%s: status %d, %+v, %v", name, resp.StatusCode, problem, err)
		}
		resp.Body.Close()
	}
	http.DefaultClient.CloseIdleConnections()
}

package project_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/memory"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/host/usage"
)

// A configured embedder finds memories by more than their words, is paid for by the tenant,
// and its vectors are in the tenant's export.
func TestMemoriesOfAConfigurationHaveEmbeddings(t *testing.T) {
	config := "version: 1\nagents: {clerk: {tools: ['memory:notes']}}\nmemory: {notes: {writes: at_once, embeddings: {provider: scripted, dimensions: 512}}, more: {scope: {application: shop}}}\n"
	p, err := project.Load(t.Context(), "shop", &project.Options{FS: fstest.MapFS{"shop/agenthost.yaml": {Data: []byte(config)}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	scope := memory.Scope{Tenant: "acme"}
	if _, err := p.Memories().Add(t.Context(), scope, "Ada has an allergy to almonds.", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Memories().Add(t.Context(), scope, "The weather in March is wet.", nil); err != nil {
		t.Fatal(err)
	}
	const misspelled = "alergy allmonds"
	if hits, err := p.Memories().Search(t.Context(), scope, misspelled, &memory.SearchOptions{WordsOnly: true}); err != nil || len(hits) > 0 {
		t.Errorf("by words: %v, %v", hits, err)
	}
	hits, err := p.Memories().Search(t.Context(), scope, misspelled, nil)
	if err != nil || len(hits) != 1 || !strings.Contains(hits[0].Text, "almonds") {
		t.Errorf("by vectors: %v, %v", hits, err)
	}
	bill, err := p.Ledger().BillOf(t.Context(), "acme", usage.MonthOf(time.Now()))
	if err != nil || bill.Total.Calls != 3 || bill.Total.InputTokens == 0 {
		t.Errorf("bill %+v, %v", bill, err)
	}
	exported := 0
	for _, part := range p.Exports(nil).Exporters() {
		if part.Part != "memory" {
			continue
		}
		for data, err := range part.Export(t.Context(), "acme") {
			if err != nil {
				t.Fatal(err)
			}
			raw, err := json.Marshal(data)
			var line struct {
				Text   string         `json:"text"`
				Vector *memory.Vector `json:"vector"`
			}
			if err != nil || json.Unmarshal(raw, &line) != nil || line.Text == "" || line.Vector == nil || len(line.Vector.Values) != 512 {
				t.Errorf("exported %.200s, %v", raw, err)
			}
			exported++
		}
	}
	if exported != 2 {
		t.Errorf("%d memories exported", exported)
	}
}

func TestEmbeddingsThatCannotBeConfigured(t *testing.T) {
	for name, c := range map[string]struct{ memory, says string }{
		"of an unknown provider": {"{notes: {embeddings: {provider: anthropic, name: m}}}", `provider of embeddings is "anthropic"`},
		"without a model":        {"{notes: {embeddings: {provider: openai}}}", "have no model"},
		"too long":               {"{notes: {embeddings: {provider: scripted, dimensions: 5000}}}", "dimensions are 5000"},
		"beyond a cosine":        {"{notes: {embeddings: {provider: scripted, min_similarity: 2}}}", "min_similarity is 2"},
		"two in one store":       {"{a: {embeddings: {provider: scripted}}, b: {embeddings: {provider: scripted, dimensions: 7}}}", "it has other embeddings already"},
		"of Mem0":                {"{notes: {backend: mem0, embeddings: {provider: scripted}}}", "its backend is mem0"},
		"without a key":          {"{notes: {embeddings: {provider: gemini, name: m}}}", "GEMINI_API_KEY is not set"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := project.Load(t.Context(), "shop", &project.Options{FS: fstest.MapFS{"shop/agenthost.yaml": {Data: []byte("version: 1\nagents: {clerk: {}}\nmemory: " + c.memory + "\n")}},
				Getenv: func(string) string { return "" }})
			if err == nil {
				_ = p.Close()
			}
			if code := host.CodeOf(err); code != host.InvalidArgument && code != host.Unauthenticated || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want it to say %q", err, c.says)
			}
		})
	}
}

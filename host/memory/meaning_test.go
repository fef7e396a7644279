package memory_test

// Scenario: memories are found by their meaning, beside their words.

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/memory"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// concepts are the words that mean one thing, for an embedder that knows them.
var concepts = [][]string{
	{"nuts", "almonds", "peanuts"},
	{"car", "automobile", "vehicle"},
	{"daughter", "child", "girl"},
	{"berlin", "capital"},
}

// embedder knows the concepts; each other word is a direction of its own.
type embedder struct {
	name       string
	dimensions int

	mu    sync.Mutex
	err   error
	texts []string // that were embedded
}

func newEmbedder() *embedder { return &embedder{name: "concepts", dimensions: 512} }

func (e *embedder) Name() string { return e.name }

func (e *embedder) Embed(_ context.Context, req *llm.EmbedRequest) (*llm.Embeddings, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.texts = append(e.texts, req.Texts...)
	if e.err != nil {
		return nil, e.err
	}
	out := &llm.Embeddings{Model: e.name}
	for _, text := range req.Texts {
		out.Vectors = append(out.Vectors, e.vector(text))
	}
	return out, nil
}

func (e *embedder) vector(text string) []float32 {
	v := make([]float32, e.dimensions)
	for word := range strings.FieldsSeq(strings.ToLower(strings.Trim(text, ".?!"))) {
		h := fnv.New32a()
		_, _ = h.Write([]byte(word))
		at := len(concepts) + int(h.Sum32())%(e.dimensions-len(concepts))
		if at < len(concepts) {
			at += e.dimensions - len(concepts)
		}
		weight := float32(0.3)
		for i, words := range concepts {
			for _, w := range words {
				if w == word {
					at, weight = i, 1
				}
			}
		}
		v[at] += weight
	}
	return v
}

func (e *embedder) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = err
}

// asked returns how many texts were embedded since the last time.
func (e *embedder) asked() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := len(e.texts)
	e.texts = nil
	return n
}

func TestSearchFindsLikeMeaningsBesideWords(t *testing.T) {
	s := open(t, &memory.Options{Embedder: newEmbedder()})
	other := memory.Scope{Tenant: "acme", User: "bob"}
	add(t, s, ada, "Ada eats no almonds.")
	add(t, s, ada, "Ada owns an automobile.")
	add(t, s, ada, "The weather in March is wet.")
	add(t, s, other, "Bob eats no peanuts.")
	wants(t, "by meaning", found(t, s, ada, "nuts?"), []string{"Ada eats no almonds."})
	wants(t, "by words", found(t, s, ada, "March"), []string{"The weather in March is wet."})
	wants(t, "by both, the one that both find first", found(t, s, ada, "vehicle almonds Ada"), []string{"Ada eats no almonds.", "Ada owns an automobile."})
	wants(t, "in another scope", found(t, s, other, "nuts"), []string{"Bob eats no peanuts."})
	hits, err := s.Search(t.Context(), ada, "nuts", &memory.SearchOptions{WordsOnly: true})
	if err != nil || len(hits) > 0 {
		t.Errorf("by words only: %v, %v", hits, err)
	}
	if v, err := s.Vector(t.Context(), ada, add(t, s, ada, "Ada eats no almonds.").ID); err != nil || v == nil || v.Model != "concepts" || len(v.Values) != 512 || v.Values[0] < 0.8 {
		t.Errorf("vector %v, %v", v, err)
	}
}

// A store that does not reach its embedder keeps memories and finds them by their words, says
// so, does not ask for each search, and makes up for the vectors.
func TestWithoutItsEmbedderAStoreSearchesByWordsAndSaysSo(t *testing.T) {
	e, now := newEmbedder(), time.Unix(1_700_000_000, 0)
	s := open(t, &memory.Options{Embedder: e, Now: func() time.Time { return now }})
	add(t, s, ada, "Ada owns an automobile.")
	e.asked()
	e.fail(host.Errorf(host.Unavailable, "down"))
	add(t, s, ada, "Ada eats no almonds.")
	var reasons []host.Code
	search := func(query string) []string {
		hits, err := s.Search(t.Context(), ada, query, &memory.SearchOptions{Degraded: func(err error) { reasons = append(reasons, host.CodeOf(err)) }})
		if err != nil {
			t.Fatal(err)
		}
		texts := []string{}
		for _, h := range hits {
			texts = append(texts, h.Text)
		}
		return texts
	}
	wants(t, "by words", search("almonds"), []string{"Ada eats no almonds."})
	wants(t, "by meaning, while the embedder is down", search("vehicle"), []string{})
	wants(t, "reasons", reasons, []host.Code{host.Unavailable, host.Unavailable})
	wants(t, "texts that the embedder was asked for", e.asked(), 1)
	now = now.Add(time.Minute)
	e.fail(nil)
	wants(t, "by meaning, of one with a vector", search("vehicle"), []string{"Ada owns an automobile."})
	wants(t, "by meaning, of one without", search("nuts"), []string{})
	if n, err := s.Embed(t.Context(), "acme"); n != 1 || err != nil {
		t.Errorf("Embed: %d, %v", n, err)
	}
	wants(t, "by meaning, when it has one", search("nuts"), []string{"Ada eats no almonds."})
	if n, err := s.Embed(t.Context(), "acme"); n != 0 || err != nil || len(reasons) != 2 {
		t.Errorf("Embed again: %d, %v; reasons %v", n, err, reasons)
	}
}

// A tenant whose budget is used up does not keep others from the embedder.
func TestARefusalOfOneTenantIsNotOfAll(t *testing.T) {
	e := newEmbedder()
	s := open(t, &memory.Options{Embedder: e})
	other := memory.Scope{Tenant: "umbrella", User: "bob"}
	add(t, s, ada, "Ada eats no almonds.")
	add(t, s, other, "Bob eats no almonds.")
	for _, err := range []error{
		host.Errorf(host.ResourceExhausted, "the budget is used up"),
		&llm.CallerError{Err: host.Errorf(host.PermissionDenied, "the tenant is suspended")},
		&llm.CallerError{Err: host.Errorf(host.DeadlineExceeded, "the tenant's turn did not come in time")},
	} {
		e.fail(err)
		wants(t, "while it is refused", found(t, s, ada, "nuts"), []string{})
		e.fail(nil)
		wants(t, "of the other", found(t, s, other, "nuts"), []string{"Bob eats no almonds."})
	}
}

func TestVectorsAreMadeAgainForAnotherEmbedder(t *testing.T) {
	driver := testdriver.New(t)
	defer driver.Close()
	for _, c := range []struct {
		name       string
		dimensions int
		embeds     int
	}{{"concepts", 64, 0}, {"others", 64, 70}, {"others", 32, 70}, {"others", 32, 0}} {
		e := &embedder{name: c.name, dimensions: c.dimensions}
		s, err := memory.New(driver, &memory.Options{Embedder: e})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 70 {
			add(t, s, ada, fmt.Sprintf("Note %d is about almonds.", i))
		}
		before := len(found(t, s, ada, "nuts")) // by the vectors there are; it shows the length of those to come
		if want := min(70-c.embeds, 10); before != want {
			t.Errorf("%s of %d dimensions: %d hits before, want %d", c.name, c.dimensions, before, want)
		}
		if n, err := s.Embed(t.Context(), "acme"); n != c.embeds || err != nil {
			t.Errorf("%s of %d dimensions: Embed %d, %v; want %d", c.name, c.dimensions, n, err, c.embeds)
		}
		if got := len(found(t, s, ada, "nuts")); got != 10 {
			t.Errorf("%s of %d dimensions: %d hits, want 10", c.name, c.dimensions, got)
		}
	}
}

// entries counts the entries of vectors in a tenant's partition.
func entries(t testing.TB, driver kv.Driver) (n int) {
	t.Helper()
	for e, err := range kv.All(t.Context(), driver, "acme", kv.Range{Prefix: kv.NewKey("memory", "content")}) {
		if err != nil {
			t.Fatal(err)
		}
		rest, _ := e.Key.CutPrefix(kv.NewKey("memory", "content"))
		_, rest, _ = rest.CutString()
		if kind, _, _ := rest.CutString(); kind == "vector" {
			n++
		}
	}
	return n
}

func TestVectorsGoWithTheirMemories(t *testing.T) {
	driver := testdriver.New(t)
	defer driver.Close()
	e, now := newEmbedder(), time.Unix(1_700_000_000, 0)
	s, err := memory.New(driver, &memory.Options{Embedder: e, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	m := add(t, s, ada, "Ada eats no almonds.")
	gone := add(t, s, ada, "Ada has a daughter.")
	if _, err := s.Add(t.Context(), ada, "Ada is in Berlin.", &memory.AddOptions{Expires: now.Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	wants(t, "entries", entries(t, driver), 3)
	e.asked()
	if _, err := s.Apply(t.Context(), ada, memory.Change{Kind: memory.Update, ID: m.ID, Metadata: map[string]json.RawMessage{"k": json.RawMessage(`1`)}}); err != nil {
		t.Fatal(err)
	}
	add(t, s, ada, "Ada eats no almonds.")
	wants(t, "texts embedded for new metadata and for a text that is there", e.asked(), 0)
	wants(t, "with other metadata", found(t, s, ada, "nuts"), []string{"Ada eats no almonds."})
	if err := s.Delete(t.Context(), ada, gone.ID); err != nil {
		t.Fatal(err)
	}
	wants(t, "of a deleted one", found(t, s, ada, "child"), []string{})
	if _, err := s.Update(t.Context(), ada, m.ID, "Ada owns a car."); err != nil {
		t.Fatal(err)
	}
	wants(t, "by its old text", found(t, s, ada, "nuts"), []string{})
	wants(t, "by its new text", found(t, s, ada, "vehicle"), []string{"Ada owns a car."})
	now = now.Add(2 * time.Hour)
	if n, err := s.Expire(t.Context(), "acme"); n != 1 || err != nil {
		t.Errorf("Expire: %d, %v", n, err)
	}
	wants(t, "entries after a deletion and an expiry", entries(t, driver), 1)
	without, err := memory.New(driver, &memory.Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	if err := without.Delete(t.Context(), ada, m.ID); err != nil {
		t.Fatal(err)
	}
	wants(t, "entries after a deletion by a store without an embedder", entries(t, driver), 0)
	wants(t, "of one that such a store deleted", found(t, s, ada, "vehicle"), []string{})
	add(t, s, ada, "Ada has a child.")
	if err := s.DeleteAll(t.Context(), ada); err != nil {
		t.Fatal(err)
	}
	wants(t, "entries of a deleted scope", entries(t, driver), 0)
}

// A scope with more vectors than the limit is searched by words.
func TestTooManyVectorsAreNotRead(t *testing.T) {
	s := open(t, &memory.Options{Embedder: newEmbedder(), VectorBytes: 1500})
	for i := range 3 {
		add(t, s, ada, fmt.Sprintf("Note %d is about almonds.", i))
	}
	var reason error
	hits, err := s.Search(t.Context(), ada, "nuts", &memory.SearchOptions{Degraded: func(err error) { reason = err }})
	if err != nil || len(hits) > 0 || host.CodeOf(reason) != host.ResourceExhausted || !strings.Contains(fmt.Sprint(reason), "VectorBytes") {
		t.Errorf("%v, %v; reason %v", hits, err, reason)
	}
	wants(t, "by words", len(found(t, s, ada, "almonds")), 3)
}

// Every store on a driver sees the changes of the others, few or many.
func TestStoresSeeTheVectorsOfOthers(t *testing.T) {
	driver := testdriver.New(t)
	defer driver.Close()
	rapid.Check(t, func(rt *rapid.T) {
		ada := someone()
		var stores []*memory.Store
		for range 2 {
			s, err := memory.New(driver, &memory.Options{Embedder: newEmbedder()})
			if err != nil {
				rt.Fatal(err)
			}
			stores = append(stores, s)
		}
		texts := map[string]string{} // by id
		word := rapid.SampledFrom([]string{"almonds", "automobile", "child", "capital"})
		for range rapid.IntRange(1, 6).Draw(rt, "steps") {
			s := rapid.SampledFrom(stores).Draw(rt, "store")
			switch rapid.IntRange(0, 3).Draw(rt, "what") {
			case 0, 1:
				var changes []memory.Change
				for range rapid.SampledFrom([]int{1, 2, memory.MaxChanges}).Draw(rt, "many") {
					id := host.NewID()
					texts[id] = word.Draw(rt, "word") + " " + id
					changes = append(changes, memory.Change{Kind: memory.Add, ID: id, Text: texts[id]})
				}
				if _, err := s.Apply(t.Context(), ada, changes...); err != nil {
					rt.Fatal(err)
				}
			case 2:
				for id := range texts {
					if err := s.Delete(t.Context(), ada, id); err != nil {
						rt.Fatal(err)
					}
					delete(texts, id)
					break
				}
			case 3:
				for id := range texts {
					texts[id] = word.Draw(rt, "word") + " again " + id
					if _, err := s.Update(t.Context(), ada, id, texts[id]); err != nil {
						rt.Fatal(err)
					}
					break
				}
			}
			i := rapid.IntRange(0, len(concepts)-1).Draw(rt, "concept")
			query, said := []string{"nuts", "vehicle", "girl", "berlin"}[i], []string{"almonds", "automobile", "child", "capital"}[i]
			want := 0
			for _, text := range texts {
				if strings.HasPrefix(text, said+" ") {
					want++
				}
			}
			for n, s := range stores {
				hits, err := s.Search(t.Context(), ada, query, &memory.SearchOptions{Limit: memory.MaxHits})
				if err != nil {
					rt.Fatal(err)
				}
				if len(hits) != min(want, memory.MaxHits) {
					rt.Fatalf("store %d finds %d memories of %q, want %d", n, len(hits), query, want)
				}
			}
		}
	})
}

// Searches and writes at once see whole states, under the race detector too.
func TestMeaningsAreSearchedWhileTheyAreWritten(t *testing.T) {
	s := open(t, &memory.Options{Embedder: newEmbedder()})
	add(t, s, ada, "The first is about almonds.")
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(w)))
			for i := range 15 {
				if w%2 == 0 {
					m, err := s.Add(t.Context(), ada, fmt.Sprintf("Note %d of %d is about peanuts.", i, w), nil)
					if err != nil {
						t.Error(err)
						return
					}
					if r.IntN(2) == 0 {
						if err := s.Delete(t.Context(), ada, m.ID); err != nil {
							t.Error(err)
						}
					}
					continue
				}
				hits, err := s.Search(t.Context(), ada, "nuts", &memory.SearchOptions{Limit: memory.MaxHits})
				if err != nil || len(hits) == 0 {
					t.Errorf("search: %d hits, %v", len(hits), err)
				}
			}
		})
	}
	all.Wait()
}

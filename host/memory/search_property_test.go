package memory_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/memory"
)

// vocabulary has words that are their own stems.
var vocabulary = []string{"tea", "milk", "sun", "rain", "red", "blu"}

// bm25 ranks texts by their ids, the plain way.
func bm25(texts map[string]string, query []string) (ids []string) {
	total := 0
	for _, text := range texts {
		total += len(strings.Fields(text))
	}
	scores := map[string]float64{}
	for _, word := range query {
		df := 0
		for _, text := range texts {
			if slices.Contains(strings.Fields(text), word) {
				df++
			}
		}
		idf := math.Log(1 + (float64(len(texts))-float64(df)+0.5)/(float64(df)+0.5))
		for id, text := range texts {
			words := strings.Fields(text)
			tf := 0.0
			for _, w := range words {
				if w == word {
					tf++
				}
			}
			if tf > 0 {
				scores[id] += idf * tf * 2.2 / (tf + 1.2*(0.25+0.75*float64(len(words))/(float64(total)/float64(len(texts)))))
			}
		}
	}
	for id := range scores {
		ids = append(ids, id)
		scores[id] = math.Round(scores[id] * 1e6)
	}
	slices.SortFunc(ids, func(a, b string) int {
		return cmp.Or(cmp.Compare(scores[b], scores[a]), strings.Compare(a, b))
	})
	return ids
}

// Whatever was written, searches find what they would find in a list of texts.
func TestSearchesFindWhatIsThere(t *testing.T) {
	s := open(t, nil)
	rapid.Check(t, func(r *rapid.T) {
		ada := someone()
		texts := map[string]string{} // by id
		text := rapid.Custom(func(r *rapid.T) string {
			return strings.Join(rapid.SliceOfN(rapid.SampledFrom(vocabulary), 1, 6).Draw(r, "words"), " ")
		})
		known := func() string {
			ids := []string{"nobody"}
			for id := range texts {
				ids = append(ids, id)
			}
			slices.Sort(ids)
			return rapid.SampledFrom(ids).Draw(r, "id")
		}
		r.Repeat(map[string]func(*rapid.T){
			"add": func(r *rapid.T) {
				name, says := fmt.Sprintf("m%d", rapid.IntRange(0, 8).Draw(r, "n")), text.Draw(r, "text")
				id := name
				want := says // of a new one
				if was, ok := texts[id]; ok {
					want = was
				} else {
					for other, said := range texts {
						if said == says {
							id = other
						}
					}
				}
				m, err := s.Add(t.Context(), ada, says, &memory.AddOptions{ID: name})
				if err != nil || m.ID != id || m.Text != want {
					r.Fatalf("add %s %q = %+v, %v; want %s %q", name, says, m, err, id, want)
				}
				texts[id] = want
				if m.ID != id && m.Text != says {
					r.Fatalf("added %+v", m)
				}
			},
			"update": func(r *rapid.T) {
				id, says := known(), text.Draw(r, "text")
				_, err := s.Update(t.Context(), ada, id, says)
				want := host.Code("")
				if _, ok := texts[id]; !ok {
					want = host.NotFound
				} else {
					for other, said := range texts {
						if other != id && said == says {
							want = host.AlreadyExists
						}
					}
				}
				if host.CodeOf(err) != want {
					r.Fatalf("update of %s to %q: %v, want %q", id, says, err, want)
				}
				if want == "" {
					texts[id] = says
				}
			},
			"delete": func(r *rapid.T) {
				id := known()
				err := s.Delete(t.Context(), ada, id)
				if _, ok := texts[id]; ok != (err == nil) {
					r.Fatalf("delete of %s: %v", id, err)
				}
				delete(texts, id)
			},
			"delete all": func(r *rapid.T) {
				if rapid.IntRange(0, 4).Draw(r, "rarely") > 0 {
					return
				}
				if err := s.DeleteAll(t.Context(), ada); err != nil {
					r.Fatal(err)
				}
				clear(texts)
			},
			"": func(r *rapid.T) {
				query := rapid.SliceOfNDistinct(rapid.SampledFrom(vocabulary), 0, 3, rapid.ID).Draw(r, "query")
				hits, err := s.Search(t.Context(), ada, strings.Join(query, " "), nil)
				if err != nil {
					r.Fatal(err)
				}
				var ids []string
				for _, h := range hits {
					ids = append(ids, h.ID)
					if texts[h.ID] != h.Text {
						r.Fatalf("%s says %q, want %q", h.ID, h.Text, texts[h.ID])
					}
				}
				if want := bm25(texts, query); !slices.Equal(ids, want) {
					r.Fatalf("%q finds %q, want %q of %q", query, ids, want, texts)
				}
				if n, err := s.Count(t.Context(), ada); n != len(texts) || err != nil {
					r.Fatalf("%d memories, %v; want %d", n, err, len(texts))
				}
			},
		})
	})
}

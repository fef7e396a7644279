package memory_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/memory"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// sentences are made of words as frequent as in a language: the n-th word comes
// half as often as the one before the half of it.
func sentence(r *rand.Rand, zipf *rand.Zipf) string {
	var words []string
	for range 8 + r.IntN(12) {
		words = append(words, fmt.Sprintf("word%d", zipf.Uint64()))
	}
	return strings.Join(words, " ")
}

// BenchmarkSearch searches 100,000 memories in 100 scopes on Badger, each time
// for three words: in scopes that were searched before since they were written
// to (warm), and in ones that were not (cold).
func BenchmarkSearch(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(r, 1.1, 1, 20_000)
	driver, err := badgerkv.Open(b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer driver.Close()
	s, err := memory.New(driver, nil)
	if err != nil {
		b.Fatal(err)
	}
	scope := func(i int) memory.Scope { return memory.Scope{Tenant: "acme", User: fmt.Sprint("user", i)} }
	for i := range 100 {
		for range 1000 / 10 {
			var changes []memory.Change
			for range 10 {
				changes = append(changes, memory.Change{Kind: memory.Add, Text: sentence(r, zipf)})
			}
			if _, err := s.Apply(b.Context(), scope(i), changes...); err != nil {
				b.Fatal(err)
			}
		}
	}
	for _, kind := range []string{"warm", "cold"} {
		b.Run(kind, func(b *testing.B) {
			var took []time.Duration
			for i := 0; b.Loop(); i++ {
				store := s
				if kind == "cold" {
					if store, err = memory.New(driver, nil); err != nil {
						b.Fatal(err)
					}
				}
				began := time.Now()
				if _, err := store.Search(b.Context(), scope(i%100), fmt.Sprintf("word%d word%d word%d", zipf.Uint64(), zipf.Uint64(), zipf.Uint64()), nil); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "us-median")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "us-p99")
		})
	}
}

// BenchmarkAdd adds a memory to a scope that has many: what it costs does not
// depend on how many.
func BenchmarkAdd(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			zipf := rand.NewZipf(r, 1.1, 1, 20_000)
			driver := testdriver.New(b)
			defer driver.Close()
			s, err := memory.New(driver, nil)
			if err != nil {
				b.Fatal(err)
			}
			fill := func() {
				if _, err := s.Add(context.Background(), ada, sentence(r, zipf), nil); err != nil {
					b.Fatal(err)
				}
			}
			for range n {
				fill()
			}
			for b.Loop() {
				fill()
			}
		})
	}
}

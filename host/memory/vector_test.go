package memory

// From inside: the numbers of a vector and the entries of the store are not seen from outside.

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func randomVector(r *rand.Rand, dimensions int) []float32 {
	v := make([]float32, dimensions)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

func cosine(a, b []float32) float64 {
	var ab, aa, bb float64
	for i := range a {
		ab, aa, bb = ab+float64(a[i])*float64(b[i]), aa+float64(a[i])*float64(a[i]), bb+float64(b[i])*float64(b[i])
	}
	return ab / math.Sqrt(aa*bb)
}

// A byte for each number keeps the cosine of two vectors to a hundredth, whatever their length.
func TestVectorsInBytesKeepTheirAngles(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, dimensions := range []int{1, 3, 64, 1536, 4096} {
		for range 20 {
			a, b := randomVector(r, dimensions), randomVector(r, dimensions)
			for i := range b {
				b[i] = 1000*b[i] + 500*a[i]
			}
			qa, qb := vectorOf(a), vectorOf(b)
			got := float64(product(qa.values, qb.values)) * float64(qa.scale) * float64(qb.scale)
			if want := cosine(a, b); math.Abs(got-want) > 0.01 {
				t.Errorf("%d dimensions: cosine %v, want %v", dimensions, got, want)
			}
		}
	}
	for name, v := range map[string][]float32{"of zeros": make([]float32, 8), "too long for a number": {math.MaxFloat32, math.MaxFloat32}} {
		q := vectorOf(v)
		if p := float64(product(q.values, q.values)) * float64(q.scale) * float64(q.scale); math.IsNaN(p) || p > 1.01 {
			t.Errorf("a vector %s has the product %v with itself", name, p)
		}
	}
}

// After any puts and drops the nearest of a table are those of a plain search.
func TestNearestIsThatOfAPlainSearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		table, plain := newVectorTable(8), map[string]vector{}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			id := fmt.Sprint("m", r.IntN(20))
			switch r.IntN(4) {
			case 0:
				table.drop(id)
				delete(plain, id)
			case 1: // of another model
				table.put(id, vectorOf(randomVector(r, 4)))
				delete(plain, id)
			default:
				v := vectorOf(randomVector(r, 8))
				table.put(id, v)
				plain[id] = v
			}
		}
		q, n := vectorOf(randomVector(r, 8)), rapid.IntRange(1, 25).Draw(t, "n")
		least := float32(rapid.Float64Range(-1, 0.5).Draw(t, "least"))
		var want []candidate
		for id, v := range plain {
			if c := float32(product(q.values, v.values)) * q.scale * v.scale; c >= least {
				want = append(want, candidate{id, float64(c)})
			}
		}
		slices.SortFunc(want, func(a, b candidate) int { return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.id, b.id)) })
		want = want[:min(n, len(want))]
		if got := table.nearest(q, n, least); !slices.Equal(got, want) {
			t.Fatalf("nearest %v, want %v", got, want)
		}
	})
}

func FuzzDecodeVector(f *testing.F) {
	of := fingerprintOf("a")
	f.Add(encodeVector(of, "text", vectorOf([]float32{1, -2, 3})))
	f.Add([]byte{1})
	f.Add(encodeVector(fingerprintOf("b"), "text", vectorOf([]float32{1})))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, text, ok := decodeVector(b, of)
		if !ok {
			return
		}
		if again, text2, ok := decodeVector(append(append(append([]byte{vectorVersion}, of[:]...), text[:]...), encodeVector(of, "", v)[17:]...), of); !ok || text2 != text || !slices.Equal(again.values, v.values) {
			t.Fatalf("%x comes back as %v", b, again)
		}
		newVectorTable(len(v.values)).put("m", v)
	})
}

// BenchmarkNearest compares 100,000 vectors with one, beside a plain loop over the products of
// the same vectors as float32.
func BenchmarkNearest(b *testing.B) {
	for _, dimensions := range []int{256, 768, 1536} {
		r := rand.New(rand.NewPCG(1, 2))
		table, floats := newVectorTable(dimensions), make([]float32, 0, MaxMemories*dimensions)
		for i := range MaxMemories {
			v := randomVector(r, dimensions)
			table.put(fmt.Sprintf("%032d", i), vectorOf(v))
			floats = append(floats, v...)
		}
		query := randomVector(r, dimensions)
		q := vectorOf(query)
		b.Run(fmt.Sprintf("dimensions=%d/table", dimensions), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if got := table.nearest(q, fusionDepth, -1); len(got) != fusionDepth {
					b.Fatal(len(got))
				}
			}
			b.ReportMetric(float64(table.bytes())/(1<<20), "MiB")
		})
		b.Run(fmt.Sprintf("dimensions=%d/plain", dimensions), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				best := float32(0)
				for i := range MaxMemories {
					var sum float32
					for j, x := range floats[i*dimensions : (i+1)*dimensions] {
						sum += x * query[j]
					}
					best = max(best, sum)
				}
				if best == 0 {
					b.Fatal(best)
				}
			}
			b.ReportMetric(float64(len(floats))*4/(1<<20), "MiB")
		})
	}
}

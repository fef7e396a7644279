package tokens_test

import (
	"context"
	"fmt"
	"go/build"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/tokens"
	"github.com/pkoukk/tiktoken-go"
	loader "github.com/pkoukk/tiktoken-go-loader"
)

// BenchmarkTokens compares Count with tiktoken-go on mixed text and on a
// message, and shows Count on texts that take tiktoken-go seconds to minutes.
func BenchmarkTokens(b *testing.B) {
	mixed := mixedText(b, 1<<20)
	for _, name := range []string{tokens.O200kBase, tokens.Cl100kBase} {
		b.Run(name, func(b *testing.B) {
			b.Run("mixed", func(b *testing.B) { benchmarkBoth(b, name, mixed) })
			b.Run("message", func(b *testing.B) { benchmarkBoth(b, name, mixed[:400]) })
			e := encoding(b, name)
			b.Run("prose", func(b *testing.B) { benchmarkCount(b, e, mixed[:200_000]) })
			for _, row := range hostileTexts(200_000) {
				b.Run(row.name, func(b *testing.B) { benchmarkCount(b, e, row.text) })
			}
		})
	}
}

func benchmarkBoth(b *testing.B, name, text string) {
	e, o := encoding(b, name), oracle(b, name)
	if got, want := e.Count(text), len(o.EncodeOrdinary(text)); got != want {
		b.Fatalf("%s: Count = %d, want %d", name, got, want)
	}
	b.Run("ours", func(b *testing.B) { benchmarkCount(b, e, text) })
	b.Run("tiktoken-go", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		for b.Loop() {
			o.EncodeOrdinary(text)
		}
	})
}

func benchmarkCount(b *testing.B, e *tokens.Encoding, text string) {
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	e.Count(text) // makes the working memory
	for b.Loop() {
		e.Count(text)
	}
}

// mixedText is n bytes, half of them English and half of them program: the
// comments of Go's standard library and the rest of it.
func mixedText(b *testing.B, n int) string {
	b.Helper()
	var english, program strings.Builder
	for _, dir := range []string{"net/http", "go/types", "runtime", "crypto/tls", "encoding/json"} {
		files, err := filepath.Glob(filepath.Join(build.Default.GOROOT, "src", dir, "*.go"))
		if err != nil || len(files) == 0 {
			b.Skipf("no sources of %s in GOROOT %q", dir, build.Default.GOROOT)
		}
		for _, file := range files {
			splitComments(b, file, &english, &program)
		}
	}
	if english.Len() < n/2 || program.Len() < n/2 {
		b.Fatalf("%d bytes of English and %d of program, want %d", english.Len(), program.Len(), n/2)
	}
	return english.String()[:n/2] + program.String()[:n/2]
}

// splitComments adds the lines of a file that are comments to english,
// without their marks, and the others to program.
func splitComments(b *testing.B, file string, english, program *strings.Builder) {
	b.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "// "); ok {
			english.WriteString(text + "\n")
		} else {
			program.WriteString(line)
		}
	}
}

// A hostileText makes a careless tokenizer quadratic.
type hostileText struct{ name, text string }

func hostileTexts(n int) []hostileText {
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(set string) string {
		runes := []rune(set)
		var text strings.Builder
		for text.Len() < n {
			text.WriteRune(runes[random.IntN(len(runes))])
		}
		return text.String()[:n]
	}
	bytes := make([]byte, n)
	for i := range bytes {
		bytes[i] = byte(random.Uint32())
	}
	return []hostileText{
		{"one-letter", strings.Repeat("a", n)},
		{"spaces", strings.Repeat(" ", n)},
		{"newlines", strings.Repeat("\n", n)},
		{"digits", strings.Repeat("7", n)},
		{"dashes", strings.Repeat("-", n)},
		{"emoji", strings.Repeat("😀", n/4)},
		{"joiners", strings.Repeat("\u200d", n/3)},
		{"marks", strings.Repeat("\u0301", n/2)},
		{"invalid", strings.Repeat("\xff", n)},
		{"random-letters", pick("abcdefghijklmnopqrstuvwxyz")},
		{"random-han", pick("的一是不了人我在有他这为之大来以个中上们到说国和地也子时道出而要于就下得可你年生")},
		{"random-symbols", pick("-=+*/#!.,;:_<>")},
		{"random-bytes", string(bytes)},
	}
}

// BenchmarkLoad loads a vocabulary, and shows the memory that stays.
func BenchmarkLoad(b *testing.B) {
	for _, name := range vocabularies {
		b.Run(name+"/ours", func(b *testing.B) {
			benchmarkLoad(b, func() any {
				c, err := tokens.New(nil)
				if err != nil {
					b.Fatal(err)
				}
				e, err := c.Encoding(name)
				if err != nil {
					b.Fatal(err)
				}
				return e
			})
		})
		b.Run(name+"/tiktoken-go", func(b *testing.B) {
			benchmarkLoad(b, func() any {
				ranks, err := loader.NewOfflineLoader().LoadTiktokenBpe(name + ".tiktoken")
				if err != nil {
					b.Fatal(err)
				}
				core, err := tiktoken.NewCoreBPE(ranks, map[string]int{tiktoken.ENDOFTEXT: len(ranks) + 1}, ".")
				if err != nil {
					b.Fatal(err)
				}
				return core
			})
		})
	}
}

func benchmarkLoad(b *testing.B, load func() any) {
	before := liveHeap()
	kept := load()
	heap := liveHeap() - before
	for b.Loop() {
		load()
	}
	b.ReportMetric(float64(heap)/(1<<20), "heap-MiB")
	runtime.KeepAlive(kept)
}

func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkRemembered finds a count again, by the text and by a key.
func BenchmarkRemembered(b *testing.B) {
	c, err := tokens.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	mixed := mixedText(b, 1<<20)
	for _, n := range []int{128, 400, 4000, 40_000} {
		text := mixed[:n]
		key := tokens.KeyOf("", text)
		for _, row := range []struct {
			name  string
			count func() (int, error)
		}{
			{"counted", func() (int, error) { return encoding(b, tokens.O200kBase).Count(text), nil }},
			{"by-text", func() (int, error) { return c.Count(context.Background(), tokens.O200kBase, text) }},
			{"by-key", func() (int, error) {
				return c.CountAs(context.Background(), tokens.O200kBase, key, func() string { return text })
			}},
		} {
			b.Run(fmt.Sprintf("%d/%s", n, row.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := row.count(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

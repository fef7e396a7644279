// Inside the package, because a merge on a small vocabulary of its own, the
// shape of the real vocabularies and the amount of work cannot be seen from
// outside.

package tokens

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pkoukk/tiktoken-go-loader/assets"
	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/internal/longtest"
)

// internalEncoding loads an encoding into a Counter of the test's own.
func internalEncoding(tb testing.TB, name string) *Encoding {
	tb.Helper()
	c, err := New(nil)
	if err != nil {
		tb.Fatalf("New(nil): %v", err)
	}
	e, err := c.Encoding(name)
	if err != nil {
		tb.Fatalf("Encoding(%q): %v", name, err)
	}
	return e
}

// ownVocabulary lists the encodings that do not share another's vocabulary.
func ownVocabulary() []encodingSpec {
	return slices.DeleteFunc(encodingSpecs(), func(s encodingSpec) bool { return s.name == GPT2 })
}

// TestVocabulariesAreWhole checks that each token is found and that the tables
// have the size they should, so that nothing goes unnoticed when the module
// with the vocabularies changes.
func TestVocabulariesAreWhole(t *testing.T) {
	t.Parallel()
	for _, spec := range ownVocabulary() {
		t.Run(spec.name, func(t *testing.T) {
			t.Parallel()
			table := unpackTable(spec.table)
			list := vocabulary(t, spec.name+".tiktoken")
			for _, token := range list {
				if table.rank(table.find(token)) == 0 {
					t.Errorf("%s: token %q is not found", spec.name, token)
				}
			}
			if got, want := len(list), vocabularySizes[spec.name]; got != want {
				t.Errorf("%s has %d tokens, want %d", spec.name, got, want)
			}
		})
	}
}

// vocabularySizes are the numbers of tokens without the special ones.
var vocabularySizes = map[string]int{O200kBase: 199_998, Cl100kBase: 100_256, P50kBase: 50_280, R50kBase: 50_256}

// vocabulary lists the tokens of a file.
func vocabulary(t *testing.T, file string) []string {
	t.Helper()
	data, err := assets.Assets.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	var buf [maxTokenBytes + 2]byte
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		token, _, err := parseLine(buf[:], lines.Bytes())
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		list = append(list, string(token))
	}
	return list
}

// textbook merges as the definition says: it joins the neighbours of the
// lowest rank, leftmost first, until none may be joined.
func textbook(t *table, piece string) []string {
	parts := make([]string, len(piece))
	for i := range parts {
		parts[i] = piece[i : i+1]
	}
	for {
		best, at := uint32(math.MaxUint32), -1
		for i := range len(parts) - 1 {
			if rank := t.rank(t.find(parts[i] + parts[i+1])); rank != 0 && rank < best {
				best, at = rank, i
			}
		}
		if at < 0 {
			return parts
		}
		parts[at] += parts[at+1]
		parts = slices.Delete(parts, at+1, at+2)
	}
}

// compareWithTextbook reports where a window differs from the textbook.
func compareWithTextbook(t rapid.TB, table *table, piece string) {
	t.Helper()
	want := textbook(table, piece)
	var w window
	w.merge(table, piece)
	var got []string
	rest := piece
	for _, p := range w.parts {
		if table.find(rest[:p.size]) != p.at {
			t.Fatalf("merge of %q: part %d is not the token of its bytes", piece, len(got))
		}
		got = append(got, rest[:p.size])
		rest = rest[p.size:]
	}
	if !slices.Equal(got, want) {
		t.Fatalf("merge of %q is %q, want %q", piece, got, want)
	}
}

// compareWithOneWindow reports where merging window by window differs from
// merging all in one.
func compareWithOneWindow(t rapid.TB, table *table, piece string) {
	t.Helper()
	m := merger{table: table}
	var w window
	w.merge(table, piece)
	if got := m.merge(piece); !slices.Equal(got, w.parts) {
		t.Fatalf("merge of %q by windows is %v, want %v", piece, got, w.parts)
	}
}

// TestMergesLikeTheTextbook uses vocabularies of a few dozen tokens over two
// or three letters, in which a token far off often decides what becomes of a
// letter.
func TestMergesLikeTheTextbook(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		alphabet := rapid.SampledFrom([]string{"ab", "abc"}).Draw(t, "alphabet")
		seed := rapid.Uint64().Draw(t, "seed")
		random := rand.New(rand.NewPCG(seed, 0))
		table := smallTable(t, random, alphabet)
		letter := func() byte { return alphabet[random.IntN(len(alphabet))] }
		for range longtest.Alone(1, 10) {
			compareWithTextbook(t, table, randomText(1+random.IntN(60), letter))
			compareWithOneWindow(t, table, randomText(1+random.IntN(2000), letter))
			compareWithOneWindow(t, table, strings.Repeat(randomText(1+random.IntN(7), letter), 1+random.IntN(300)))
		}
	})
}

// smallTable makes a vocabulary of all bytes and some random tokens.
func smallTable(t rapid.TB, random *rand.Rand, alphabet string) *table {
	t.Helper()
	tokens := strings.Split(alphabet, "")
	table := tableOf(t, tokens[:0])
	var merged []string
	for range 10 + random.IntN(40) {
		token := tokens[random.IntN(len(tokens))] + tokens[random.IntN(len(tokens))]
		if slices.Contains(tokens, token) || len(token) > 20 || len(textbook(table, token)) != 2 {
			continue // such a token no training would find
		}
		tokens, merged = append(tokens, token), append(merged, token)
		table = tableOf(t, merged)
	}
	return table
}

// tableOf reads a vocabulary of all bytes and, above them, the given tokens.
func tableOf(t rapid.TB, merged []string) *table {
	t.Helper()
	var text strings.Builder
	nodes := 0
	for b := range 256 {
		fmt.Fprintf(&text, "%s %d\n", base64.StdEncoding.EncodeToString([]byte{byte(b)}), b)
	}
	for i, token := range merged {
		fmt.Fprintf(&text, "%s %d\n", base64.StdEncoding.EncodeToString([]byte(token)), 256+i)
		nodes += len(token)
	}
	built, err := buildTable(strings.NewReader(text.String()), nodes)
	if err != nil {
		t.Fatalf("buildTable of %q: %v", merged, err)
	}
	return unpackTable(built.pack())
}

func TestMergesRealVocabulariesLikeTheTextbook(t *testing.T) {
	t.Parallel()
	for _, spec := range ownVocabulary() {
		t.Run(spec.name, func(t *testing.T) {
			t.Parallel()
			table := internalEncoding(t, spec.name).table
			rapid.Check(t, func(t *rapid.T) {
				compareWithTextbook(t, table, rapid.StringN(1, 60, 200).Draw(t, "text"))
				random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
				few := rapid.SliceOfNDistinct(rapid.SampledFrom([]byte("aestr -=/\n\xe4\xb8\x80")), 1, 5, rapid.ID).Draw(t, "few")
				letter := func() byte { return few[random.IntN(len(few))] }
				compareWithTextbook(t, table, randomText(1+random.IntN(60), letter))
				compareWithOneWindow(t, table, randomText(1+random.IntN(2000), letter))
				run := strings.Repeat(string(letter()), 1+random.IntN(300))
				compareWithOneWindow(t, table, strings.Repeat(run+randomText(random.IntN(9), letter), 1+random.IntN(9)))
			})
		})
	}
}

// hostile are texts that make a merge or an expression engine go quadratic,
// and prose to compare them with. Each repeats its row.
var hostile = []struct{ name, unit string }{
	{"prose", "The host counts what a message costs, before it is sent. It's quick! "},
	{"one letter", "a"},
	{"one capital", "A"},
	{"two letters", "ab"},
	{"letters out of step", "aab"},
	{"a long word", "qwertyuiopasdfghjklzxcvbnm"},
	{"spaces", " "},
	{"a space and a tab", " \t"},
	{"newlines", "\n"},
	{"newline and spaces", "\n    "},
	{"digits", "7"},
	{"dashes", "-"},
	{"slashes", "/"},
	{"apostrophes", "'"},
	{"contractions", "'s"},
	{"Han", "的一是不了人我在有他这中大来上国"},
	{"one Han character", "龘"},
	{"Thai without spaces", "ภาษาไทยเป็นภาษาที่"},
	{"emoji", "😀"},
	{"family", "👩\u200d👧"},
	{"joiners", "\u200d"},
	{"combining marks", "\u0301"},
	{"marks and capitals", "\u0301A"},
	{"unassigned", "\u0378"},
	{"invalid", "\xff"},
	{"cut short", "\xe4\xb8"},
	{"zero", "\x00"},
}

// maxWorkPerByte bounds the bytes, characters and tree nodes that a splitter
// and a merger look at for each byte of text. Prose takes 10, random letters
// 32. Among 350,000 texts made to be hard (each token of the vocabularies
// repeated, tokens cut up, long ones mixed with short ones) the worst took 63.
const maxWorkPerByte = 80

func TestWorkIsLinear(t *testing.T) {
	t.Parallel()
	const size = 20_000
	for _, spec := range ownVocabulary() {
		e := internalEncoding(t, spec.name)
		name := spec.name
		for _, row := range hostile[:longtest.Alone(5, len(hostile))] {
			once := checkWork(t, e, row.name, strings.Repeat(row.unit, size/len(row.unit)))
			twice := checkWork(t, e, row.name, strings.Repeat(row.unit, 2*size/len(row.unit)))
			if float64(twice) > 2.1*float64(once) {
				t.Errorf("%s: %s: %d steps for %d bytes, but %d for twice as many", name, row.name, once, size, twice)
			}
		}
		random := rand.New(rand.NewPCG(1, 2))
		checkWork(t, e, "random bytes", randomText(size, func() byte { return byte(random.Uint32()) }))
		checkWork(t, e, "random letters", randomText(size, func() byte { return 'a' + byte(random.IntN(26)) }))
		checkWork(t, e, "random symbols", randomText(size, func() byte { return "-=*/#!.,:_"[random.IntN(10)] }))
	}
}

// TestWorkOnTokensOutOfPlace repeats what looks most like tokens and is not:
// tokens, pieces of them, and mixtures.
func TestWorkOnTokensOutOfPlace(t *testing.T) {
	t.Parallel()
	for _, spec := range ownVocabulary() {
		e := internalEncoding(t, spec.name)
		list := vocabulary(t, spec.name+".tiktoken")
		long := slices.DeleteFunc(slices.Clone(list), func(s string) bool { return len(s) < 30 })
		random := rand.New(rand.NewPCG(3, 4))
		for range longtest.Alone(6, 60) {
			token, other := list[random.IntN(len(list))], list[random.IntN(len(list))]
			run := long[random.IntN(len(long))]
			checkWork(t, e, "token repeated", strings.Repeat(token, 3000/len(token)))
			checkWork(t, e, "run and token repeated", strings.Repeat(run+other, 3000/len(run+other)))
			checkWork(t, e, "cuts of a run", cutsOf(random, run))
		}
	}
}

// cutsOf is 3000 bytes of beginnings of s.
func cutsOf(random *rand.Rand, s string) string {
	var b strings.Builder
	for b.Len() < 3000 {
		b.WriteString(s[:1+random.IntN(len(s))])
	}
	return b.String()
}

// checkWork reports a text that takes too many steps, and returns the steps.
func checkWork(t *testing.T, e *Encoding, name, text string) int {
	t.Helper()
	n := work(e, text)
	if n > maxWorkPerByte*len(text) {
		t.Errorf("%s: %s: %d steps for %d bytes (%.20q...), want at most %d a byte", e.Name(), name, n, len(text), text, maxWorkPerByte)
	}
	return n
}

// work is the steps of the splitter and the merger for a text. It merges
// pieces that are tokens too, so that no text comes off too lightly.
func work(e *Encoding, text string) int {
	s := e.scratch()
	text = s.open(text)
	before := s.splitter.steps + s.window.steps
	for i := 0; i < len(text); {
		end := e.pattern(&s.splitter, i)
		s.merge(text[i:end])
		i = end
	}
	n := s.splitter.steps + s.window.steps - before
	e.release(s)
	return n
}

func randomText(n int, next func() byte) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = next()
	}
	return string(b)
}

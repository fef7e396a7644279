package tokens_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/agenthost/agenthost/host/tokens"
	"github.com/agenthost/agenthost/internal/longtest"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite the token ids in testdata from tiktoken-go")

const goldenFile = "testdata/golden.jsonl"

// maxOracleBytes bounds what tiktoken-go is asked, as its time grows with the
// square of a piece.
const maxOracleBytes = 2000

// A golden is a text and its token ids by vocabulary.
type golden struct {
	Text string           `json:"text"`
	IDs  map[string][]int `json:"ids"`
}

func TestCountsGoldenTexts(t *testing.T) {
	t.Parallel()
	rows := readGolden(t)
	if *update {
		writeGolden(t, rows)
	}
	for _, name := range vocabularies {
		e := encoding(t, name)
		for _, row := range rows {
			if got := e.Append(nil, row.Text); !slices.Equal(got, row.IDs[name]) {
				t.Errorf("%s: Append(nil, %q) = %v, want %v", name, row.Text, got, row.IDs[name])
			}
			if got, want := e.Count(row.Text), len(row.IDs[name]); got != want {
				t.Errorf("%s: Count(%q) = %d, want %d", name, row.Text, got, want)
			}
			if got, want := e.CountBytes([]byte(row.Text)), len(row.IDs[name]); got != want {
				t.Errorf("%s: CountBytes(%q) = %d, want %d", name, row.Text, got, want)
			}
		}
	}
}

func readGolden(t *testing.T) []golden {
	t.Helper()
	data, err := os.ReadFile(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	var rows []golden
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		var row golden
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatalf("%s: line %d: %v", goldenFile, len(rows)+1, err)
		}
		rows = append(rows, row)
	}
	if len(rows) < 500 {
		t.Fatalf("%s has %d texts, want at least 500", goldenFile, len(rows))
	}
	return rows
}

// writeGolden fills in the ids of rows and writes them back.
func writeGolden(t *testing.T, rows []golden) {
	t.Helper()
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	for i := range rows {
		rows[i].IDs = map[string][]int{}
		for _, name := range vocabularies {
			rows[i].IDs[name] = oracle(t, name).EncodeOrdinary(rows[i].Text)
		}
		if err := enc.Encode(rows[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(goldenFile, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// ingredients are what random texts are made of: each kind of character that
// the patterns know, and what sits at their seams.
var ingredients = []string{
	"a", "e", "s", "t", "z", "S", "T", "A", "Z", "é", "É", "ß", "я", "Я", "ǅ", "ʰ", "ª", "中", "文", "の", "한", "ش", "𠀀", "𝐀", "𐐨", "ꭰ",
	"\u0301", "\u064b", "\u20dd", "\ufe0f", "\U000e0100",
	"1", "9", "٣", "Ⅷ", "½", "𝟘",
	" ", " ", "\t", "\n", "\n", "\r", "\r\n", "\u00a0", "\u2003", "\u2028", "\u3000", "\u0085", "\v",
	".", "!", "/", "_", "-", "=", "\"", "(", "’", "…", "😀", "👩", "\u200d", "\u200b", "\u00ad", "\ufffd", "\u0378", "\U0010ffff", "\x00",
	"'", "'", "'s", "'S", "'ll", "'LL", "'re", "'ſ", "'t",
	"the", " the", "Hello", "WORLD", "return", "    ", "\n\n", "<|endoftext|>", "://", "==", "abcabc", "aaaa",
	"\xff", "\xed\xa0\x80", "\xe4\xb8", "\xc3",
}

func TestCountsRandomTexts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(ingredients), 0, 40).Draw(t, "text"), "")
		for _, name := range vocabularies {
			compare(t, encoding(t, name), name, text)
		}
	})
}

func TestCountsLongPieces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "e", "t", "s", "b", "xy", "中", "的", "й", "é"}), 1, 3, rapid.ID).Draw(t, "letters")
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(letters), 1, 300).Draw(t, "text"), "")
		for _, name := range vocabularies {
			compare(t, encoding(t, name), name, text)
		}
	})
}

// TestCountsCharactersOfAllPlanes asks for characters alone and in company,
// so that each has the class it has in tiktoken-go: all of the first blocks
// and a sample of the rest.
func TestCountsCharactersOfAllPlanes(t *testing.T) {
	t.Parallel()
	const chunk = 50
	dense, stride := rune(longtest.Alone(0x100, 0x600)), rune(longtest.Alone(2111, 211))
	var text strings.Builder
	n := 0
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if r >= dense && r%stride != 0 {
			continue
		}
		text.WriteString("A" + string(r) + "a" + string(r) + "B " + string(r) + " 1")
		if n++; n%chunk == 0 {
			for _, name := range vocabularies {
				compare(t, encoding(t, name), name, text.String())
			}
			text.Reset()
		}
	}
}

func FuzzCount(f *testing.F) {
	for _, s := range ingredients {
		f.Add(s)
	}
	f.Add("\n\t\n")
	f.Add("  \r\n x")
	f.Add("It's 12345 naïve ÀÉ's中文X \u0301AB'LL//\n/ <|endoftext|>")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > maxOracleBytes {
			t.Skip()
		}
		for _, name := range vocabularies {
			compare(t, encoding(t, name), name, text)
		}
	})
}

// compare reports where e differs from tiktoken-go.
func compare(t rapid.TB, e *tokens.Encoding, name, text string) {
	t.Helper()
	want := oracle(t, name).EncodeOrdinary(text)
	if got := e.Append(nil, text); !slices.Equal(got, want) {
		t.Fatalf("%s: Append(nil, %q) = %v, want %v", name, text, got, want)
	}
	if got := e.Count(text); got != len(want) {
		t.Fatalf("%s: Count(%q) = %d, want %d", name, text, got, len(want))
	}
}

package tokens_test

import (
	"math"
	"testing"
	"unicode/utf16"

	"github.com/agenthost/agenthost/host/tokens"
	"pgregory.net/rapid"
)

// unitsPerToken are the divisors as the documentation gives them.
var unitsPerToken = map[string]float64{
	tokens.O200kBase: 4.2, tokens.Cl100kBase: 4.0, tokens.P50kBase: 3.8, tokens.R50kBase: 3.5, tokens.GPT2: 3.2,
}

func TestApproximate(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		encoding    string
		units, want int
	}{
		{tokens.O200kBase, 42, 10}, {tokens.Cl100kBase, 42, 11}, {tokens.P50kBase, 42, 12}, {tokens.R50kBase, 42, 12}, {tokens.GPT2, 42, 14},
		{tokens.O200kBase, 0, 0}, {tokens.GPT2, 0, 0}, {tokens.O200kBase, -5, 0},
		{tokens.O200kBase, 1, 1}, {tokens.O200kBase, 43, 11}, {tokens.GPT2, 16, 5}, {tokens.GPT2, 17, 6},
		{"", 42, 10}, {"unheard of", 42, 10},
	} {
		if got := tokens.Approximate(row.encoding, row.units); got != row.want {
			t.Errorf("Approximate(%q, %d) = %d, want %d", row.encoding, row.units, got, row.want)
		}
	}
}

func TestApproximateIsTheQuotientRoundedUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(tokens.EncodingNames()).Draw(t, "encoding")
		units := rapid.IntRange(0, 1<<40).Draw(t, "units")
		want := int(math.Ceil(float64(units) / unitsPerToken[name]))
		if got := tokens.Approximate(name, units); got != want {
			t.Fatalf("Approximate(%q, %d) = %d, want %d", name, units, got, want)
		}
	})
}

func TestUTF16Len(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"": 0, "abc": 3, "é中": 2, "😀": 2, "👩\u200d👧": 5, "\xff\xfe": 2, "\uffff": 1, "\U00010000": 2} {
		if got := tokens.UTF16Len(text); got != want {
			t.Errorf("UTF16Len(%q) = %d, want %d", text, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) + rapid.String().Draw(t, "text")
		if got, want := tokens.UTF16Len(text), len(utf16.Encode([]rune(text))); got != want {
			t.Fatalf("UTF16Len(%q) = %d, want %d", text, got, want)
		}
	})
}

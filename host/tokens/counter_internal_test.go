// Inside the package, because how many counts are remembered, and which,
// cannot be seen from outside.

package tokens

import (
	"context"
	"fmt"
	"testing"
)

// perByte is a tokenizer that counts the texts that it is asked for.
type perByte struct{ asked int }

func (p *perByte) CountTokens(_ context.Context, text string) (int, error) {
	p.asked++
	return len(text), nil
}

func countOf(t *testing.T, c *Counter, text string) {
	t.Helper()
	if n, err := c.Count(context.Background(), "bytes", text); n != len(text) || err != nil {
		t.Fatalf("Count(%q) = %d, %v, want %d", text, n, err, len(text))
	}
}

func TestRememberedCountsAreBounded(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 2, 3, 10, 1023, 1024, 2000} {
		c, err := New(&Options{CacheEntries: limit, Tokenizers: map[string]Tokenizer{"bytes": &perByte{}}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 * limit {
			countOf(t, c, fmt.Sprint(i))
			countOf(t, c, fmt.Sprint(i/2))
		}
		if got := c.cache.Len(); got != limit {
			t.Errorf("a counter for %d counts remembers %d", limit, got)
		}
	}
}

func TestCounterRemembersWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	tokenizer := &perByte{}
	c, err := New(&Options{CacheEntries: 10, Tokenizers: map[string]Tokenizer{"bytes": tokenizer, "other": tokenizer}})
	if err != nil {
		t.Fatal(err)
	}
	countOf(t, c, "kept")
	for i := range 98 {
		countOf(t, c, fmt.Sprint(i))
		asked := tokenizer.asked
		if countOf(t, c, "kept"); tokenizer.asked != asked {
			t.Fatalf("after %d others, the text is counted again", i+1)
		}
	}
	asked := tokenizer.asked
	if countOf(t, c, "0"); tokenizer.asked != asked+1 {
		t.Error("a text that was not asked for for 97 others is still remembered")
	}
	if _, err := c.Count(context.Background(), "other", "kept"); err != nil || tokenizer.asked != asked+2 {
		t.Errorf("another tokenizer has the same entry, %v", err)
	}
}

package tokens_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/agenthost/agenthost/host/tokens"
)

// words is a tokenizer that counts words and how often it is asked.
type words struct {
	mu      sync.Mutex
	asked   int
	answer  int // added to the words
	err     error
	version string
}

func (w *words) CountTokens(_ context.Context, text string) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	return len(strings.Fields(text)) + w.answer, w.err
}

// A versionedWords can be replaced.
type versionedWords struct{ words }

func (w *versionedWords) Version() string { return w.version }

var (
	_ tokens.Tokenizer          = (*words)(nil)
	_ tokens.VersionedTokenizer = (*versionedWords)(nil)
)

func newCounter(t *testing.T, opts *tokens.Options) *tokens.Counter {
	t.Helper()
	c, err := tokens.New(opts)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return c
}

// mustCount counts what cannot fail.
func mustCount(t *testing.T, c *tokens.Counter, tokenizer, text string) int {
	t.Helper()
	n, err := c.Count(t.Context(), tokenizer, text)
	if err != nil {
		t.Fatalf("Count(%q, %q): %v", tokenizer, text, err)
	}
	return n
}

func TestEncodingByName(t *testing.T) {
	t.Parallel()
	c, err := sharedCounter()
	if err != nil {
		t.Fatal(err)
	}
	const text = "naïve 12345 getElementById"
	for _, row := range []struct {
		asked, name string
		want        int
	}{
		{"", "o200k_base", 10},
		{"o200k_base", "o200k_base", 10},
		{"cl100k_base", "cl100k_base", 8},
		{"p50k_base", "p50k_base", 7},
		{"r50k_base", "r50k_base", 7},
		{"gpt2", "gpt2", 7},
	} {
		e, err := c.Encoding(row.asked)
		if err != nil {
			t.Errorf("Encoding(%q): %v", row.asked, err)
			continue
		}
		if e.Name() != row.name {
			t.Errorf("Encoding(%q).Name() = %q, want %q", row.asked, e.Name(), row.name)
		}
		if got := e.Count(text); got != row.want {
			t.Errorf("Encoding(%q).Count(%q) = %d, want %d", row.asked, text, got, row.want)
		}
		if again, _ := c.Encoding(row.asked); again != e {
			t.Errorf("Encoding(%q) is another one the second time", row.asked)
		}
	}
}

func TestUnknownNamesListTheKnownOnes(t *testing.T) {
	t.Parallel()
	c := newCounter(t, &tokens.Options{Tokenizers: map[string]tokens.Tokenizer{"words": &words{}}})
	_, err := c.Encoding("o300k_base")
	want := `encoding "o300k_base": unknown name, known are o200k_base, cl100k_base, p50k_base, r50k_base, gpt2`
	if !errors.Is(err, tokens.ErrUnknown) || err.Error() != want {
		t.Errorf("Encoding(o300k_base): %v, want %s", err, want)
	}
	_, err = c.Count(t.Context(), "sentences", "a b")
	want = `tokenizer "sentences": unknown name, known are o200k_base, cl100k_base, p50k_base, r50k_base, gpt2, words`
	if !errors.Is(err, tokens.ErrUnknown) || err.Error() != want {
		t.Errorf("Count(sentences): %v, want %s", err, want)
	}
	if _, err = c.Encoding("words"); !errors.Is(err, tokens.ErrUnknown) {
		t.Errorf("Encoding(words) of a custom tokenizer: %v, want ErrUnknown", err)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name       string
		tokenizers map[string]tokens.Tokenizer
		want       string
	}{
		{"no name", map[string]tokens.Tokenizer{"": &words{}}, "it has no name"},
		{"nil", map[string]tokens.Tokenizer{"words": nil}, `"words": it is nil`},
		{"the name of an encoding", map[string]tokens.Tokenizer{"gpt2": &words{}}, `"gpt2": an encoding has that name`},
	} {
		_, err := tokens.New(&tokens.Options{Tokenizers: row.tokenizers})
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("New with %s: %v, want %q", row.name, err, row.want)
		}
	}
}

func TestCustomTokenizer(t *testing.T) {
	t.Parallel()
	w := &words{}
	c := newCounter(t, &tokens.Options{Tokenizers: map[string]tokens.Tokenizer{"words": w}})
	for range 3 {
		if got := mustCount(t, c, "words", "one two three"); got != 3 {
			t.Errorf("Count(words) = %d, want 3", got)
		}
	}
	if w.asked != 1 {
		t.Errorf("the tokenizer was asked %d times, want 1", w.asked)
	}
	if got := mustCount(t, c, "words", "one two"); got != 2 {
		t.Errorf("Count(words) of another text = %d, want 2", got)
	}
	if got := c.Names(); !slices.Contains(got, "words") || got[0] != tokens.DefaultEncoding {
		t.Errorf("Names() = %v, want the default encoding first and words in it", got)
	}
	if got, err := c.Tokenizer("words"); err != nil || got != tokens.Tokenizer(w) {
		t.Errorf("Tokenizer(words) = %v, %v, want the one registered", got, err)
	}
}

func TestFailedCountsAreNotRemembered(t *testing.T) {
	t.Parallel()
	w := &words{err: errors.New("plugin is gone")}
	c := newCounter(t, &tokens.Options{Tokenizers: map[string]tokens.Tokenizer{"words": w}})
	_, err := c.Count(t.Context(), "words", "one two")
	if !errors.Is(err, w.err) || !strings.HasPrefix(err.Error(), `count tokens with "words": `) {
		t.Errorf("Count: %v, want the tokenizer's error and its name", err)
	}
	w.err, w.answer = nil, -3
	if _, err := c.Count(t.Context(), "words", "one two"); err == nil || !strings.Contains(err.Error(), "answers -1") {
		t.Errorf("Count of a tokenizer that answers -1: %v, want an error", err)
	}
	w.answer = 0
	if got := mustCount(t, c, "words", "one two"); got != 2 {
		t.Errorf("Count = %d, want 2", got)
	}
}

func TestCountsAreRememberedByVersion(t *testing.T) {
	t.Parallel()
	w := &versionedWords{words{version: "1"}}
	c := newCounter(t, &tokens.Options{Tokenizers: map[string]tokens.Tokenizer{"words": w}})
	mustCount(t, c, "words", "one two")
	w.version, w.answer = "2", 10
	if got := mustCount(t, c, "words", "one two"); got != 12 {
		t.Errorf("Count by version 2 = %d, want 12", got)
	}
	w.version, w.answer = "1", 99
	if got := mustCount(t, c, "words", "one two"); got != 2 {
		t.Errorf("Count by version 1 again = %d, want 2 as remembered", got)
	}
	if w.asked != 2 {
		t.Errorf("the tokenizer was asked %d times, want 2", w.asked)
	}
}

func TestCountAsAsksForTheTextOnce(t *testing.T) {
	t.Parallel()
	c := newCounter(t, nil)
	asked := 0
	text := func() string { asked++; return strings.Repeat("one two ", 100) }
	key := tokens.KeyOf("tenant", "message 7")
	for range 3 {
		// An empty name and that of the default encoding are one.
		for _, name := range []string{"", tokens.DefaultEncoding} {
			n, err := c.CountAs(t.Context(), name, key, text)
			if err != nil || n != 201 {
				t.Errorf("CountAs(%q) = %d, %v, want 201", name, n, err)
			}
		}
	}
	if asked != 1 {
		t.Errorf("the text was asked for %d times, want 1", asked)
	}
	if n, err := c.CountAs(t.Context(), tokens.R50kBase, key, text); err != nil || asked != 2 {
		t.Errorf("CountAs of another encoding = %d, %v after %d texts, want it counted anew", n, err, asked)
	}
}

func TestNothingIsRememberedIfToldSo(t *testing.T) {
	t.Parallel()
	w := &words{}
	c := newCounter(t, &tokens.Options{Tokenizers: map[string]tokens.Tokenizer{"words": w}, CacheEntries: -1})
	for range 3 {
		mustCount(t, c, "words", "one two")
		if _, err := c.CountAs(t.Context(), "words", tokens.Key{}, func() string { return "" }); err != nil {
			t.Error(err)
		}
	}
	if w.asked != 6 {
		t.Errorf("the tokenizer was asked %d times, want 6", w.asked)
	}
}

func TestKeysDiffer(t *testing.T) {
	t.Parallel()
	plain := tokens.KeyOf("", "text")
	keys := map[tokens.Key]string{
		plain:                                     "plain",
		tokens.KeyOf("", "text2"):                 "another text",
		tokens.KeyOf("a", "text"):                 "scope a",
		tokens.KeyOf("b", "text"):                 "scope b",
		tokens.KeyOf("at", "ext"):                 "scope runs into the text",
		tokens.KeyOf("", string(plain[:])+"a"):    "text made to be like scope a",
		tokens.KeyOf("", "a"+string(plain[:])):    "text made to be like scope a, backwards",
		tokens.KeyOf(strings.Repeat("a", 99), ""): "long scope",
	}
	if len(keys) != 8 {
		t.Errorf("8 different texts and scopes have %d keys: %v", len(keys), keys)
	}
	for _, scope := range []string{"", "a"} {
		if first, again := tokens.KeyOf(scope, "text"), tokens.KeyOf(scope, "te"+"xt"); first != again {
			t.Errorf("the same text in scope %q has two keys, %x and %x", scope, first, again)
		}
	}
}

// TestConcurrentUse loads, counts and remembers from many goroutines at once.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	c := newCounter(t, &tokens.Options{CacheEntries: 20})
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 30 {
				name := tokens.EncodingNames()[(i+j)%5]
				text := strings.Repeat("Count me, "+strings.Repeat("a", j*9)+fmt.Sprint(j), 5)
				want := encoding(t, name).Count(text)
				n, err := c.Count(t.Context(), name, text)
				if err != nil || n != want {
					t.Errorf("Count(%q, %q) = %d, %v, want %d", name, text, n, err, want)
				}
			}
		})
	}
	wg.Wait()
}

// paced is a context that counts how often it is asked, and ends at some time.
type paced struct {
	context.Context
	asked, ends int
}

var errEnough = errors.New("enough")

func (p *paced) Pace() error {
	if p.asked++; p.asked == p.ends {
		return errEnough
	}
	return nil
}

// A long text is counted as far as somebody waits for it, be it words or one piece.
func TestLongTextsAreCountedInPaces(t *testing.T) {
	c := newCounter(t, nil)
	for name, text := range map[string]string{
		"words": strings.Repeat("some words ", 20_000), "one piece": strings.Repeat("abcdefghij", 20_000),
		"pieces and words": strings.Repeat(strings.Repeat("xy", 10_000)+" a b c ", 10), "not UTF-8": strings.Repeat("abc\xff", 50_000),
	} {
		e, err := c.Encoding(tokens.O200kBase)
		if err != nil {
			t.Fatal(err)
		}
		p := &paced{Context: t.Context()}
		if n, err := e.CountTokens(p, text); err != nil || n != e.Count(text) {
			t.Errorf("%s: %d, %v, want the %d of Count", name, n, err, e.Count(text))
		}
		if least := len(text) / (32 << 10); p.asked < least {
			t.Errorf("%s: it asked %d times in %d bytes, want %d or more", name, p.asked, len(text), least)
		}
		if _, err := e.CountTokens(&paced{Context: t.Context(), ends: 2}, text); !errors.Is(err, errEnough) {
			t.Errorf("%s: %v, want that it ends at the second pace", name, err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errEnough)
		if _, err := c.Count(ctx, tokens.O200kBase, text+name); !errors.Is(err, errEnough) {
			t.Errorf("%s: %v, want the cause of the context's end", name, err)
		}
	}
}

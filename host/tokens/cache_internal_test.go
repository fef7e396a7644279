// Inside the package, because how many counts are remembered, and which,
// cannot be seen from outside.

package tokens

import (
	"strings"
	"testing"
)

func cacheKeyOf(i int) cacheKey {
	return cacheKey{"t", KeyOf("", strings.Repeat("x", i))}
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 2, 3, 10, 1023, 1024, 2000} {
		c := newCache(limit)
		for i := range 3 * limit {
			c.put(cacheKeyOf(i), i)
			c.put(cacheKeyOf(i), i)
			c.get(cacheKeyOf(i / 2))
		}
		if got, most := c.len(), max(limit, 2); got > most || got < limit/4 {
			t.Errorf("cache of %d holds %d", limit, got)
		}
	}
}

func TestCacheKeepsWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	c := newCache(10)
	kept := cacheKeyOf(0)
	c.put(kept, 42)
	for i := 1; i < 100; i++ {
		c.put(cacheKeyOf(i), i)
		if n, ok := c.get(kept); !ok || n != 42 {
			t.Fatalf("after %d others, get = %d, %v, want 42", i, n, ok)
		}
	}
	if n, ok := c.get(cacheKeyOf(1)); ok {
		t.Errorf("what was not asked for for 98 entries is still there: %d", n)
	}
	if _, ok := c.get(cacheKey{"other", kept.text}); ok {
		t.Error("another tokenizer has the same entry")
	}
}

// TestWorkingMemoryIsBounded shows that the memory for an enormous text is
// not kept.
func TestWorkingMemoryIsBounded(t *testing.T) {
	t.Parallel()
	e := internalEncoding(t, R50kBase)
	s := e.scratch()
	text := s.open(strings.Repeat("\xff", maxIdleScratch/3+1))
	if got := len(text); got <= maxIdleScratch {
		t.Fatalf("the text has %d bytes, want more than %d", got, maxIdleScratch)
	}
	e.release(s)
	if e.idle.Get() != nil {
		t.Errorf("%d bytes of working memory are kept, want at most %d", s.size(), maxIdleScratch)
	}
}

// Inside the package, because the memory of a count cannot be seen from outside.

package tokens

import (
	"strings"
	"testing"
)

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

//go:build !race

package tokens_test

import (
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/tokens"
)

// TestCountingDoesNotAllocate is left out under the race detector, where
// sync.Pool drops what it is given at random.
func TestCountingDoesNotAllocate(t *testing.T) {
	c := newCounter(t, nil)
	e := encoding(t, tokens.O200kBase)
	long := strings.Repeat("It's 12345 naïve déjà-vu getElementById 中文 \xff\n", 50)
	hostile := strings.Repeat("ab", 20_000)
	bytes := []byte(long)
	ids := make([]int, 0, 10_000)
	key := tokens.KeyOf("tenant", long)
	units := 0
	for _, row := range []struct {
		name string
		run  func()
	}{
		{"Count", func() { e.Count(long) }},
		{"Count of one long piece", func() { e.Count(hostile) }},
		{"CountBytes", func() { e.CountBytes(bytes) }},
		{"Append", func() { ids = e.Append(ids[:0], long) }},
		{"Counter.Count", func() { mustCount(t, c, tokens.O200kBase, long) }},
		{"KeyOf", func() { key = tokens.KeyOf("tenant", long) }},
		{"Counter.CountAs", func() {
			if _, err := c.CountAs(t.Context(), "", key, func() string { return long }); err != nil {
				t.Error(err)
			}
		}},
		{"UTF16Len", func() { units = tokens.UTF16Len(long) }},
	} {
		row.run()
		if got := testing.AllocsPerRun(100, row.run); got != 0 {
			t.Errorf("%s allocates %v times, want 0", row.name, got)
		}
	}
	if units == 0 {
		t.Error("UTF16Len of the text is 0")
	}
}

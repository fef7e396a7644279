package geminimodel

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/modelhttp"
)

// A chunk takes no more memory than a few times its length, whatever a server puts into
// its lists.
func TestListsWithoutEndTakeLittleMemory(t *testing.T) {
	const length = 4 << 20
	list := func(element string) string { return strings.Repeat(element+",", length/(len(element)+1)) + element }
	for name, row := range map[string]struct {
		chunk string
		long  bool
	}{
		"candidates": {`{"candidates":[` + list(`{}`) + `]}`, false},
		"parts":      {`{"candidates":[{"content":{"parts":[` + list(`0`) + `]}}]}`, true},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := new(answer).Add([]byte(row.chunk))
		runtime.ReadMemStats(&after)
		var long *modelhttp.TooLong
		if got := errors.As(err, &long); got != row.long || !got && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 5*length {
			t.Errorf("%s: a chunk of %d bytes took %d", name, len(row.chunk), took)
		}
	}
}

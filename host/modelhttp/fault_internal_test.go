package modelhttp

import (
	"runtime"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
)

// An error object in a stream takes no more memory than a few times its length,
// whatever a server puts into its lists.
func TestAnErrorWithoutEndTakesLittleMemory(t *testing.T) {
	s, err := New("m", Protocol{BaseURL: "http://localhost"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	object := []byte(`{"code":429,"message":"slow down","details":[` + strings.Repeat("0,", 2<<20) + `0]}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f := s.WireFault(object)
	runtime.ReadMemStats(&after)
	if f.Err.Code != host.ResourceExhausted || !strings.Contains(f.Err.Message, "slow down") {
		t.Errorf("the fault is %v", f.Err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 8*uint64(len(object)) {
		t.Errorf("%d bytes took %d", len(object), took)
	}
}

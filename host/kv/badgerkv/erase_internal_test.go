package badgerkv

import (
	"testing"

	"github.com/agenthost/agenthost/host/kv"
)

// Two calls erase a partition at the same time: both have marked it, and the first ends
// before the second has its turn. The partition may be written to from then on.
func TestASecondErasureLeavesWhatWasWrittenAfterTheFirst(t *testing.T) {
	s := openBlobs(t, t.TempDir(), &Options{PurgeInterval: -1})
	apply(t, s, "acme", kv.Put("k", []byte("v")))
	if err := s.Erase(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	apply(t, s, "acme", kv.Put("k", []byte("w")), kv.Put("blob", large('w')))
	if err := s.erase(t.Context(), "acme"); err != nil { // as the second call goes on
		t.Fatal(err)
	}
	for _, key := range []kv.Key{"k", "blob"} {
		if _, err := s.Get(t.Context(), "acme", key); err != nil {
			t.Errorf("Get of what was written after the erasure = %v", err)
		}
	}
}

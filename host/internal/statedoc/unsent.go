package statedoc

import (
	"sync"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// A call can change a document again and again before an event or a journal takes the
// changes. So a list of changes that grows beyond the document itself, or beyond one
// patch, becomes one change of the whole.

// maxUnsentBytes bounds a list of changes; a document's limit that is larger is the
// bound instead.
const maxUnsentBytes = 1 << 20

// unsavedOps are operations that no journal has yet.
type unsavedOps struct {
	ops   []jsondoc.Op
	bytes int
}

// add keeps the operations that led to the present document of s. s.mu is held.
func (u *unsavedOps) add(ops []jsondoc.Op, s *shared) {
	u.bytes += jsondoc.SizeOfOps(ops)
	if u.bytes <= max(maxUnsentBytes, s.limit) && len(u.ops)+len(ops) <= jsondoc.MaxPatchOps {
		u.ops = append(u.ops, ops...)
		return
	}
	raw := s.json()
	u.ops = []jsondoc.Op{{Op: "replace", Path: "", Value: raw}}
	u.bytes = jsondoc.SizeOfChange + len(raw)
}

func (u *unsavedOps) take() []jsondoc.Op {
	ops := u.ops
	*u = unsavedOps{}
	return ops
}

// unsentChanges are changes that no event has sent yet, each with the revision that it
// led to.
type unsentChanges struct {
	mu      sync.Mutex
	changes []unsentChange
	ops     int
	bytes   int
}

type unsentChange struct {
	revision int64
	ops      []jsondoc.Op
}

// add keeps the operations that led to the present document of s. s.mu is held.
func (u *unsentChanges) add(ops []jsondoc.Op, s *shared) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.bytes, u.ops = u.bytes+jsondoc.SizeOfOps(ops), u.ops+len(ops)
	if u.bytes > max(maxUnsentBytes, s.limit) || u.ops > jsondoc.MaxPatchOps {
		raw := s.json()
		ops = []jsondoc.Op{{Op: "replace", Path: "", Value: raw}}
		u.changes, u.bytes, u.ops = nil, jsondoc.SizeOfChange+len(raw), 1
	}
	u.changes = append(u.changes, unsentChange{s.revision, ops})
}

// take returns the changes up to a revision, in order.
func (u *unsentChanges) take(revision int64) [][]jsondoc.Op {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out [][]jsondoc.Op
	for len(u.changes) > 0 && u.changes[0].revision <= revision {
		c := u.changes[0]
		out, u.changes = append(out, c.ops), u.changes[1:]
		u.bytes, u.ops = u.bytes-jsondoc.SizeOfOps(c.ops), u.ops-len(c.ops)
	}
	return out
}

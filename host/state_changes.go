package host

import (
	"cmp"
	"strings"
	"sync"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// Tools that run at one time change one state. A tool makes its patch from the
// state that it saw; if another writer has changed the same place meanwhile, applying
// the patch would undo that change silently. So each call sees the state through a
// view, which knows since when, and a patch that meets another's change is a
// conflict.

// view is the state as one call sees it. tell is called after each change through
// it.
func (s *State) view(tell func(revision int64)) *State {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.views++
	return &State{stateCore: s.stateCore, seen: s.revision, base: s.doc, tell: tell, undo: &undoLog{}}
}

// hookView is the state as the hooks around the call of a view see it. Their
// changes count as the call's for other calls, and are not taken back if the call
// fails.
func (s *State) hookView() *State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &State{stateCore: s.stateCore, seen: s.seen, base: s.base, tell: s.tell, of: s}
}

// endView says that no patch is returned to the view any more. The view still
// works, unless its changes were taken back: an abandoned tool may have it.
func (s *State) endView() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.views--; s.views == 0 {
		s.changes = nil
	}
}

// maxChanges bounds how many changes are remembered for the calls in progress.
const maxChanges = 10_000

// change is one place that was changed.
type change struct {
	revision int64 // that it led to
	by       *State
	footprint

	takenBack bool // the call has failed
}

// remember records the places that ops change, if a call may have to know. doc is
// the document before.
func (s *State) remember(doc any, ops []PatchOp) {
	if s.views == 0 {
		return
	}
	for _, f := range footprints(doc, ops) {
		s.changes = append(s.changes, change{revision: s.revision, by: cmp.Or(s.of, s), footprint: f})
	}
	if len(s.changes) > maxChanges {
		s.changes, s.forgotten = nil, s.revision
	}
}

// patchSeen is Patch for operations that were made from the state the view has
// seen: code conflict if another writer has changed one of their places since.
func (s *State) patchSeen(ops []PatchOp) error {
	if len(ops) == 0 {
		return nil
	}
	return s.change(func() error {
		if path, ok := s.overtaken(ops); ok {
			return Errorf(Conflict, "The state at %.200q was changed by another call while this one ran; call the tool again.", path)
		}
		return s.patch(ops)
	})
}

// overtaken returns the first place that ops change and that another writer has
// changed since the view has seen it.
func (s *State) overtaken(ops []PatchOp) (string, bool) {
	if s.revision == s.seen {
		return "", false
	}
	mine := footprints(s.base, ops)
	if s.forgotten > s.seen && len(mine) > 0 {
		return mine[0].path, true
	}
	for _, c := range s.changes {
		if c.by == s || c.revision <= s.seen {
			continue
		}
		for _, f := range mine {
			if f.meets(c.footprint) {
				return f.path, true
			}
		}
	}
	return "", false
}

// footprint is a place that an operation touches.
type footprint struct {
	kind footprintKind
	path string // of the value or the array
}

// The kinds of footprints, in the order that meets needs.
type footprintKind uint8

const (
	readsValue    footprintKind = iota // the source of a copy
	changesValue                       // at the path, or below it
	movesElements                      // of an array: their indices are others now
	appends                            // to an array
)

// footprints returns the places that ops touch in doc. A test touches nothing, and
// fails by itself if it must.
func footprints(doc any, ops []PatchOp) []footprint {
	out := make([]footprint, 0, len(ops))
	for _, op := range ops {
		switch op.Op {
		case "replace":
			out = append(out, valueAt(doc, changesValue, op.Path))
		case "add", "remove":
			out = append(out, elementAt(doc, op.Path))
		case "copy":
			out = append(out, valueAt(doc, readsValue, op.From), elementAt(doc, op.Path))
		case "move":
			out = append(out, elementAt(doc, op.From), elementAt(doc, op.Path))
		}
	}
	return out
}

// elementAt returns the footprint of adding or removing a value at a path.
func elementAt(doc any, path string) footprint {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return footprint{changesValue, path}
	}
	list, err := jsondoc.Lookup(doc, path[:i])
	if err != nil {
		return valueAt(doc, changesValue, path)
	}
	elements, ok := list.([]any)
	switch {
	case !ok:
		return footprint{changesValue, path}
	case path[i+1:] == "-":
		return footprint{appends, path[:i]}
	}
	if _, err := jsondoc.ArrayIndex(path[i+1:], len(elements)-1); err != nil {
		return footprint{changesValue, path[:i]}
	}
	return footprint{movesElements, path[:i]}
}

// valueAt is a footprint of a value. An element that doc does not have yet, for
// the patch itself appends it, stands for its array: its index means another
// element as soon as another writer appends.
func valueAt(doc any, kind footprintKind, path string) footprint {
	for i := 1; i < len(path); {
		n := strings.IndexByte(path[i:], '/')
		if n < 0 {
			n = len(path) - i
		}
		if list, ok := doc.([]any); ok {
			if _, err := jsondoc.ArrayIndex(path[i:i+n], len(list)-1); err != nil {
				return footprint{kind, path[:i-1]}
			}
		}
		next, err := jsondoc.Lookup(doc, path[i-1:i+n])
		if err != nil {
			break
		}
		doc, i = next, i+n+1
	}
	return footprint{kind, path}
}

// meets reports whether it matters to f that g was there first. Appending to an
// array does not conflict with another writer's append to it or change of an
// element.
func (f footprint) meets(g footprint) bool {
	if g.kind == readsValue {
		return false
	}
	if f.kind > g.kind {
		f, g = g, f
	}
	switch g.kind {
	case changesValue:
		return within(f.path, g.path) || within(g.path, f.path)
	case movesElements: // touches the elements below the array
		return within(f.path, g.path) || within(g.path, f.path)
	}
	switch f.kind {
	case readsValue, changesValue:
		return within(g.path, f.path)
	case movesElements:
		return f.path != g.path && within(g.path, f.path)
	}
	return false // both append
}

// within reports whether path is outer or below it.
func within(path, outer string) bool {
	return strings.HasPrefix(path, outer) && (len(path) == len(outer) || path[len(outer)] == '/')
}

// unsent is a list of changes that no event has sent yet. A tool can change a state
// again and again before one does, so a list that grows beyond the state itself, or
// beyond one patch, becomes one change of the whole.
type unsent struct {
	ops   []PatchOp
	bytes int
}

const maxUnsent = 1 << 20 // bytes, or the limit of the state if that is more

// add records the operations that led to the current state s. s.mu is held.
func (u *unsent) add(ops []PatchOp, s *State) {
	u.bytes += jsondoc.SizeOfOps(ops)
	if u.bytes <= max(maxUnsent, s.limit) && len(u.ops)+len(ops) <= jsondoc.MaxPatchOps {
		u.ops = append(u.ops, ops...)
		return
	}
	raw := s.json()
	u.ops = []PatchOp{{Op: "replace", Path: "", Value: raw}}
	u.bytes = jsondoc.SizeOfChange + len(raw)
}

// applyAgain applies operations that have been applied before, perhaps as many
// patches: only together they may be more work than one patch may make.
func (s *State) applyAgain(ops []PatchOp) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	doc, growth := s.doc, 0
	for i := range ops {
		after, n, err := jsondoc.ApplyTo(doc, ops[i:i+1])
		if err != nil {
			return err
		}
		doc, growth = after, growth+n
	}
	return s.replace(doc, growth, ops)
}

// untold are changes that no event has sent yet, each by itself and with the
// revision that it led to. They have the bounds of [unsent].
type untold struct {
	mu      sync.Mutex
	changes []toldChange
	ops     int
	bytes   int
}

type toldChange struct {
	revision int64
	ops      []PatchOp
}

// add records the operations that led to the current state s. s.mu is held.
func (u *untold) add(ops []PatchOp, s *State) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.bytes, u.ops = u.bytes+jsondoc.SizeOfOps(ops), u.ops+len(ops)
	if u.bytes > max(maxUnsent, s.limit) || u.ops > jsondoc.MaxPatchOps {
		raw := s.json()
		ops = []PatchOp{{Op: "replace", Path: "", Value: raw}}
		u.changes, u.bytes, u.ops = nil, jsondoc.SizeOfChange+len(raw), 1
	}
	u.changes = append(u.changes, toldChange{s.revision, ops})
}

// take returns the changes up to a revision, in order.
func (u *untold) take(revision int64) [][]PatchOp {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out [][]PatchOp
	for len(u.changes) > 0 && u.changes[0].revision <= revision {
		c := u.changes[0]
		out, u.changes = append(out, c.ops), u.changes[1:]
		u.bytes, u.ops = u.bytes-jsondoc.SizeOfOps(c.ops), u.ops-len(c.ops)
	}
	return out
}

func (u *unsent) take() []PatchOp {
	ops := u.ops
	*u = unsent{}
	return ops
}

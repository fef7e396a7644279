package statedoc

import (
	"cmp"
	"strings"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// Calls that run at the same time patch one document. A call makes its patch from the
// document that it has seen; if another writer has changed the same place meanwhile,
// applying the patch would undo that change silently. So each call has a view that
// knows since when, and a patch that meets another's change is a conflict.

// ForCall returns a view for a call. changed is called after each change through it,
// without a lock held; it may be nil. The call ends with [View.EndCall].
func (v *View) ForCall(changed func(revision int64)) *View {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.calls++
	call := &View{shared: v.shared, seen: v.revision, base: v.doc, changed: changed, undo: &undoLog{}}
	if v.journaled {
		v.unsettled = append(v.unsettled, call)
	}
	return call
}

// ForHooks returns a view for the hooks around a call, from the view of the call.
// Other calls see the hooks' changes as the call's; they stay when the call fails.
func (v *View) ForHooks() *View {
	v.mu.Lock()
	defer v.mu.Unlock()
	return &View{shared: v.shared, seen: v.seen, base: v.base, changed: v.changed, call: v}
}

// EndCall says that no more patches come back for a call. Its view still works,
// unless its changes were taken back: an abandoned call may still have it.
func (v *View) EndCall() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.calls--
	v.forgetChanges()
}

// forgetChanges forgets the changes if no call needs them any more.
func (v *View) forgetChanges() {
	if v.calls == 0 && len(v.unsettled) == 0 {
		v.changes = nil
	}
}

// maxChanges bounds how many changes are remembered for the calls in progress.
const maxChanges = 10_000

// change is one place that was changed.
type change struct {
	revision int64 // that it led to
	by       *View
	footprint

	takenBack bool // the call has failed
}

// remember records the places that ops change, if a call may have to know. doc is
// the document before.
func (v *View) remember(doc any, ops []jsondoc.Op) {
	if v.calls == 0 && len(v.unsettled) == 0 {
		return
	}
	for _, f := range footprints(doc, ops) {
		v.changes = append(v.changes, change{revision: v.revision, by: cmp.Or(v.call, v), footprint: f})
	}
	if len(v.changes) > maxChanges {
		v.changes, v.forgotten = nil, v.revision
	}
}

// PatchSeen is Patch for operations that were made from the document that the view has
// seen: code conflict if another writer has changed one of their places since.
func (v *View) PatchSeen(ops []jsondoc.Op) error {
	if len(ops) == 0 {
		return nil
	}
	return v.change(func() error {
		if path, ok := v.overtaken(ops); ok {
			return fault.Errorf(fault.Conflict, "The state at %.200q was changed by another call while this one ran; call the tool again.", path)
		}
		return v.patch(ops)
	})
}

// overtaken returns the first place that ops change and that another writer has
// changed since the view has seen it.
func (v *View) overtaken(ops []jsondoc.Op) (string, bool) {
	if v.revision == v.seen {
		return "", false
	}
	mine := footprints(v.base, ops)
	if v.forgotten > v.seen && len(mine) > 0 {
		return mine[0].path, true
	}
	for _, c := range v.changes {
		if c.by == v || c.revision <= v.seen {
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
func footprints(doc any, ops []jsondoc.Op) []footprint {
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

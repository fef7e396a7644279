package host

import (
	"slices"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// A tool that fails leaves the state as if it had not run: its changes are taken
// back. They are made at once, so other calls may have built on the state since.
// So the log keeps the place and the old value of a change, and not the whole
// document, and a place that another writer has changed since keeps that writer's
// value.

// undoLog holds the changes of a call, in order. It is guarded by the mutex of the
// state.
type undoLog struct {
	begun    bool
	revision int64 // before the first change
	doc      any   // at that revision
	changes  []undoEntry
	bytes    int
	full     bool // there were more than fit: only doc is kept
}

// undoEntry is how one change is taken back, and the revision that the change led to.
type undoEntry struct {
	undo     jsondoc.Undo
	revision int64
}

// maxUndoBytes bounds the undo log of one call, beside the document before its
// first change. The changes of a call beyond it are taken back together, if no
// other writer has changed anything since.
const maxUndoBytes = 4 << 20

// add keeps the changes of a patch; doc and revision are those before.
func (l *undoLog) add(doc any, revision int64, changes []jsondoc.Undo) {
	if !l.begun {
		l.begun, l.doc, l.revision = true, doc, revision
	}
	for i := range changes {
		l.bytes += changes[i].Size()
	}
	if l.full = l.full || l.bytes > maxUndoBytes; l.full {
		l.changes = nil
		return
	}
	l.changes = slices.Grow(l.changes, len(changes))
	for _, u := range changes {
		l.changes = append(l.changes, undoEntry{undo: u, revision: revision + 1})
	}
}

// takeBack undoes the call's changes through this view of the state, and ends the
// view: an abandoned handler changes nothing after that. It does nothing to the
// state itself.
func (s *State) takeBack() {
	s.change(func() error {
		log := s.undo
		if log == nil {
			return nil
		}
		s.undo = &undoLog{}
		defer func() { s.over = true }()
		defer s.markTakenBack()
		switch {
		case !log.begun:
			return nil
		case log.full && s.changedByOthers(log.revision):
			return nil
		case log.full:
			return s.patch([]PatchOp{{Op: "replace", Path: "", Value: jsondoc.Encode(log.doc)}})
		}
		p := jsondoc.Patcher{Doc: s.doc}
		var ops []PatchOp
		for _, u := range slices.Backward(log.changes) {
			if by := s.setSince(&u); by != nil {
				by.undo.inherit(u)
				continue
			}
			op, ok := p.Inverse(&u.undo)
			if ok && p.ApplyOne(op) == nil {
				ops = append(ops, op)
			}
		}
		if len(ops) == 0 {
			return nil
		}
		return s.replace(p.Doc, p.Growth, ops)
	})
}

// changedByOthers reports whether the state was changed since a revision by
// anything but this view, as far as that is remembered.
func (s *State) changedByOthers(since int64) bool {
	return s.forgotten > since || slices.ContainsFunc(s.changes, func(c change) bool { return c.by != s && c.revision > since })
}

// setSince returns the call that has set the value at the place of a change last, if
// that was another one, perhaps to what the change had made of it; nil if none has.
func (s *State) setSince(u *undoEntry) *State {
	if !u.undo.OfValue() {
		return nil
	}
	for _, c := range slices.Backward(s.changes) {
		if c.revision <= u.revision {
			break
		}
		if c.by != s && !c.takenBack && c.kind == changesValue && (within(u.undo.Path, c.path) || within(c.path, u.undo.Path)) {
			return c.by
		}
	}
	return nil
}

// markTakenBack records that no later change stands on this view's changes.
func (s *State) markTakenBack() {
	for i := range s.changes {
		s.changes[i].takenBack = s.changes[i].takenBack || s.changes[i].by == s
	}
}

// inherit takes a change of a call that has failed over, on which this call has built:
// if it fails too, that is taken back after its own.
func (l *undoLog) inherit(u undoEntry) {
	if l == nil || l.full || l.bytes+u.undo.Size() > maxUndoBytes {
		return
	}
	l.bytes += u.undo.Size()
	l.changes = slices.Insert(l.changes, 0, u)
}

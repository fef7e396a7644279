package statedoc

import (
	"cmp"
	"slices"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// A call that fails leaves the document as if it had not run: its changes are taken
// back. A change takes effect when it is made, so other calls may have built on it
// since. Hence the log keeps the place and the old value of a change, not the whole
// document, and a place that another writer has changed since keeps that writer's
// value.

// undoLog holds the changes of a call, in order. The mutex of the document guards it.
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

// TakeBack undoes the changes of a call through its view and closes the view: an
// abandoned call changes nothing after that. It has no effect on a view that is not a
// call's.
func (v *View) TakeBack() {
	v.change(func() error {
		log := v.undo
		if log == nil {
			return nil
		}
		v.undo = &undoLog{}
		defer func() {
			v.closed = true
			v.settle()
		}()
		defer v.markTakenBack()
		switch {
		case !log.begun:
			return nil
		case log.full && v.changedSince(log.revision, v.is):
			return nil
		case log.full:
			return v.patch([]jsondoc.Op{{Op: "replace", Path: "", Value: jsondoc.Encode(log.doc)}})
		}
		p := jsondoc.Patcher{Doc: v.doc}
		var ops []jsondoc.Op
		for _, u := range slices.Backward(log.changes) {
			if by := v.setSince(&u, v.is); by != nil {
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
		return v.replace(p.Doc, p.Growth, ops)
	})
}

// is reports whether by is this view.
func (v *View) is(by *View) bool { return by == v }

// changedSince reports whether another writer has changed the document since a revision, as
// far as that is remembered. own says which are no others.
func (v *View) changedSince(revision int64, own func(by *View) bool) bool {
	return v.forgotten > revision || slices.ContainsFunc(v.changes, func(c change) bool { return c.revision > revision && !own(c.by) })
}

// settle says that the changes of a call are no longer to be undone when the process ends.
func (v *View) settle() {
	v.unsettled = slices.DeleteFunc(v.unsettled, func(call *View) bool { return call == v })
	v.forgetChanges()
}

// undoUnsettled returns the operations that undo the changes of unsettled calls together, and
// keep those of other writers, as TakeBack does. nil if the document would not fit without them,
// or if a call has changed more than its log keeps and another writer has built on that.
func (v *View) undoUnsettled() []jsondoc.Op {
	unsettled := func(by *View) bool { return slices.Contains(v.unsettled, by) }
	p, changes := jsondoc.Patcher{Doc: v.doc}, v.unsettledChanges()
	if whole := v.firstFullLog(); whole != nil {
		if v.changedSince(whole.revision, unsettled) {
			return nil
		}
		p.Doc, p.Growth = whole.doc, jsondoc.Size(whole.doc)-v.size
		changes = slices.DeleteFunc(changes, func(u undoEntry) bool { return u.revision > whole.revision })
	} else if len(changes) == 0 {
		return nil
	}
	for _, u := range slices.Backward(changes) {
		if v.setSince(&u, unsettled) != nil {
			continue
		}
		if op, ok := p.Inverse(&u.undo); ok {
			_ = p.ApplyOne(op) // one that does not apply any more is left out
		}
	}
	if v.checkSize(v.size+p.Growth) != nil || v.checkFit(p.Doc) != nil {
		return nil
	}
	return jsondoc.DiffValues(v.doc, p.Doc)
}

// unsettledChanges returns the changes in the logs of unsettled calls, the first one first.
func (v *View) unsettledChanges() []undoEntry {
	var changes []undoEntry
	for _, call := range v.unsettled {
		changes = append(changes, call.undo.changes...)
	}
	slices.SortStableFunc(changes, func(a, b undoEntry) int { return cmp.Compare(a.revision, b.revision) })
	return changes
}

// firstFullLog returns the log of the unsettled call that was the first to begin of those which
// have only the document before them; nil without one.
func (v *View) firstFullLog() (first *undoLog) {
	for _, call := range v.unsettled {
		if log := call.undo; log.full && (first == nil || log.revision < first.revision) {
			first = log
		}
	}
	return first
}

// setSince returns the other call that was the last to set the value at the place of
// a change, perhaps to the same value; nil if no other has. own says which are no others.
func (v *View) setSince(u *undoEntry, own func(by *View) bool) *View {
	if !u.undo.OfValue() {
		return nil
	}
	for _, c := range slices.Backward(v.changes) {
		if c.revision <= u.revision {
			break
		}
		if !own(c.by) && !c.takenBack && c.kind == changesValue && (within(u.undo.Path, c.path) || within(c.path, u.undo.Path)) {
			return c.by
		}
	}
	return nil
}

// markTakenBack records that no later change stands on this view's changes.
func (v *View) markTakenBack() {
	for i := range v.changes {
		v.changes[i].takenBack = v.changes[i].takenBack || v.changes[i].by == v
	}
}

// inherit takes over a change of a failed call on which this call has built: if this
// call fails too, that change is taken back after its own.
func (l *undoLog) inherit(u undoEntry) {
	if l == nil || l.full || l.bytes+u.undo.Size() > maxUndoBytes {
		return
	}
	l.bytes += u.undo.Size()
	l.changes = slices.Insert(l.changes, 0, u)
}

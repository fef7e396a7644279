package host

import (
	"slices"
	"strings"
)

// A tool that fails leaves the state as if it had not run: its changes are taken
// back. They are made at once, so other calls may have built on the state since.
// So what is kept of a change is the place and what was there, and not the whole
// document, and a place that another has changed since stays as that left it.

// undoLog is what a call has changed, in order. It is guarded by the mutex of the
// state.
type undoLog struct {
	begun    bool
	revision int64 // before the first change
	doc      any   // at that revision
	changes  []undo
	bytes    int
	full     bool // there were more than fit: only doc is kept
}

// maxUndoBytes bounds what is kept of the changes of one call, beside the document
// before the first. Of a call that goes beyond it the changes are taken back
// together, if no other has changed anything since.
const maxUndoBytes = 4 << 20

// undo is how one change is taken back.
type undo struct {
	kind    undoKind
	path    string // of the value, or the array
	index   int    // in the array
	was, is place  // at the path; of an element, what was taken out or put in

	revision int64 // that it led to
}

type undoKind uint8

const (
	undoValue   undoKind = iota // of a member, or of an element that was replaced
	undoInsert                  // into an array
	undoRemoval                 // from an array
)

func (u *undo) size() int {
	return sizeOfChange + len(u.path) + sizeOf(u.was.v) + sizeOf(u.is.v)
}

// add keeps the changes of a patch; doc and revision are what there was before.
func (l *undoLog) add(doc any, revision int64, changes []undo) {
	if !l.begun {
		l.begun, l.doc, l.revision = true, doc, revision
	}
	for i := range changes {
		changes[i].revision = revision + 1
		l.bytes += changes[i].size()
	}
	if l.full = l.full || l.bytes > maxUndoBytes; l.full {
		l.changes = nil
		return
	}
	l.changes = append(l.changes, changes...)
}

// takeBack takes back what the call has changed through this view of the state, and
// ends the view: a handler that was left behind changes nothing after that. It does
// nothing to the state itself.
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
			return s.patch([]PatchOp{{Op: "replace", Path: "", Value: encodeDocument(log.doc)}})
		}
		p := patcher{doc: s.doc}
		var ops []PatchOp
		for _, u := range slices.Backward(log.changes) {
			if by := s.setSince(&u); by != nil {
				by.undo.inherit(u)
				continue
			}
			op, ok := p.inverse(&u)
			if ok && p.apply(op) == nil {
				ops = append(ops, op)
			}
		}
		if len(ops) == 0 {
			return nil
		}
		return s.replace(p.doc, p.growth, ops)
	})
}

// changedByOthers reports whether the state was changed since a revision by
// anything but this view, as far as that is remembered.
func (s *State) changedByOthers(since int64) bool {
	return s.forgotten > since || slices.ContainsFunc(s.changes, func(c change) bool { return c.by != s && c.revision > since })
}

// setSince returns the call that has set the value at the place of a change last, if
// that was another one, perhaps to what the change had made of it; nil if none has.
func (s *State) setSince(u *undo) *State {
	if u.kind != undoValue {
		return nil
	}
	for _, c := range slices.Backward(s.changes) {
		if c.revision <= u.revision {
			break
		}
		if c.by != s && !c.takenBack && c.kind == changesValue && (within(u.path, c.path) || within(c.path, u.path)) {
			return c.by
		}
	}
	return nil
}

// markTakenBack says that nothing stands on what this view has changed.
func (s *State) markTakenBack() {
	for i := range s.changes {
		s.changes[i].takenBack = s.changes[i].takenBack || s.changes[i].by == s
	}
}

// inherit takes a change of a call that has failed over, on which this call has built:
// if it fails too, that is taken back after its own.
func (l *undoLog) inherit(u undo) {
	if l == nil || l.full || l.bytes+u.size() > maxUndoBytes {
		return
	}
	l.bytes += u.size()
	l.changes = slices.Insert(l.changes, 0, u)
}

// inverse returns the operation that takes a change back in the patcher's document,
// if what the change left is there still.
func (p *patcher) inverse(u *undo) (PatchOp, bool) {
	if u.kind == undoValue {
		v, err := lookup(p.doc, u.path)
		if now := (place{v, err == nil}); now.ok != u.is.ok || now.ok && !equalDocuments(now.v, u.is.v) {
			return PatchOp{}, false
		}
		switch {
		case !u.was.ok:
			return PatchOp{Op: "remove", Path: u.path}, u.is.ok
		case u.is.ok:
			return PatchOp{Op: "replace", Path: u.path, Value: encodeDocument(u.was.v)}, true
		}
		return PatchOp{Op: "add", Path: u.path, Value: encodeDocument(u.was.v)}, true
	}
	v, err := lookup(p.doc, u.path)
	list, ok := v.([]any)
	if err != nil || !ok {
		return PatchOp{}, false
	}
	if u.kind == undoRemoval {
		return PatchOp{Op: "add", Path: element(u.path, min(u.index, len(list))), Value: encodeDocument(u.was.v)}, true
	}
	i := p.nearest(list, u.index, u.is.v)
	return PatchOp{Op: "remove", Path: element(u.path, i)}, i >= 0
}

// nearest returns where a value stands in a list, from an index on to both sides:
// others may have moved it. It is -1 if the value is gone, or the list is too long
// to look through.
func (p *patcher) nearest(list []any, from int, value any) int {
	for d := range len(list) + from {
		if p.spend(1) != nil {
			return -1
		}
		for _, i := range []int{from - d, from + d} {
			if i >= 0 && i < len(list) && equalDocuments(list[i], value) {
				return i
			}
		}
	}
	return -1
}

// noteValue keeps what a change does to a member, or to an element in its place.
func (p *patcher) noteValue(path string, was, is place) {
	if p.notes {
		p.note(undo{kind: undoValue, path: path, was: was, is: is})
	}
}

// noteElement keeps that an element was put into an array, or taken out of it.
func (p *patcher) noteElement(kind undoKind, pointer string, index int, v any) {
	if p.notes {
		p.note(undo{kind: kind, path: pointer[:strings.LastIndexByte(pointer, '/')], index: index, was: place{v, true}, is: place{v, true}})
	}
}

// note keeps a change. What it refers to must not change any more, so the patcher
// gives up that it is its own.
func (p *patcher) note(u undo) {
	p.disown(u.was.v)
	p.disown(u.is.v)
	p.undo = append(p.undo, u)
}

func (p *patcher) disown(doc any) {
	if len(p.own) == 0 {
		return
	}
	switch v := doc.(type) {
	case map[string]any:
		delete(p.own, addressOf(v))
		for _, member := range v {
			p.disown(member)
		}
	case []any:
		delete(p.own, addressOf(v))
		for _, e := range v {
			p.disown(e)
		}
	}
}

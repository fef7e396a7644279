package jsondoc

import "strings"

// Undo records one change so that it can be undone.
type Undo struct {
	kind    undoKind
	Path    string   // of the value, or the array
	index   int      // in the array
	was, is Optional // values at the path; of an element, the removed or inserted one
}

type undoKind uint8

const (
	undoValue   undoKind = iota // of a member, or of an element that was replaced
	undoInsert                  // into an array
	undoRemoval                 // from an array
)

// OfValue reports whether the change has set or removed the value at a path, rather
// than inserted or removed an element of an array.
func (u *Undo) OfValue() bool { return u.kind == undoValue }

// Size returns the approximate number of bytes that u keeps.
func (u *Undo) Size() int {
	return SizeOfChange + len(u.Path) + Size(u.was.Value) + Size(u.is.Value)
}

// Inverse returns the operation that undoes a change in the patcher's document, if the
// result of the change is still there.
func (p *Patcher) Inverse(u *Undo) (Op, bool) {
	if u.kind == undoValue {
		v, err := Lookup(p.Doc, u.Path)
		if now := (Optional{v, err == nil}); now.Present != u.is.Present || now.Present && !Equal(now.Value, u.is.Value) {
			return Op{}, false
		}
		switch {
		case !u.was.Present:
			return Op{Op: "remove", Path: u.Path}, u.is.Present
		case u.is.Present:
			return Op{Op: "replace", Path: u.Path, Value: Encode(u.was.Value)}, true
		}
		return Op{Op: "add", Path: u.Path, Value: Encode(u.was.Value)}, true
	}
	v, err := Lookup(p.Doc, u.Path)
	list, ok := v.([]any)
	if err != nil || !ok {
		return Op{}, false
	}
	if u.kind == undoRemoval {
		return Op{Op: "add", Path: ElementPath(u.Path, min(u.index, len(list))), Value: Encode(u.was.Value)}, true
	}
	i := p.nearest(list, u.index, u.is.Value)
	return Op{Op: "remove", Path: ElementPath(u.Path, i)}, i >= 0
}

// nearest returns the index of a value in a list, searching from an index to both
// sides: later changes may have moved it. It returns -1 if the value is gone, or the
// list is too long to search.
func (p *Patcher) nearest(list []any, from int, value any) int {
	for d := range len(list) + from {
		if p.spend(1) != nil {
			return -1
		}
		for _, i := range []int{from - d, from + d} {
			if i >= 0 && i < len(list) && Equal(list[i], value) {
				return i
			}
		}
	}
	return -1
}

// noteValue records the change of a member, or the replacement of an element.
func (p *Patcher) noteValue(path string, was, is Optional) {
	if p.RecordUndo {
		p.note(Undo{kind: undoValue, Path: path, was: was, is: is})
	}
}

// noteElement records that an element was inserted into an array, or removed from it.
func (p *Patcher) noteElement(kind undoKind, pointer string, index int, v any) {
	if p.RecordUndo {
		p.note(Undo{kind: kind, Path: pointer[:strings.LastIndexByte(pointer, '/')], index: index, was: Optional{v, true}, is: Optional{v, true}})
	}
}

// note records a change. The values in it must not change any more, so the patcher
// gives up their ownership.
func (p *Patcher) note(u Undo) {
	p.disown(u.was.Value)
	p.disown(u.is.Value)
	p.Undo = append(p.Undo, u)
}

func (p *Patcher) disown(doc any) {
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

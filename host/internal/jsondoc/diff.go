package jsondoc

import (
	"slices"
	"strconv"
)

// differ compares two documents, before and after.
//
// The operations may be for a third document, of which before is the part that a Go
// type knows. Then held is its value at the place that is compared: a member that only
// held has stays unchanged, and a place that held lacks is added. Otherwise held is
// absent.
type differ struct {
	work int // of applying the patch
	read int // how many bytes of JSON may still be read
}

// DiffValues returns operations that turn one decoded document into another, which was
// patched from it: see [Document.Diff].
func DiffValues(before, after any) []Op {
	var w differ
	ops := w.diff("", 0, Optional{}, before, after)
	if len(ops) > MaxPatchOps || w.work > maxPatchWork {
		return []Op{replaceOp("", after)}
	}
	return ops
}

// diff returns the operations that turn before, the value at path, into after.
func (w *differ) diff(path string, depth int, held Optional, before, after any) []Op {
	if identical(before, after) {
		return nil
	}
	if depth == maxPointerDepth && !held.Present {
		return []Op{replaceOp(path, after)}
	}
	var ops []Op
	switch b := before.(type) {
	case map[string]any:
		a, ok := after.(map[string]any)
		if !ok || held.Present && !isObject(held.Value) {
			return []Op{replaceOp(path, after)}
		}
		ops = w.objects(path, depth, held, b, a)
	case []any:
		a, ok := after.([]any)
		if !ok || held.Present {
			return []Op{replaceOp(path, after)}
		}
		ops = w.arrays(path, depth, b, a)
	default:
		return []Op{replaceOp(path, after)}
	}
	if len(ops) > 1 && !held.Present && smaller(after, worth(path, ops)) {
		return []Op{replaceOp(path, after)}
	}
	return ops
}

// worth returns the length below which a whole value replaces ops. It must be far
// shorter than ops, because a display keeps the parts of a value that no operation
// touches.
func worth(path string, ops []Op) int { return sizeOfDiff(ops)/2 - SizeOfChange - len(path) }

// objects compares members in the order of their names, so that the result is
// deterministic.
func (w *differ) objects(path string, depth int, held Optional, before, after map[string]any) []Op {
	var ops []Op
	names := make([]string, 0, 8)
	for name, v := range after {
		if old, ok := before[name]; !ok || !identical(old, v) {
			names = append(names, name)
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		at := path + "/" + escapeToken(name)
		old, had := before[name]
		v, has := after[name]
		child := held.Member(name)
		switch there := child.Present || had && !held.Present; {
		case !has && there:
			ops = append(ops, Op{Op: "remove", Path: at})
		case !has:
		case !there:
			ops = append(ops, Op{Op: "add", Path: at, Value: Encode(v)})
		case !had:
			ops = append(ops, replaceOp(at, v))
		default:
			ops = append(ops, w.diff(at, depth+1, child, old, v)...)
		}
	}
	return ops
}

// arrays skips the elements with which both arrays begin and end. It compares the
// elements between them by position; the surplus is added, or removed from the end.
func (w *differ) arrays(path string, depth int, before, after []any) []Op {
	first := 0
	for first < min(len(before), len(after)) && identical(before[first], after[first]) {
		first++
	}
	same := 0 // at the end
	for same < min(len(before), len(after))-first && identical(before[len(before)-1-same], after[len(after)-1-same]) {
		same++
	}
	endBefore, endAfter := len(before)-same, len(after)-same
	both := min(endBefore, endAfter)
	w.work += (max(endBefore, endAfter) - both) * (same + max(endBefore-both, 0) + 1)
	var ops []Op
	for i := first; i < both; i++ {
		ops = append(ops, w.diff(ElementPath(path, i), depth+1, Optional{}, before[i], after[i])...)
	}
	for i := endBefore - 1; i >= both; i-- {
		ops = append(ops, Op{Op: "remove", Path: ElementPath(path, i)})
	}
	for i := both; i < endAfter; i++ {
		at := ElementPath(path, i)
		if same == 0 {
			at = path + "/-"
		}
		ops = append(ops, Op{Op: "add", Path: at, Value: Encode(after[i])})
	}
	return ops
}

// ElementPath returns the pointer to an element of the array at path.
func ElementPath(path string, i int) string { return path + "/" + strconv.Itoa(i) }

func replaceOp(path string, doc any) Op {
	return Op{Op: "replace", Path: path, Value: Encode(doc)}
}

func sizeOfDiff(ops []Op) int {
	n := 0
	for _, op := range ops {
		n += SizeOfChange + len(op.Path) + len(op.Value)
	}
	return n
}

// smaller reports whether a document's JSON is shorter than n bytes. It reads no more
// than n bytes of it.
func smaller(doc any, n int) bool { return room(doc, n) > 0 }

// room returns n less the size of a document's JSON, at least 0.
func room(doc any, n int) int {
	switch v := doc.(type) {
	case []any:
		n -= len("[]") + max(len(v)-1, 0)
		for _, e := range v {
			if n <= 0 {
				return 0
			}
			n = room(e, n)
		}
	case map[string]any:
		n -= len("{}")
		i := 0
		for name, e := range v {
			if n -= sizeOfMember(i, name); n <= 0 {
				return 0
			}
			n = room(e, n)
			i++
		}
	default:
		n -= Size(doc)
	}
	return max(n, 0)
}

// identical is Equal, except that 1 and 1.0 differ. It does not look into parts that
// two documents share.
func identical(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && len(a) == len(b) && (sameAddress(a, b) || identicalMembers(a, b))
	case []any:
		b, ok := b.([]any)
		return ok && len(a) == len(b) && (len(a) == 0 || sameAddress(a, b) || slices.EqualFunc(a, b, identical))
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return a == b
}

func identicalMembers(a, b map[string]any) bool {
	for name, v := range a {
		if w, ok := b[name]; !ok || !identical(v, w) {
			return false
		}
	}
	return true
}

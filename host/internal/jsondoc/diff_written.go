package jsondoc

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"
)

// Documents that were read separately share no values, but most of their JSON is the
// same. So their JSON is compared: parts with equal bytes are equal, and only the rest
// is decoded. The JSON is valid and has no white space around it.

// levelsRead bounds how often bytes are read, because each level of nesting reads the
// levels below it. Deeper values are decoded.
const levelsRead = 16

// diffJSON is diff for documents as JSON.
func (w *differ) diffJSON(path string, depth int, held Optional, before, after []byte) []Op {
	if bytes.Equal(before, after) {
		return nil
	}
	if held.Present && before[0] == '[' && after[0] == '[' && w.read >= 0 && writtenAs(held.Value, before) {
		return w.heldArrayJSON(path, depth, before, after)
	}
	w.read -= len(before) + len(after)
	if w.read >= 0 && depth < maxPointerDepth {
		if ops, ok := w.partsJSON(path, depth, held, before, after); ok {
			return ops
		}
	}
	return w.diff(path, depth, held, DecodeValid(before), DecodeValid(after))
}

// partsJSON compares the members of two objects, or the elements of two arrays. It
// reports false for values that must be decoded.
func (w *differ) partsJSON(path string, depth int, held Optional, before, after []byte) (ops []Op, ok bool) {
	if held.Present && !isObject(held.Value) {
		return nil, false
	}
	c, ok := differing(before, after)
	if !ok || held.Present && !c.object {
		return nil, false
	}
	if c.object {
		members, ok := c.members()
		if !ok {
			return nil, false
		}
		ops = w.objectsJSON(path, depth, held, members)
	} else {
		ops = w.arraysJSON(path, depth, c)
	}
	if len(ops) > 1 && !held.Present && shorter(after, worth(path, ops)) {
		ops = []Op{replaceJSON(path, after)}
	}
	return ops, true
}

// heldArrayJSON compares the elements of an array that held has as before does.
func (w *differ) heldArrayJSON(path string, depth int, before, after []byte) []Op {
	ops := w.diffJSON(path, depth, Optional{}, before, after)
	if len(ops) > MaxPatchOps/2 || w.work > maxPatchWork/2 {
		return []Op{replaceJSON(path, after)}
	}
	return ops
}

func replaceJSON(path string, after []byte) Op { return replaceOp(path, DecodeValid(after)) }

func addJSON(path string, after []byte) Op {
	return Op{Op: "add", Path: path, Value: Encode(DecodeValid(after))}
}

func (w *differ) objectsJSON(path string, depth int, held Optional, members []memberPair) []Op {
	var ops []Op
	for _, m := range members {
		at := path + "/" + escapeToken(m.name)
		child := held.Member(m.name)
		switch there := child.Present || m.before != nil && !held.Present; {
		case m.after == nil && there:
			ops = append(ops, Op{Op: "remove", Path: at})
		case m.after == nil:
		case !there && m.before != nil && identical(DecodeValid(m.before), DecodeValid(m.after)):
		case !there:
			ops = append(ops, addJSON(at, m.after))
		case m.before == nil:
			ops = append(ops, replaceJSON(at, m.after))
		default:
			ops = append(ops, w.diffJSON(at, depth+1, child, m.before, m.after)...)
		}
	}
	return ops
}

// arraysJSON is arrays for the difference of two arrays.
func (w *differ) arraysJSON(path string, depth int, c difference) []Op {
	same := c.same()
	both := min(len(c.before), len(c.after))
	w.work += (max(len(c.before), len(c.after)) - both) * (same + len(c.before) - both + 1)
	var ops []Op
	for i := range both {
		ops = append(ops, w.diffJSON(ElementPath(path, c.first+i), depth+1, Optional{}, c.before[i].value, c.after[i].value)...)
	}
	for i := len(c.before) - 1; i >= both; i-- {
		ops = append(ops, Op{Op: "remove", Path: ElementPath(path, c.first+i)})
	}
	for i := both; i < len(c.after); i++ {
		at := ElementPath(path, c.first+i)
		if same == 0 {
			at = path + "/-"
		}
		ops = append(ops, addJSON(at, c.after[i].value))
	}
	return ops
}

// difference holds the parts of two objects or two arrays between the equal bytes at
// their beginnings and at their ends.
type difference struct {
	object        bool
	head, tail    []byte // with the opening, or the closing, bracket
	first         int    // how many parts the head has
	before, after []part
}

// part is an element, or a member with its name as JSON.
type part struct{ name, value []byte }

// differing reports false for values that are not both objects or both arrays.
func differing(before, after []byte) (c difference, ok bool) {
	if before[0] != after[0] || before[0] != '{' && before[0] != '[' {
		return c, false
	}
	c.object = before[0] == '{'
	alike, alikeAtEnd := commonPrefix(before, after), commonSuffix(before, after)
	b, a := next(before[1:]), next(after[1:])
	for len(before)-len(b) < alike && len(b) > 1 {
		_, rest := c.cut(b)
		end := len(before) - len(rest)
		if end > alike || end == alike && c.end(a) != end-(len(after)-len(a)) { // 1 and 12
			break
		}
		c.first++
		b, a = next(rest), next(after[end:])
	}
	c.head = before[:len(before)-len(b)]
	for len(b) != len(a) || len(b) > alikeAtEnd {
		// Once the rests have the same length and lie within the equal bytes at the
		// end, they are equal.
		longer := len(b) - len(a)
		var p part
		if longer >= 0 {
			p, b = c.cut(b)
			c.before, b = append(c.before, p), next(b)
		}
		if longer <= 0 {
			p, a = c.cut(a)
			c.after, a = append(c.after, p), next(a)
		}
	}
	c.tail = b
	return c, true
}

// cut removes the first part.
func (c *difference) cut(b []byte) (p part, rest []byte) {
	if c.object {
		end := StringEnd(b, 0) + 1
		p.name, b = b[:end], next(b[end:])
	}
	end := ValueEnd(b)
	p.value = b[:end]
	return p, b[end:]
}

// end returns how long the first part is.
func (c *difference) end(b []byte) int {
	_, rest := c.cut(b)
	return len(b) - len(rest)
}

// same returns how many parts the tail has.
func (c *difference) same() int {
	n := 0
	for b := c.tail; len(b) > 1; n++ {
		_, b = c.cut(b)
		b = next(b)
	}
	return n
}

// memberPair is a member of two objects; its value is nil for an object without it.
type memberPair struct {
	name          string
	before, after []byte
}

// members returns the members that differ, in the order of their names. It reports
// false if an object gives one twice: then only the last counts.
func (c *difference) members() ([]memberPair, bool) {
	all := make([]memberPair, 0, len(c.before)+len(c.after))
	for _, p := range c.before {
		all = append(all, memberPair{name: string(unquoted(p.name)), before: p.value})
	}
	for _, p := range c.after {
		all = append(all, memberPair{name: string(unquoted(p.name)), after: p.value})
	}
	slices.SortFunc(all, func(a, b memberPair) int { return strings.Compare(a.name, b.name) })
	out := all[:0]
	for _, m := range all {
		if n := len(out) - 1; n < 0 || out[n].name != m.name {
			out = append(out, m)
			continue
		} else if !out[n].join(m) {
			return nil, false
		}
	}
	return out, len(out) == 0 || !holdsAny(c.head[1:], out) && !holdsAny(c.tail, out)
}

// join reports false if both objects have had the member already.
func (m *memberPair) join(n memberPair) bool {
	switch {
	case m.before == nil && n.before != nil:
		m.before = n.before
	case m.after == nil && n.after != nil:
		m.after = n.after
	default:
		return false
	}
	return true
}

// holdsAny reports whether any of the members is among the members at the beginning of
// b.
func holdsAny(b []byte, members []memberPair) bool {
	names := make(map[string]struct{}, len(members))
	for _, m := range members {
		names[m.name] = struct{}{}
	}
	for b = next(b); len(b) > 1; b = next(b) {
		end := StringEnd(b, 0) + 1
		if _, held := names[string(unquoted(b[:end]))]; held {
			return true
		}
		b = next(b[end:])
		b = b[ValueEnd(b):]
	}
	return false
}

// shorter is smaller for a document as JSON.
func shorter(raw []byte, n int) bool {
	for i := 0; i < len(raw) && n > 0; i++ {
		switch raw[i] {
		case ' ', '\t', '\r', '\n':
		case '"':
			end := StringEnd(raw, i) + 1
			n -= end - i
			if quoted := raw[i:end]; bytes.IndexByte(quoted, '\\') >= 0 {
				s, _ := Unquote(quoted)
				n += len(quoted) - sizeOfString(s)
			}
			i = end - 1
		default:
			n--
		}
	}
	return n > 0
}

// commonPrefix returns the length of the longest common prefix of a and b.
func commonPrefix(a, b []byte) int {
	n := 0
	for len(a)-n >= 8 && len(b)-n >= 8 {
		if x := binary.LittleEndian.Uint64(a[n:]) ^ binary.LittleEndian.Uint64(b[n:]); x != 0 {
			return n + bits.TrailingZeros64(x)/8
		}
		n += 8
	}
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// commonSuffix returns the length of the longest common suffix of a and b.
func commonSuffix(a, b []byte) int {
	n := 0
	for len(a)-n >= 8 && len(b)-n >= 8 {
		x := binary.LittleEndian.Uint64(a[len(a)-n-8:]) ^ binary.LittleEndian.Uint64(b[len(b)-n-8:])
		if x != 0 {
			return n + bits.LeadingZeros64(x)/8
		}
		n += 8
	}
	for n < min(len(a), len(b)) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

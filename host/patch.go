package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// PatchOp is one RFC 6902 operation. Pointers are RFC 6901; the empty member
// name is an ordinary name.
type PatchOp struct {
	Op    string // add, remove, replace, move, copy, test
	Path  string
	From  string          // move, copy
	Value json.RawMessage // add, replace, test
}

// MarshalJSON writes {"op","path","from"?,"value"?}: the members that the
// operation defines and no others.
func (op PatchOp) MarshalJSON() ([]byte, error) {
	dst := appendString([]byte(`{"op":`), op.Op)
	dst = appendString(append(dst, `,"path":`...), op.Path)
	switch op.Op {
	case "move", "copy":
		dst = appendString(append(dst, `,"from":`...), op.From)
	case "add", "replace", "test":
		dst = appendRaw(append(dst, `,"value":`...), op.Value)
	}
	return append(dst, '}'), nil
}

// UnmarshalJSON reads an operation, with code invalid_argument for a member
// that the operation needs and does not have (an absent path is not the root),
// and for one given twice. What the operation does not define is left out.
func (op *PatchOp) UnmarshalJSON(b []byte) error {
	if err := checkJSON(b); err != nil {
		return Errorf(InvalidArgument, "read patch operation: %w", err)
	}
	var out PatchOp
	var seen fieldSet
	err := eachMember(bytes.Clone(b), func(name string, v []byte) error {
		if err := seen.add(name, "op", "path", "from", "value"); err != nil {
			return err
		}
		switch name {
		case "op":
			return stringValue(name, v, &out.Op)
		case "path":
			return stringValue(name, v, &out.Path)
		case "from":
			return stringValue(name, v, &out.From)
		case "value":
			out.Value = v
		}
		return nil
	})
	if err == nil {
		err = out.complete(seen)
	}
	if err != nil {
		return Errorf(InvalidArgument, "read patch operation: %w", err)
	}
	*op = out
	return nil
}

// complete reports what an operation lacks; seen has the bits of op, path, from
// and value, in this order.
func (op *PatchOp) complete(seen fieldSet) error {
	need := map[string]fieldSet{
		"add": 0b1011, "replace": 0b1011, "test": 0b1011, "remove": 0b0011, "move": 0b0111, "copy": 0b0111,
	}[op.Op]
	for i, name := range []string{"op", "path", "from", "value"} {
		if need&^seen&(1<<i) != 0 {
			return fmt.Errorf("%s needs %s", op.Op, name)
		}
	}
	if need == 0 {
		return errUnknownOp
	}
	return nil
}

// The bounds of a patch. Work is counted in values: each that is moved, or
// pushed aside in an array, is one; each that is copied is copyWork, for it
// takes memory.
const (
	maxPatchOps      = 10_000
	maxPatchDepth    = 128 // of a pointer
	maxPatchWork     = 1 << 22
	copyWork         = 16
	maxDocumentDepth = 512 // encoding/json reads 10,000 and writes any depth, until the stack ends
)

var (
	errUnknownOp = errors.New("no such operation; use add, remove, replace, move, copy or test")
	errTest      = errors.New("the value there is another")
)

// applyPatch returns the document that ops lead to, and by how many bytes its
// JSON is longer. doc is not changed.
func applyPatch(doc any, ops []PatchOp) (after any, growth int, err error) {
	p := patcher{doc: doc}
	if err := p.applyAll(ops); err != nil {
		return nil, 0, err
	}
	return p.doc, p.growth, nil
}

func (p *patcher) applyAll(ops []PatchOp) error {
	if len(ops) > maxPatchOps {
		return Errorf(ResourceExhausted, "patch has %d operations, more than %d", len(ops), maxPatchOps)
	}
	for i, op := range ops {
		if err := p.apply(op); err != nil {
			return Errorf(patchCode(err), "patch operation %d (%.20s %.200q): %w", i, op.Op, op.Path, err)
		}
	}
	return nil
}

func patchCode(err error) Code {
	switch {
	case errors.Is(err, errTest):
		return Conflict
	case CodeOf(err) == ResourceExhausted:
		return ResourceExhausted
	}
	return InvalidArgument
}

// patcher applies operations to a document that others hold too: it copies the
// objects and arrays that lie on the way to a change, each once, and shares the
// rest. So a patch costs what it touches, not what there is.
type patcher struct {
	doc    any
	work   int
	growth int                  // of the document's JSON, in bytes
	own    map[uintptr]struct{} // objects and arrays that are the patcher's, by their address
	notes  bool                 // it keeps how to take the changes back
	undo   []undo
}

// mine returns an object or array that may be changed. What the patcher does not
// own is kept alive by the document it came from, so no address means two things.
func (p *patcher) mine(doc any) any {
	switch v := doc.(type) {
	case map[string]any:
		if p.owns(addressOf(v)) {
			return v
		}
		c := maps.Clone(v)
		p.take(addressOf(c))
		return c
	case []any:
		if len(v) == 0 {
			return v[:0:0] // nothing to share, and no room that others have too
		}
		if p.owns(addressOf(v)) {
			return v
		}
		c := slices.Clone(v)
		p.take(addressOf(c))
		return c
	}
	return doc
}

func addressOf(container any) uintptr { return reflect.ValueOf(container).Pointer() }

func (p *patcher) owns(address uintptr) bool {
	_, ok := p.own[address]
	return ok
}

func (p *patcher) take(address uintptr) {
	if p.own == nil {
		p.own = map[uintptr]struct{}{}
	}
	p.own[address] = struct{}{}
}

// spend counts work, so that a patch of a few kilobytes cannot keep the host
// busy or fill its memory.
func (p *patcher) spend(n int) error {
	if p.work += n; p.work > maxPatchWork {
		return Errorf(ResourceExhausted, "the patch moves or copies too many values")
	}
	return nil
}

func (p *patcher) apply(op PatchOp) error {
	if !utf8.ValidString(op.Path) { // JSON has no such names
		return fmt.Errorf("the path is not valid UTF-8")
	}
	switch op.Op {
	case "add", "replace", "test":
		value, err := decodeDocument(op.Value)
		if err != nil {
			return fmt.Errorf("value: %w", err)
		}
		if op.Op == "test" {
			return p.test(op.Path, value)
		}
		return p.set(op.Path, value, op.Op == "replace")
	case "remove":
		_, err := p.remove(op.Path)
		return err
	case "move":
		return p.move(op.From, op.Path)
	case "copy":
		return p.copy(op.From, op.Path)
	}
	return errUnknownOp
}

func (p *patcher) test(path string, value any) error {
	at, err := lookup(p.doc, path)
	if err != nil {
		return fmt.Errorf("%w: %w", errTest, err)
	}
	if !equalDocuments(at, value) {
		return errTest
	}
	return nil
}

func (p *patcher) move(from, path string) error {
	if strings.HasPrefix(path, from+"/") {
		return fmt.Errorf("moves %q into itself", from)
	}
	value, err := lookup(p.doc, from)
	if err != nil || path == from {
		return err
	}
	if err := p.spend(countNodes(value)); err != nil {
		return err
	}
	if _, err := p.remove(from); err != nil {
		return err
	}
	return p.set(path, value, false)
}

func (p *patcher) copy(from, path string) error {
	value, err := lookup(p.doc, from)
	if err != nil {
		return err
	}
	if err := p.spend(copyWork * countNodes(value)); err != nil {
		return err
	}
	return p.set(path, copyDocument(value), false)
}

// set puts value at pointer; mustExist is replace's rule.
func (p *patcher) set(pointer string, value any, mustExist bool) error {
	if strings.Count(pointer, "/")+depthOf(value) > maxDocumentDepth {
		return Errorf(ResourceExhausted, "the document would be deeper than %d", maxDocumentDepth)
	}
	if pointer == "" {
		p.noteValue("", place{p.doc, true}, place{value, true})
		p.growth += sizeOf(value) - sizeOf(p.doc)
		p.doc = value
		return nil
	}
	parent, key, err := p.parent(pointer)
	if err != nil {
		return err
	}
	switch c := parent.(type) {
	case map[string]any:
		return p.setMember(pointer, c, key, value, mustExist)
	case []any:
		if mustExist {
			return p.setElement(pointer, c, key, value)
		}
		return p.insert(pointer, c, key, value)
	}
	return fmt.Errorf("its parent is %s", kindOf(parent))
}

func (p *patcher) setMember(pointer string, c map[string]any, key string, value any, mustExist bool) error {
	old, ok := c[key]
	switch {
	case ok:
		p.growth -= sizeOf(old)
	case mustExist:
		return fmt.Errorf("there is nothing")
	default:
		p.growth += sizeOfMember(len(c), key)
	}
	p.growth += sizeOf(value)
	p.noteValue(pointer, place{old, ok}, place{value, true})
	c[key] = value
	return nil
}

func (p *patcher) setElement(pointer string, c []any, key string, value any) error {
	i, err := arrayIndex(key, len(c)-1)
	if err != nil {
		return err
	}
	p.growth += sizeOf(value) - sizeOf(c[i])
	p.noteValue(pointer, place{c[i], true}, place{value, true})
	c[i] = value
	return nil
}

// insert puts value into the array c, which pointer leads into.
func (p *patcher) insert(pointer string, c []any, key string, value any) (err error) {
	i := len(c)
	if key != "-" {
		if i, err = arrayIndex(key, len(c)); err != nil {
			return err
		}
	}
	if err := p.spend(len(c) - i); err != nil {
		return err
	}
	p.growth += sizeOf(value) + min(len(c), 1) // a comma, but for the first
	p.noteElement(undoInsert, pointer, i, value)
	c = slices.Insert(c, i, value)
	p.take(addressOf(c))
	return p.putBack(pointer, c)
}

// putBack puts an array that has become longer or shorter in its own place; an
// element of it is at pointer.
func (p *patcher) putBack(pointer string, c []any) error {
	at := pointer[:strings.LastIndexByte(pointer, '/')]
	if at == "" {
		p.doc = c
		return nil
	}
	parent, key, err := p.parent(at)
	if err != nil {
		return err
	}
	switch holder := parent.(type) {
	case map[string]any:
		holder[key] = c
	case []any:
		i, err := arrayIndex(key, len(holder)-1)
		if err != nil {
			return err
		}
		holder[i] = c
	}
	return nil
}

func (p *patcher) remove(pointer string) (any, error) {
	value, err := lookup(p.doc, pointer)
	if err != nil {
		return nil, err
	}
	if pointer == "" {
		p.noteValue("", place{value, true}, place{nil, true})
		p.growth += sizeOf(nil) - sizeOf(value)
		p.doc = nil
		return value, nil
	}
	parent, key, _ := p.parent(pointer)
	switch c := parent.(type) {
	case map[string]any:
		p.noteValue(pointer, place{value, true}, place{})
		delete(c, key)
		p.growth -= sizeOf(value) + sizeOfMember(len(c), key)
	case []any:
		i, _ := arrayIndex(key, len(c)-1)
		if err := p.spend(len(c) - i); err != nil {
			return nil, err
		}
		p.noteElement(undoRemoval, pointer, i, value)
		c = slices.Delete(c, i, i+1)
		p.growth -= sizeOf(value) + min(len(c), 1)
		return value, p.putBack(pointer, c)
	}
	return value, nil
}

// parent returns what a pointer leads into, to be changed.
func (p *patcher) parent(pointer string) (parent any, key string, err error) {
	i := strings.LastIndexByte(pointer, '/')
	if i < 0 {
		return nil, "", fmt.Errorf("pointer %q does not start with /", pointer)
	}
	if key, err = unescapeToken(pointer[i+1:]); err != nil {
		return nil, "", err
	}
	if _, err = lookup(p.doc, pointer[:i]); err != nil {
		return nil, "", err
	}
	p.doc = p.mine(p.doc)
	parent = p.doc
	if pointer[:i] == "" {
		return parent, key, nil
	}
	for token := range strings.SplitSeq(pointer[1:i], "/") {
		parent = p.descend(parent, token)
	}
	return parent, key, nil
}

// descend makes what is below a token the patcher's. It is there, and the
// container is the patcher's.
func (p *patcher) descend(container any, token string) any {
	name, _ := unescapeToken(token)
	switch c := container.(type) {
	case map[string]any:
		c[name] = p.mine(c[name])
		return c[name]
	case []any:
		i, _ := arrayIndex(name, len(c)-1)
		c[i] = p.mine(c[i])
		return c[i]
	}
	return nil // lookup has been here
}

// lookup returns the value at an RFC 6901 pointer.
func lookup(doc any, pointer string) (any, error) {
	if pointer == "" {
		return doc, nil
	}
	if pointer[0] != '/' {
		return nil, fmt.Errorf("pointer %q does not start with /", pointer)
	}
	tokens := strings.Split(pointer[1:], "/")
	if len(tokens) > maxPatchDepth {
		return nil, fmt.Errorf("pointer is %d deep, more than %d", len(tokens), maxPatchDepth)
	}
	for _, token := range tokens {
		key, err := unescapeToken(token)
		if err != nil {
			return nil, err
		}
		switch c := doc.(type) {
		case map[string]any:
			v, ok := c[key]
			if !ok {
				return nil, fmt.Errorf("there is nothing at %q", pointer)
			}
			doc = v
		case []any:
			i, err := arrayIndex(key, len(c)-1)
			if err != nil {
				return nil, err
			}
			doc = c[i]
		default:
			return nil, fmt.Errorf("there is nothing at %q", pointer)
		}
	}
	return doc, nil
}

func arrayIndex(s string, last int) (int, error) {
	i, err := strconv.Atoi(s)
	if err != nil || i < 0 || len(s) > 1 && s[0] == '0' || s[0] == '+' {
		return 0, fmt.Errorf("%q is not an array index", s)
	}
	if i > last {
		return 0, fmt.Errorf("index %d is past the end", i)
	}
	return i, nil
}

func unescapeToken(s string) (string, error) {
	if !strings.Contains(s, "~") {
		return s, nil
	}
	for i := 0; i < len(s); i++ {
		if s[i] == '~' && (i+1 == len(s) || s[i+1] != '0' && s[i+1] != '1') {
			return "", fmt.Errorf("%q has a ~ that is neither ~0 nor ~1", s)
		}
	}
	return strings.ReplaceAll(strings.ReplaceAll(s, "~1", "/"), "~0", "~"), nil
}

func escapeToken(s string) string {
	if !strings.ContainsAny(s, "~/") {
		return s
	}
	return strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
}

// place is somewhere in a document, with what is there, if anything is.
type place struct {
	v  any
	ok bool
}

func (p place) member(key string) place {
	m, _ := p.v.(map[string]any)
	v, ok := m[key]
	return place{v, ok}
}

// diffDocuments appends the operations that do to doc what was done to before,
// which became after: by member for objects, whole values otherwise. doc is
// before, or more than before: what only doc has is left as it is. Members are
// taken in order of their names, so the result is the same every time.
func diffDocuments(ops []PatchOp, path string, doc, before, after place) []PatchOp {
	am, changed := after.v.(map[string]any)
	switch {
	case !after.ok && !doc.ok:
		return ops
	case !after.ok:
		return append(ops, PatchOp{Op: "remove", Path: path})
	case before.ok && equalDocuments(before.v, after.v):
		return ops
	case !doc.ok:
		return append(ops, PatchOp{Op: "add", Path: path, Value: encodeDocument(after.v)})
	case !changed || !isObject(doc.v) || !isObject(before.v):
		return append(ops, PatchOp{Op: "replace", Path: path, Value: encodeDocument(after.v)})
	}
	names := sortedKeys(am)
	for k := range before.v.(map[string]any) {
		if _, ok := am[k]; !ok {
			names = append(names, k)
		}
	}
	slices.Sort(names)
	for _, k := range names {
		ops = diffDocuments(ops, path+"/"+escapeToken(k), doc.member(k), before.member(k), after.member(k))
	}
	return ops
}

func isObject(doc any) bool { _, ok := doc.(map[string]any); return ok }

func sortedKeys[T any](m map[string]T) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

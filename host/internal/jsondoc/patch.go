package jsondoc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agenthost/agenthost/host/fault"
)

// Op is one RFC 6902 operation. Pointers are RFC 6901; the empty member
// name is an ordinary name.
type Op struct {
	Op    string // add, remove, replace, move, copy, test
	Path  string
	From  string          // move, copy
	Value json.RawMessage // add, replace, test
}

// MarshalJSON writes {"op","path","from"?,"value"?}: the members that the
// operation defines and no others.
func (op Op) MarshalJSON() ([]byte, error) {
	dst := AppendString([]byte(`{"op":`), op.Op)
	dst = AppendString(append(dst, `,"path":`...), op.Path)
	switch op.Op {
	case "move", "copy":
		dst = AppendString(append(dst, `,"from":`...), op.From)
	case "add", "replace", "test":
		dst = AppendRaw(append(dst, `,"value":`...), op.Value)
	}
	return append(dst, '}'), nil
}

// UnmarshalJSON reads an operation. An operation without a member that it needs (an
// absent path is not the root) and one with a member given twice have code
// invalid_argument.
// Members that the operation does not define are left out.
func (op *Op) UnmarshalJSON(b []byte) error {
	if err := Check(b); err != nil {
		return fault.Errorf(fault.InvalidArgument, "read patch operation: %w", err)
	}
	var out Op
	var seen MemberSet
	err := EachMember(bytes.Clone(b), func(name string, v []byte) error {
		if err := seen.Add(name, "op", "path", "from", "value"); err != nil {
			return err
		}
		switch name {
		case "op":
			return DecodeString(name, v, &out.Op)
		case "path":
			return DecodeString(name, v, &out.Path)
		case "from":
			return DecodeString(name, v, &out.From)
		case "value":
			out.Value = v
		}
		return nil
	})
	if err == nil {
		err = out.complete(seen)
	}
	if err != nil {
		return fault.Errorf(fault.InvalidArgument, "read patch operation: %w", err)
	}
	*op = out
	return nil
}

// complete returns an error that names the missing member of an operation; seen has the
// bits of op, path, from and value, in this order.
func (op *Op) complete(seen MemberSet) error {
	need := map[string]MemberSet{
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

// The bounds of a patch. Work is counted in values: each value that is moved, or
// shifted in an array, is one; each copied value is copyWork, because it takes memory.
const (
	MaxPatchOps     = 10_000
	maxPointerDepth = 128
	maxPatchWork    = 1 << 22
	copyWork        = 16
)

// MaxDepth is how deep the values of a document may be nested.
const MaxDepth = 512 // encoding/json reads 10,000 and writes any depth, until the stack ends

var (
	errUnknownOp = errors.New("no such operation; use add, remove, replace, move, copy or test")
	errTest      = errors.New("the value there is another")
)

// ApplyTo returns the document after ops, and by how many bytes its JSON is longer. doc
// is not changed.
func ApplyTo(doc any, ops []Op) (after any, growth int, err error) {
	p := Patcher{Doc: doc}
	if err := p.Apply(ops); err != nil {
		return nil, 0, err
	}
	return p.Doc, p.Growth, nil
}

// Apply applies operations. After an error the patcher is of no use.
func (p *Patcher) Apply(ops []Op) error {
	if len(ops) > MaxPatchOps {
		return fault.Errorf(fault.ResourceExhausted, "patch has %d operations, more than %d", len(ops), MaxPatchOps)
	}
	for i, op := range ops {
		if err := p.ApplyOne(op); err != nil {
			return fault.Errorf(patchCode(err), "patch operation %d (%.20s %.200q): %w", i, op.Op, op.Path, err)
		}
	}
	return nil
}

// patchCode returns the code of a patch that failed with err.
func patchCode(err error) fault.Code {
	switch {
	case errors.Is(err, errTest):
		return fault.Conflict
	case fault.CodeOf(err) == fault.ResourceExhausted:
		return fault.ResourceExhausted
	}
	return fault.InvalidArgument
}

// Patcher applies operations to a document that other holders share: it copies the
// objects and arrays on the path to a change, each once, and shares the rest. So the
// cost of a patch depends on the parts that it touches, not on the document's size.
type Patcher struct {
	Doc        any
	Growth     int    // of the document's JSON, in bytes
	RecordUndo bool   // the caller sets it to fill Undo
	Undo       []Undo // the undo records of the changes, in the order of the changes

	work int
	own  map[uintptr]struct{} // objects and arrays that are the patcher's, by their address
}

// mine returns an object or array that the patcher may change. The original document
// keeps the shared containers alive, so no address is reused.
func (p *Patcher) mine(doc any) any {
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
			return v[:0:0] // an empty array, whose capacity no holder shares
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

func (p *Patcher) owns(address uintptr) bool {
	_, ok := p.own[address]
	return ok
}

func (p *Patcher) take(address uintptr) {
	if p.own == nil {
		p.own = map[uintptr]struct{}{}
	}
	p.own[address] = struct{}{}
}

// spend counts work, so that a patch of a few kilobytes cannot keep the host
// busy or fill its memory.
func (p *Patcher) spend(n int) error {
	if p.work += n; p.work > maxPatchWork {
		return fault.Errorf(fault.ResourceExhausted, "the patch moves or copies too many values")
	}
	return nil
}

// ApplyOne applies one operation; one that fails changes nothing.
func (p *Patcher) ApplyOne(op Op) error {
	if !utf8.ValidString(op.Path) { // JSON has no such names
		return fmt.Errorf("the path is not valid UTF-8")
	}
	switch op.Op {
	case "add", "replace", "test":
		value, err := Decode(op.Value)
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

func (p *Patcher) test(path string, value any) error {
	at, err := Lookup(p.Doc, path)
	if err != nil {
		return fmt.Errorf("%w: %w", errTest, err)
	}
	if !Equal(at, value) {
		return errTest
	}
	return nil
}

func (p *Patcher) move(from, path string) error {
	if strings.HasPrefix(path, from+"/") {
		return fmt.Errorf("moves %q into itself", from)
	}
	value, err := Lookup(p.Doc, from)
	if err != nil || path == from {
		return err
	}
	if err := p.spend(CountValues(value)); err != nil {
		return err
	}
	if _, err := p.remove(from); err != nil {
		return err
	}
	return p.set(path, value, false)
}

func (p *Patcher) copy(from, path string) error {
	value, err := Lookup(p.Doc, from)
	if err != nil {
		return err
	}
	if err := p.spend(copyWork * CountValues(value)); err != nil {
		return err
	}
	return p.set(path, copyValue(value), false)
}

// set puts value at pointer; mustExist is replace's rule.
func (p *Patcher) set(pointer string, value any, mustExist bool) error {
	if strings.Count(pointer, "/")+Depth(value) > MaxDepth {
		return fault.Errorf(fault.ResourceExhausted, "the document would be deeper than %d", MaxDepth)
	}
	if pointer == "" {
		p.noteValue("", Optional{p.Doc, true}, Optional{value, true})
		p.Growth += Size(value) - Size(p.Doc)
		p.Doc = value
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
	return fmt.Errorf("its parent is %s", TypeName(parent))
}

func (p *Patcher) setMember(pointer string, c map[string]any, key string, value any, mustExist bool) error {
	old, ok := c[key]
	switch {
	case ok:
		p.Growth -= Size(old)
	case mustExist:
		return fmt.Errorf("there is nothing")
	default:
		p.Growth += sizeOfMember(len(c), key)
	}
	p.Growth += Size(value)
	p.noteValue(pointer, Optional{old, ok}, Optional{value, true})
	c[key] = value
	return nil
}

func (p *Patcher) setElement(pointer string, c []any, key string, value any) error {
	i, err := ArrayIndex(key, len(c)-1)
	if err != nil {
		return err
	}
	p.Growth += Size(value) - Size(c[i])
	p.noteValue(pointer, Optional{c[i], true}, Optional{value, true})
	c[i] = value
	return nil
}

// insert puts value into the array c, at pointer.
func (p *Patcher) insert(pointer string, c []any, key string, value any) (err error) {
	i := len(c)
	if key != "-" {
		if i, err = ArrayIndex(key, len(c)); err != nil {
			return err
		}
	}
	if err := p.spend(len(c) - i); err != nil {
		return err
	}
	p.Growth += Size(value) + min(len(c), 1) // a comma, but for the first
	p.noteElement(undoInsert, pointer, i, value)
	c = slices.Insert(c, i, value)
	p.take(addressOf(c))
	return p.putBack(pointer, c)
}

// putBack stores an array whose length has changed in its container; pointer is that of
// one of its elements.
func (p *Patcher) putBack(pointer string, c []any) error {
	at := pointer[:strings.LastIndexByte(pointer, '/')]
	if at == "" {
		p.Doc = c
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
		i, err := ArrayIndex(key, len(holder)-1)
		if err != nil {
			return err
		}
		holder[i] = c
	}
	return nil
}

func (p *Patcher) remove(pointer string) (any, error) {
	value, err := Lookup(p.Doc, pointer)
	if err != nil {
		return nil, err
	}
	if pointer == "" {
		p.noteValue("", Optional{value, true}, Optional{nil, true})
		p.Growth += Size(nil) - Size(value)
		p.Doc = nil
		return value, nil
	}
	parent, key, _ := p.parent(pointer)
	switch c := parent.(type) {
	case map[string]any:
		p.noteValue(pointer, Optional{value, true}, Optional{})
		delete(c, key)
		p.Growth -= Size(value) + sizeOfMember(len(c), key)
	case []any:
		i, _ := ArrayIndex(key, len(c)-1)
		if err := p.spend(len(c) - i); err != nil {
			return nil, err
		}
		p.noteElement(undoRemoval, pointer, i, value)
		c = slices.Delete(c, i, i+1)
		p.Growth -= Size(value) + min(len(c), 1)
		return value, p.putBack(pointer, c)
	}
	return value, nil
}

// parent returns the container of a pointer's value, for the patcher to change.
func (p *Patcher) parent(pointer string) (parent any, key string, err error) {
	i := strings.LastIndexByte(pointer, '/')
	if i < 0 {
		return nil, "", fmt.Errorf("pointer %q does not start with /", pointer)
	}
	if key, err = unescapeToken(pointer[i+1:]); err != nil {
		return nil, "", err
	}
	if _, err = Lookup(p.Doc, pointer[:i]); err != nil {
		return nil, "", err
	}
	p.Doc = p.mine(p.Doc)
	parent = p.Doc
	if pointer[:i] == "" {
		return parent, key, nil
	}
	for token := range strings.SplitSeq(pointer[1:i], "/") {
		parent = p.descend(parent, token)
	}
	return parent, key, nil
}

// descend makes the value below a token the patcher's own. The value exists, and the
// patcher owns the container.
func (p *Patcher) descend(container any, token string) any {
	name, _ := unescapeToken(token)
	switch c := container.(type) {
	case map[string]any:
		c[name] = p.mine(c[name])
		return c[name]
	case []any:
		i, _ := ArrayIndex(name, len(c)-1)
		c[i] = p.mine(c[i])
		return c[i]
	}
	return nil // Lookup has checked the path
}

// SizeOfChange is the approximate length of an operation without its texts.
const SizeOfChange = 72

// SizeOfOps returns the approximate length of operations as JSON.
func SizeOfOps(ops []Op) (n int) {
	for _, op := range ops {
		n += SizeOfChange + len(op.Path) + len(op.From) + len(op.Value)
	}
	return n
}

package host

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// PatchOp is one RFC 6902 operation. Pointers are RFC 6901; the empty member
// name is an ordinary name.
type PatchOp struct {
	Op    string          `json:"op"` // add, remove, replace, move, copy, test
	Path  string          `json:"path"`
	From  string          `json:"from,omitempty"`  // move, copy
	Value json.RawMessage `json:"value,omitempty"` // add, replace, test
}

// The bounds of a patch.
const (
	maxPatchOps     = 10_000
	maxPatchDepth   = 128     // of a pointer
	maxPatchedNodes = 1 << 20 // values that copies may make
)

// applyPatch returns the document that ops lead to. doc is not changed.
func applyPatch(doc any, ops []PatchOp) (any, error) {
	if len(ops) > maxPatchOps {
		return nil, Errorf(ResourceExhausted, "patch has %d operations, more than %d", len(ops), maxPatchOps)
	}
	p := patcher{doc: copyDocument(doc)}
	for i, op := range ops {
		if err := p.apply(op); err != nil {
			return nil, Errorf(patchCode(op), "patch operation %d (%s %q): %w", i, op.Op, op.Path, err)
		}
	}
	return p.doc, nil
}

func patchCode(op PatchOp) Code {
	if op.Op == "test" {
		return Conflict
	}
	return InvalidArgument
}

// patcher applies operations to a document of its own.
type patcher struct {
	doc   any
	nodes int
}

func (p *patcher) apply(op PatchOp) error {
	switch op.Op {
	case "add", "replace", "test":
		value, err := decodeDocument(op.Value)
		if err != nil {
			return fmt.Errorf("value: %w", err)
		}
		return p.applyValue(op, value)
	case "remove":
		_, err := p.remove(op.Path)
		return err
	case "move":
		if op.Path == op.From {
			_, err := lookup(p.doc, op.From)
			return err
		}
		if strings.HasPrefix(op.Path, op.From+"/") {
			return fmt.Errorf("moves %q into itself", op.From)
		}
		value, err := p.remove(op.From)
		if err != nil {
			return err
		}
		return p.set(op.Path, value, false)
	case "copy":
		value, err := lookup(p.doc, op.From)
		if err != nil {
			return err
		}
		if p.nodes += countNodes(value); p.nodes > maxPatchedNodes {
			return fmt.Errorf("copies more than %d values", maxPatchedNodes)
		}
		return p.set(op.Path, copyDocument(value), false)
	}
	return fmt.Errorf("no such operation; use add, remove, replace, move, copy or test")
}

func (p *patcher) applyValue(op PatchOp, value any) error {
	if op.Op != "test" {
		return p.set(op.Path, value, op.Op == "replace")
	}
	at, err := lookup(p.doc, op.Path)
	if err != nil {
		return err
	}
	if !equalDocuments(at, value) {
		return fmt.Errorf("the value there is another")
	}
	return nil
}

// set puts value at pointer; mustExist is replace's rule.
func (p *patcher) set(pointer string, value any, mustExist bool) error {
	if pointer == "" {
		p.doc = value
		return nil
	}
	parent, key, err := p.parent(pointer)
	if err != nil {
		return err
	}
	switch c := parent.(type) {
	case map[string]any:
		if _, ok := c[key]; mustExist && !ok {
			return fmt.Errorf("there is nothing")
		}
		c[key] = value
		return nil
	case []any:
		if mustExist {
			i, err := arrayIndex(key, len(c)-1)
			if err == nil {
				c[i] = value
			}
			return err
		}
		i := len(c)
		if key != "-" {
			if i, err = arrayIndex(key, len(c)); err != nil {
				return err
			}
		}
		return p.set(pointer[:strings.LastIndexByte(pointer, '/')], slices.Insert(c, i, value), true)
	}
	return fmt.Errorf("its parent is %s", kindOf(parent))
}

func (p *patcher) remove(pointer string) (any, error) {
	value, err := lookup(p.doc, pointer)
	if err != nil {
		return nil, err
	}
	if pointer == "" {
		p.doc = nil
		return value, nil
	}
	parent, key, _ := p.parent(pointer)
	switch c := parent.(type) {
	case map[string]any:
		delete(c, key)
	case []any:
		i, _ := arrayIndex(key, len(c)-1)
		return value, p.set(pointer[:strings.LastIndexByte(pointer, '/')], slices.Delete(c, i, i+1), true)
	}
	return value, nil
}

func (p *patcher) parent(pointer string) (parent any, key string, err error) {
	i := strings.LastIndexByte(pointer, '/')
	if i < 0 {
		return nil, "", fmt.Errorf("pointer %q does not start with /", pointer)
	}
	if key, err = unescapeToken(pointer[i+1:]); err != nil {
		return nil, "", err
	}
	parent, err = lookup(p.doc, pointer[:i])
	return parent, key, err
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

// diffDocuments appends the operations from a to b: by member for objects,
// whole values otherwise. Members are taken in order of their names, so the
// result is the same every time.
func diffDocuments(ops []PatchOp, path string, a, b any) []PatchOp {
	am, aok := a.(map[string]any)
	bm, bok := b.(map[string]any)
	if !aok || !bok {
		if equalDocuments(a, b) {
			return ops
		}
		return append(ops, PatchOp{Op: "replace", Path: path, Value: encodeDocument(b)})
	}
	for _, k := range sortedKeys(am) {
		if _, ok := bm[k]; !ok {
			ops = append(ops, PatchOp{Op: "remove", Path: path + "/" + escapeToken(k)})
		}
	}
	for _, k := range sortedKeys(bm) {
		at := path + "/" + escapeToken(k)
		if old, ok := am[k]; ok {
			ops = diffDocuments(ops, at, old, bm[k])
		} else {
			ops = append(ops, PatchOp{Op: "add", Path: at, Value: encodeDocument(bm[k])})
		}
	}
	return ops
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// A document is JSON decoded into any, numbers as json.Number so that integers
// of any size survive.

func decodeDocument(raw []byte) (any, error) {
	if err := checkJSON(raw); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var doc any
	err := d.Decode(&doc)
	return doc, err
}

func encodeDocument(doc any) json.RawMessage {
	raw, err := marshalNoEscape(doc)
	if err != nil { // it came from JSON
		panic("host: encode JSON document: " + err.Error())
	}
	return raw
}

func copyDocument(doc any) any {
	switch v := doc.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			m[k] = copyDocument(e)
		}
		return m
	case []any:
		a := make([]any, len(v))
		for i, e := range v {
			a[i] = copyDocument(e)
		}
		return a
	}
	return doc
}

func countNodes(doc any) int {
	n := 1
	switch v := doc.(type) {
	case map[string]any:
		for _, e := range v {
			n += countNodes(e)
		}
	case []any:
		for _, e := range v {
			n += countNodes(e)
		}
	}
	return n
}

func equalDocuments(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			w, ok := b[k]
			if !ok || !equalDocuments(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equalDocuments)
	case json.Number:
		b, ok := b.(json.Number)
		return ok && equalNumbers(a, b)
	}
	return a == b
}

// equalNumbers compares numerically (1 and 1.0 are equal, as RFC 6902 has it)
// and exactly where both are integers.
func equalNumbers(a, b json.Number) bool {
	if a == b {
		return true
	}
	if !strings.ContainsAny(string(a)+string(b), ".eE") {
		return false
	}
	x, errX := a.Float64()
	y, errY := b.Float64()
	return errX == nil && errY == nil && x == y
}

func kindOf(doc any) string {
	switch doc.(type) {
	case nil:
		return "null"
	case map[string]any:
		return "an object"
	case []any:
		return "an array"
	case string:
		return "a string"
	case bool:
		return "true or false"
	}
	return "a number"
}

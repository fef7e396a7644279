package jsondoc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strconv"
)

// A document is JSON decoded into any, numbers as json.Number so that integers of any
// size survive. The package has its own reader, because encoding/json needs a Decoder
// and its buffers to keep numbers (13 allocations for {"order":1042}, this reader makes
// 4), and does not report a member that came twice.

// Decode reads JSON. Of several members with one name the last counts.
func Decode(raw []byte) (any, error) {
	d, err := decode(raw)
	return d.doc, err
}

// decoder reads valid JSON from left to right.
type decoder struct {
	rest   []byte
	doc    any
	values int    // values read
	yield  func() // yields the processor; nil is runtime.Gosched
	twice  bool   // some object has a member twice
	huge   json.Number
}

func decode(raw []byte) (*decoder, error) {
	d := &decoder{rest: raw}
	if err := Check(raw); err != nil {
		return d, err
	}
	d.doc = d.value()
	return d, nil
}

// DecodeValid decodes JSON that Check has accepted.
func DecodeValid(raw []byte) any {
	d := decoder{rest: raw}
	return d.value()
}

// DecodeStrict decodes JSON and counts its values. It refuses JSON that two readers may
// read differently, a member given twice or a number beyond every number type: a check
// of one reader's value would say nothing about the other's.
func DecodeStrict(raw []byte) (doc any, nodes int, err error) {
	if err := Check(raw); err != nil {
		return nil, 0, err
	}
	return DecodeStrictValid(raw)
}

// DecodeStrictValid is [DecodeStrict] of JSON that Check has accepted.
func DecodeStrictValid(raw []byte) (doc any, nodes int, err error) {
	d := decoder{rest: raw}
	d.doc = d.value()
	switch {
	case d.twice:
		err = fmt.Errorf("a member is given twice")
	case d.huge != "":
		err = ErrOutOfRange(d.huge)
	}
	return d.doc, d.values, err
}

// valuesPerYield is how many values are read before other goroutines get the processor:
// about a millisecond. Checks of bytes alone, such as json.Valid, are left to the
// preemption of Go's scheduler, which takes the processor after 10 ms.
const valuesPerYield = 4096

func (d *decoder) value() any {
	if d.values++; d.values%valuesPerYield == 0 {
		if d.yield != nil {
			d.yield()
		} else {
			runtime.Gosched()
		}
	}
	d.rest = next(d.rest)
	switch d.rest[0] {
	case '{':
		return d.object()
	case '[':
		return d.array()
	case '"':
		return d.string()
	case 't', 'n':
		v := d.rest[0] == 't'
		d.rest = d.rest[len("true"):]
		if v {
			return true
		}
		return nil
	case 'f':
		d.rest = d.rest[len("false"):]
		return false
	}
	return d.number()
}

func (d *decoder) object() any {
	m := map[string]any{}
	n := 0
	for d.rest = next(d.rest[1:]); d.rest[0] != '}'; d.rest = next(d.rest) {
		name := d.string()
		m[name] = d.value()
		n++
	}
	d.rest = d.rest[1:]
	d.twice = d.twice || n != len(m)
	return m
}

func (d *decoder) array() any {
	a := []any{}
	for d.rest = next(d.rest[1:]); d.rest[0] != ']'; d.rest = next(d.rest) {
		a = append(a, d.value())
	}
	d.rest = d.rest[1:]
	return a
}

func (d *decoder) string() string {
	end := StringEnd(d.rest, 0) + 1
	s, _ := Unquote(d.rest[:end])
	d.rest = d.rest[end:]
	return s
}

func (d *decoder) number() json.Number {
	end := ValueEnd(d.rest)
	n := json.Number(d.rest[:end])
	d.rest = d.rest[end:]
	if !InRange(n) {
		d.huge = n
	}
	return n
}

// Encode returns a document as JSON, the members of objects in the order
// of their names.
func Encode(doc any) json.RawMessage { return appendValue(nil, doc) }

func appendValue(dst []byte, doc any) []byte {
	switch v := doc.(type) {
	case nil:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, v)
	case json.Number:
		return append(dst, v...)
	case string:
		return AppendString(dst, v)
	case []any:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendValue(dst, e)
		}
		return append(dst, ']')
	case map[string]any:
		return appendObject(dst, v)
	}
	panic(fmt.Sprintf("jsondoc: encode %T", doc)) // none comes from Decode
}

func appendObject(dst []byte, v map[string]any) []byte {
	dst = append(dst, '{')
	for i, name := range SortedNames(v) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(AppendString(dst, name), ':')
		dst = appendValue(dst, v[name])
	}
	return append(dst, '}')
}

// Size returns how long a document's JSON is.
func Size(doc any) int {
	switch v := doc.(type) {
	case bool:
		if v {
			return len("true")
		}
		return len("false")
	case json.Number:
		return len(v)
	case string:
		return sizeOfString(v)
	case []any:
		n := len("[]") + max(len(v)-1, 0)
		for _, e := range v {
			n += Size(e)
		}
		return n
	case map[string]any:
		n := len("{}")
		i := 0
		for name, e := range v {
			n += sizeOfMember(i, name) + Size(e)
			i++
		}
		return n
	}
	return len("null")
}

// sizeOfMember returns the length of a member's name with its punctuation, in an object
// with others members before it.
func sizeOfMember(others int, name string) int {
	return sizeOfString(name) + len(":") + min(others, 1)
}

// Marshal returns the JSON of a Go value, without the escapes of HTML.
func Marshal(v any) (json.RawMessage, error) { return MarshalInto(new(bytes.Buffer), v) }

// MarshalInto is [Marshal] that writes into b. The result is valid until b is used
// again.
func MarshalInto(b *bytes.Buffer, v any) (json.RawMessage, error) {
	b.Reset()
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// copyValue returns a deep copy, which shares no object and no array.
func copyValue(doc any) any {
	switch v := doc.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			m[k] = copyValue(e)
		}
		return m
	case []any:
		a := make([]any, len(v))
		for i, e := range v {
			a[i] = copyValue(e)
		}
		return a
	}
	return doc
}

// Depth returns how deep objects and arrays are nested; a scalar's depth is 0.
func Depth(doc any) int {
	deepest := 0
	switch v := doc.(type) {
	case map[string]any:
		for _, e := range v {
			deepest = max(deepest, Depth(e))
		}
	case []any:
		for _, e := range v {
			deepest = max(deepest, Depth(e))
		}
	default:
		return 0
	}
	return deepest + 1
}

// WrittenDepth is Depth for a document that is not decoded.
func WrittenDepth(raw []byte) int {
	depth, deepest := 0, 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			i = StringEnd(raw, i)
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
	}
	return deepest
}

// CountValues returns how many values a decoded value has, itself among them.
func CountValues(doc any) int {
	n := 1
	switch v := doc.(type) {
	case map[string]any:
		for _, e := range v {
			n += CountValues(e)
		}
	case []any:
		for _, e := range v {
			n += CountValues(e)
		}
	}
	return n
}

// Equal reports whether two values are equal as RFC 6902 defines it: members in any
// order, and numbers by their value.
func Equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			w, ok := b[k]
			if !ok || !Equal(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, Equal)
	case json.Number:
		b, ok := b.(json.Number)
		return ok && EqualNumbers(a, b)
	}
	return a == b
}

// TypeName returns the JSON type of a decoded value, with its article.
func TypeName(doc any) string {
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

func isObject(doc any) bool { _, ok := doc.(map[string]any); return ok }

// SortedNames returns the names of members in ascending order.
func SortedNames[T any](m map[string]T) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Optional is the value at a position in a document, or its absence.
type Optional struct {
	Value   any
	Present bool
}

// Member returns the member of an object, or an absent value.
func (p Optional) Member(key string) Optional {
	m, _ := p.Value.(map[string]any)
	v, ok := m[key]
	return Optional{v, ok}
}

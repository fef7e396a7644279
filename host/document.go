package host

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// A document is JSON decoded into any, numbers as json.Number so that integers
// of any size survive. The reader is our own: encoding/json needs a Decoder and
// its buffers to keep numbers (13 allocations for {"order":1042}, this takes 4),
// and does not tell whether a member came twice.

func decodeDocument(raw []byte) (any, error) {
	d, err := readDocument(raw)
	return d.doc, err
}

// documentReader reads valid JSON from left to right.
type documentReader struct {
	rest  []byte
	doc   any
	nodes int    // values read
	yield func() // gives the processor to others; nil is runtime.Gosched
	twice bool   // some object has a member twice
	huge  json.Number
}

func readDocument(raw []byte) (*documentReader, error) {
	d := &documentReader{rest: raw}
	if err := checkJSON(raw); err != nil {
		return d, err
	}
	d.doc = d.value()
	return d, nil
}

// decodeValid decodes what checkJSON has accepted.
func decodeValid(raw []byte) any {
	d := documentReader{rest: raw}
	return d.value()
}

// decodeStrict decodes JSON and counts its values. It refuses what two readers
// may read differently, for a check of one reader's value would say nothing of
// the other's: a member given twice, a number beyond every number type.
func decodeStrict(raw []byte) (doc any, nodes int, err error) {
	d, err := readDocument(raw)
	switch {
	case err != nil:
		return nil, 0, err
	case d.twice:
		err = fmt.Errorf("a member is given twice")
	case d.huge != "":
		err = errHuge(d.huge)
	}
	return d.doc, d.nodes, err
}

// pieceNodes is how many values are read before other goroutines get the processor:
// about a millisecond. Checks of bytes alone, such as json.Valid, are left to the
// preemption of Go's scheduler, which takes the processor after 10 ms.
const pieceNodes = 4096

func (d *documentReader) value() any {
	if d.nodes++; d.nodes%pieceNodes == 0 {
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

func (d *documentReader) object() any {
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

func (d *documentReader) array() any {
	a := []any{}
	for d.rest = next(d.rest[1:]); d.rest[0] != ']'; d.rest = next(d.rest) {
		a = append(a, d.value())
	}
	d.rest = d.rest[1:]
	return a
}

func (d *documentReader) string() string {
	end := stringEnd(d.rest, 0) + 1
	s, _ := unquote(d.rest[:end])
	d.rest = d.rest[end:]
	return s
}

func (d *documentReader) number() json.Number {
	end := valueEnd(d.rest)
	n := json.Number(d.rest[:end])
	d.rest = d.rest[end:]
	if !inRange(n) {
		d.huge = n
	}
	return n
}

// Numbers are compared exactly, digit by digit: these bounds are beyond every
// number type and keep 1e1000000 from taking a second each.
const (
	maxNumberBytes    = 400
	maxNumberExponent = 400
)

func inRange(n json.Number) bool {
	if len(n) < 20 && !strings.ContainsAny(string(n), "eE") {
		return true
	}
	_, exponent, _ := strings.Cut(strings.ToLower(string(n)), "e")
	if _, err := strconv.ParseInt(exponent, 10, 32); exponent != "" && err != nil { // that of 0, too
		return false
	}
	d := decimalOf(n)
	return len(n) <= maxNumberBytes && d.exponent <= maxNumberExponent && d.exponent >= -maxNumberExponent
}

func errHuge(n json.Number) error { return fmt.Errorf("the number %.40s is out of range", string(n)) }

// hugeNumber returns a number of a document that is out of range, or nothing.
func hugeNumber(doc any) (huge json.Number) {
	switch v := doc.(type) {
	case json.Number:
		if !inRange(v) {
			return v
		}
	case []any:
		for _, e := range v {
			if huge = hugeNumber(e); huge != "" {
				break
			}
		}
	case map[string]any:
		for _, e := range v {
			if huge = hugeNumber(e); huge != "" {
				break
			}
		}
	}
	return huge
}

// encodeDocument returns a document as JSON, the members of objects in the order
// of their names.
func encodeDocument(doc any) json.RawMessage { return appendDocument(nil, doc) }

func appendDocument(dst []byte, doc any) []byte {
	switch v := doc.(type) {
	case nil:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, v)
	case json.Number:
		return append(dst, v...)
	case string:
		return appendString(dst, v)
	case []any:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendDocument(dst, e)
		}
		return append(dst, ']')
	case map[string]any:
		return appendObject(dst, v)
	}
	panic(fmt.Sprintf("host: encode JSON document: %T", doc)) // none comes from decodeDocument
}

func appendObject(dst []byte, v map[string]any) []byte {
	dst = append(dst, '{')
	for i, name := range sortedKeys(v) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, name), ':')
		dst = appendDocument(dst, v[name])
	}
	return append(dst, '}')
}

// sizeOf returns how long a document's JSON is.
func sizeOf(doc any) int {
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
			n += sizeOf(e)
		}
		return n
	case map[string]any:
		n := len("{}")
		i := 0
		for name, e := range v {
			n += sizeOfMember(i, name) + sizeOf(e)
			i++
		}
		return n
	}
	return len("null")
}

// sizeOfMember returns how long the name of a member is with what surrounds it,
// in an object that has others beside it.
func sizeOfMember(others int, name string) int {
	return sizeOfString(name) + len(":") + min(others, 1)
}

func marshalNoEscape(v any) (json.RawMessage, error) { return marshalInto(new(bytes.Buffer), v) }

func marshalInto(b *bytes.Buffer, v any) (json.RawMessage, error) {
	b.Reset()
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
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

func depthOf(doc any) int {
	deepest := 0
	switch v := doc.(type) {
	case map[string]any:
		for _, e := range v {
			deepest = max(deepest, depthOf(e))
		}
	case []any:
		for _, e := range v {
			deepest = max(deepest, depthOf(e))
		}
	default:
		return 0
	}
	return deepest + 1
}

// depthOfJSON is depthOf for a document that is not decoded.
func depthOfJSON(raw []byte) int {
	depth, deepest := 0, 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			i = stringEnd(raw, i)
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
	}
	return deepest
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

// equalNumbers compares numbers as RFC 6902 has it (1, 1.0 and 10e-1 are equal)
// and exactly, however large they are.
func equalNumbers(a, b json.Number) bool { return a == b || decimalOf(a) == decimalOf(b) }

// decimal is a number as its digits, without zeros at either end, and the power
// of ten of the last one.
type decimal struct {
	negative bool
	digits   string
	exponent int64
	overflow json.Number // the number, when its exponent is beyond counting
}

func decimalOf(n json.Number) decimal {
	s, negative := strings.CutPrefix(string(n), "-")
	mantissa, exp, _ := strings.Cut(strings.ToLower(s), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	d := decimal{negative: negative, digits: strings.TrimLeft(whole+fraction, "0"), exponent: -int64(len(fraction))}
	trimmed := strings.TrimRight(d.digits, "0")
	d.exponent += int64(len(d.digits) - len(trimmed))
	if d.digits = trimmed; d.digits == "" {
		return decimal{}
	}
	if exp != "" {
		e, err := strconv.ParseInt(exp, 10, 32)
		if err != nil {
			return decimal{overflow: n}
		}
		d.exponent += e
	}
	return d
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

package jsondoc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// MaxListed bounds the lists that [Unmarshal] reads.
const MaxListed = 50_000

// Unmarshal reads a document of unknown origin into the struct that into points to.
// Unlike encoding/json it takes names as case-sensitive, accepts only an object for a
// struct, and refuses text that is not UTF-8 and a list of more than [MaxListed] items.
// Of several members with one name the last counts.
func Unmarshal(raw []byte, into any) error {
	return UnmarshalInPieces(raw, into, func() error { return nil })
}

// UnmarshalInPieces is [Unmarshal] that calls yield between pieces of some milliseconds,
// and ends with its error.
func UnmarshalInPieces(raw []byte, into any, yield func() error) error {
	if err := Check(raw); err != nil {
		return err
	}
	if err := yield(); err != nil {
		return err
	}
	return UnmarshalValid(bytes.Trim(raw, Space), into, yield)
}

// UnmarshalValid is [UnmarshalInPieces] of JSON that Check has accepted and that has no
// white space around it.
func UnmarshalValid(raw []byte, into any, yield func() error) error {
	r := &reader{yield: yield}
	return r.value(raw, reflect.ValueOf(into).Elem())
}

// reader reads one document into Go values.
type reader struct {
	yield func() error
	read  int // bytes since the last yield

	// The last struct and its names: the items of a list are of one type.
	of    reflect.Type
	names []string
}

// pieceBytes is how many bytes a reader reads between two yields: 5 ms with the slowest
// members.
const pieceBytes = 256 << 10

// took counts the bytes read from a document, and yields after each piece.
func (r *reader) took(n int) error {
	if r.read += n; r.read < pieceBytes {
		return nil
	}
	r.read = 0
	return r.yield()
}

// value reads a value that is known to be valid JSON without space around it.
func (r *reader) value(raw []byte, v reflect.Value) error {
	t := v.Type()
	_, own := v.Addr().Interface().(json.Unmarshaler)
	switch {
	case t == rawMessage:
		v.SetBytes(bytes.Clone(raw))
		return nil
	case own:
	case t.Kind() == reflect.String && raw[0] == '"':
		text, ok := Unquote(raw)
		if !ok {
			return fmt.Errorf("a text cannot be read")
		}
		v.SetString(text)
		return nil
	case t.Kind() == reflect.Struct:
		return r.object(raw, v)
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		return r.list(raw, v)
	case t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct && string(raw) != "null":
		v.Set(reflect.New(t.Elem()))
		return r.value(raw, v.Elem())
	}
	if t.Kind() == reflect.Slice && (t.Elem().Kind() == reflect.String || t.Elem().Kind() == reflect.Int) && items(raw) > MaxListed {
		return errTooMany
	}
	return json.Unmarshal(raw, v.Addr().Interface())
}

// items returns how many items a list of texts or numbers has, or more, but never
// falsely more than [MaxListed]. It first counts all commas, also those within texts,
// and reads texts only if these are too many, which is faster.
func items(raw []byte) int {
	n := bytes.Count(raw, []byte{','}) + 1
	if n <= MaxListed {
		return n
	}
	n = 1
	for i, quoted := 0, false; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			n++
		}
	}
	return n
}

var errTooMany = fmt.Errorf("a list has more than %d items", MaxListed)

func (r *reader) object(raw []byte, v reflect.Value) error {
	switch raw[0] {
	case '{':
	case 'n':
		return errors.New("it is null, not an object")
	default:
		return json.Unmarshal(raw, v.Addr().Interface()) // it returns the error with the type found
	}
	if t := v.Type(); r.of != t {
		r.of, r.names = t, jsonNames(t)
	}
	names := r.names
	var room [8][]byte
	values := append(room[:0], make([][]byte, len(names))...)
	err := eachMember(raw, func(name, value []byte) error {
		for i := range names {
			if names[i] == string(name) && len(name) > 0 {
				values[i] = value // the last value of a member counts
				break
			}
		}
		return r.took(len(name) + len(value))
	})
	for i, value := range values {
		carried := v.Field(i).Type() == rawMessage // of any type
		if err != nil || value == nil || !carried && string(value) == "null" {
			continue
		}
		if err = r.value(value, v.Field(i)); err != nil {
			err = fmt.Errorf("%s: %w", names[i], err)
		}
	}
	return err
}

func (r *reader) list(raw []byte, v reflect.Value) error {
	if raw[0] != '[' {
		return json.Unmarshal(raw, v.Addr().Interface()) // null, or the error with the type found
	}
	n := CountElements(raw)
	if n > MaxListed {
		return errTooMany
	}
	v.Set(reflect.MakeSlice(v.Type(), n, n))
	return EachElement(raw, func(i int, item []byte) error {
		if err := r.value(item, v.Index(i)); err != nil {
			return fmt.Errorf("%d: %w", i, err)
		}
		return r.took(len(item))
	})
}

var rawMessage = reflect.TypeFor[json.RawMessage]()

// jsonNames returns the names of a struct's fields in JSON. The reader computes them
// once an object, not once a member, because a guest chooses the number of members.
func jsonNames(t reflect.Type) []string {
	names := make([]string, t.NumField())
	for i := range names {
		names[i] = jsonName(t.Field(i))
	}
	return names
}

// jsonName returns the name of a field in JSON; "" for a field that JSON does not have.
func jsonName(f reflect.StructField) string {
	if !f.IsExported() {
		return ""
	}
	if tag := f.Tag.Get("json"); tag != "" {
		name, _, _ := strings.Cut(tag, ",")
		if name != "" {
			return name
		}
	}
	return strings.ToLower(f.Name)
}

package strictjson

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agenthost/agenthost/host/fault"
)

// MaxListed bounds the lists that are read item by item.
const MaxListed = 50_000

// Unmarshal reads a document into the struct that into points to. Unlike encoding/json
// it takes names as case-sensitive, accepts only an object for a struct, and refuses
// text that is not UTF-8 and a list of more than [MaxListed] items.
func Unmarshal(raw []byte, into any) error {
	return UnmarshalContext(context.Background(), raw, into)
}

// UnmarshalContext is [Unmarshal] that ends with its context, and yields between
// pieces of some milliseconds if ctx has a method Pace() error.
func UnmarshalContext(ctx context.Context, raw []byte, into any) error {
	if !utf8.Valid(raw) {
		return errors.New("not valid UTF-8")
	}
	if !json.Valid(raw) {
		return json.Unmarshal(raw, into) // it returns the syntax error
	}
	if err := Yield(ctx); err != nil {
		return err
	}
	return UnmarshalValid(ctx, bytes.TrimSpace(raw), into)
}

// UnmarshalValid is [UnmarshalContext] of JSON that is known to be valid and has no
// white space around it.
func UnmarshalValid(ctx context.Context, raw []byte, into any) error {
	r := &reader{ctx: ctx}
	return r.value(raw, reflect.ValueOf(into).Elem())
}

// reader reads one document. It lives as long as the call with its context.
type reader struct {
	ctx  context.Context // the lifetime of the reader
	read int             // bytes since the last yield
}

// pieceBytes is how many bytes a reader reads between two yields: 5 ms with the slowest
// members.
const pieceBytes = 256 << 10

// Yield calls the method Pace of ctx, if it has one, and returns the error of a ctx
// that has ended.
func Yield(ctx context.Context) error {
	if p, ok := ctx.(interface{ Pace() error }); ok {
		return p.Pace()
	}
	if ctx.Err() != nil {
		return fault.ContextError(ctx)
	}
	return nil
}

// took counts the bytes read from a document, and yields after each piece.
func (r *reader) took(n int) error {
	if r.read += n; r.read < pieceBytes {
		return nil
	}
	r.read = 0
	return Yield(r.ctx)
}

// value reads a value that is known to be valid JSON without space around it.
func (r *reader) value(raw []byte, v reflect.Value) error {
	t := v.Type()
	_, own := v.Addr().Interface().(json.Unmarshaler)
	switch {
	case own:
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
	names := jsonNames(v.Type())
	values := make([][]byte, len(names))
	err := eachMember(raw, func(name string, value []byte) error {
		if i := slices.Index(names, name); i >= 0 && name != "" {
			values[i] = value // the last value of a member counts
		}
		return r.took(len(name) + len(value))
	})
	for i, value := range values {
		carried := v.Field(i).Type() == reflect.TypeFor[json.RawMessage]() // of any type
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
	n := 0
	_ = EachItem(raw, func([]byte) error { n++; return nil })
	if n > MaxListed {
		return errTooMany
	}
	v.Set(reflect.MakeSlice(v.Type(), n, n))
	i := -1
	return EachItem(raw, func(item []byte) error {
		i++
		if err := r.value(item, v.Index(i)); err != nil {
			return fmt.Errorf("%d: %w", i, err)
		}
		return r.took(len(item))
	})
}

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

// CountSigns counts what separates the values of JSON. It counts signs in strings as
// well: it is a bound, and fast.
func CountSigns(raw []byte) int {
	return bytes.Count(raw, []byte{','}) + bytes.Count(raw, []byte{':'}) + bytes.Count(raw, []byte{'{'}) + bytes.Count(raw, []byte{'['})
}

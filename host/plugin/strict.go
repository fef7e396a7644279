package plugin

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
)

// readJSON reads an object of the plugin contract into a struct. Unlike
// encoding/json it tells names apart by their case, takes only an object for an
// object, and refuses what is not UTF-8.
func readJSON(raw []byte, into any) error {
	return readJSONPaced(context.Background(), raw, into)
}

// readJSONPaced is readJSON that lets others run while it reads, and ends with its
// context: see pace.
func readJSONPaced(ctx context.Context, raw []byte, into any) error {
	if !utf8.Valid(raw) {
		return errors.New("not valid UTF-8")
	}
	if !json.Valid(raw) {
		return json.Unmarshal(raw, into) // it says what is wrong
	}
	if err := pace(ctx); err != nil {
		return err
	}
	r := &strictReader{ctx: ctx}
	return r.value(bytes.TrimSpace(raw), reflect.ValueOf(into).Elem())
}

// strictReader reads one document.
type strictReader struct {
	ctx  context.Context
	read int // bytes since it last let others run
}

// strictPieceBytes is how much a strictReader reads between two looks at its
// context: 5 ms of the members that take longest.
const strictPieceBytes = 256 << 10

// took counts what was read of a document.
func (r *strictReader) took(n int) error {
	if r.read += n; r.read < strictPieceBytes {
		return nil
	}
	r.read = 0
	return pace(r.ctx)
}

// value reads a value that is known to be valid JSON without space around it.
func (r *strictReader) value(raw []byte, v reflect.Value) error {
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
	if t.Kind() == reflect.Slice && (t.Elem().Kind() == reflect.String || t.Elem().Kind() == reflect.Int) && items(raw) > maxListed {
		return errTooMany
	}
	return json.Unmarshal(raw, v.Addr().Interface())
}

// items returns how many items a list of texts or numbers has. To count in the
// quotes of a text would be slower; a list as long as that is checked again.
func items(raw []byte) int {
	n := bytes.Count(raw, []byte{','}) + 1
	if n <= maxListed {
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

var errTooMany = fmt.Errorf("a list has more than %d items", maxListed)

func (r *strictReader) object(raw []byte, v reflect.Value) error {
	switch raw[0] {
	case '{':
	case 'n':
		return errors.New("it is null, not an object")
	default:
		return json.Unmarshal(raw, v.Addr().Interface()) // it says what it is
	}
	names := jsonNames(v.Type())
	values := make([][]byte, len(names))
	err := eachMember(raw, func(name string, value []byte) error {
		if i := slices.Index(names, name); i >= 0 && name != "" {
			values[i] = value // the last one counts
		}
		return r.took(len(name) + len(value))
	})
	for i, value := range values {
		carried := v.Field(i).Type() == reflect.TypeFor[json.RawMessage]() // whatever it is
		if err != nil || value == nil || !carried && string(value) == "null" {
			continue
		}
		if err = r.value(value, v.Field(i)); err != nil {
			err = fmt.Errorf("%s: %w", names[i], err)
		}
	}
	return err
}

func (r *strictReader) list(raw []byte, v reflect.Value) error {
	if raw[0] != '[' {
		return json.Unmarshal(raw, v.Addr().Interface()) // null, or what it says
	}
	n := 0
	_ = eachItem(raw, func([]byte) error { n++; return nil })
	if n > maxListed {
		return errTooMany
	}
	v.Set(reflect.MakeSlice(v.Type(), n, n))
	i := -1
	return eachItem(raw, func(item []byte) error {
		i++
		if err := r.value(item, v.Index(i)); err != nil {
			return fmt.Errorf("%d: %w", i, err)
		}
		return r.took(len(item))
	})
}

// jsonNames are the names of a struct's fields in JSON, which are asked for once an
// object: a guest chooses how many members that has.
func jsonNames(t reflect.Type) []string {
	names := make([]string, t.NumField())
	for i := range names {
		names[i] = jsonName(t.Field(i))
	}
	return names
}

// jsonName is the name of a field in JSON; "" is of one that has none.
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

package plugin

import (
	"bytes"
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
	if !utf8.Valid(raw) {
		return errors.New("not valid UTF-8")
	}
	if !json.Valid(raw) {
		return json.Unmarshal(raw, into) // it says what is wrong
	}
	return readValue(bytes.TrimSpace(raw), reflect.ValueOf(into).Elem())
}

// readValue reads a value that is known to be valid JSON without space around it.
func readValue(raw []byte, v reflect.Value) error {
	t := v.Type()
	_, own := v.Addr().Interface().(json.Unmarshaler)
	switch {
	case own:
	case t.Kind() == reflect.Struct:
		return readStruct(raw, v)
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		return readSlice(raw, v)
	case t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct && string(raw) != "null":
		v.Set(reflect.New(t.Elem()))
		return readValue(raw, v.Elem())
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

func readStruct(raw []byte, v reflect.Value) error {
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
		return nil
	})
	for i, value := range values {
		carried := v.Field(i).Type() == reflect.TypeFor[json.RawMessage]() // whatever it is
		if err != nil || value == nil || !carried && string(value) == "null" {
			continue
		}
		if err = readValue(value, v.Field(i)); err != nil {
			err = fmt.Errorf("%s: %w", names[i], err)
		}
	}
	return err
}

func readSlice(raw []byte, v reflect.Value) error {
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
		if err := readValue(item, v.Index(i)); err != nil {
			return fmt.Errorf("%d: %w", i, err)
		}
		return nil
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

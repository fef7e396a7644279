package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
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
	return readValue(raw, reflect.ValueOf(into).Elem())
}

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
	return json.Unmarshal(raw, v.Addr().Interface())
}

func readStruct(raw []byte, v reflect.Value) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return err
	}
	if members == nil {
		return errors.New("it is null, not an object")
	}
	for i := range v.NumField() {
		name := jsonName(v.Type().Field(i))
		value, there := members[name]
		carried := v.Field(i).Type() == reflect.TypeFor[json.RawMessage]() // whatever it is
		if !there || name == "" || !carried && string(value) == "null" {
			continue
		}
		if err := readValue(value, v.Field(i)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func readSlice(raw []byte, v reflect.Value) error {
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return err
	}
	v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
	for i, item := range items {
		if err := readValue(bytes.TrimSpace(item), v.Index(i)); err != nil {
			return fmt.Errorf("%d: %w", i, err)
		}
	}
	return nil
}

// jsonName is the name of a field in JSON; "" is of one that has none.
func jsonName(f reflect.StructField) string {
	if !f.IsExported() {
		return ""
	}
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "" {
		name = strings.ToLower(f.Name)
	}
	return name
}

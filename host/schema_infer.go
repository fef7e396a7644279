package host

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"time"

	inferjson "github.com/google/jsonschema-go/jsonschema"
)

// inferSchema returns the schema of a Go type twice: as a model is told it, with
// every optional property required and nullable, which is what strict providers
// take; and as arguments are checked against it, where an optional property may
// be left out as well, because models do.
func inferSchema(t reflect.Type) (told, checked json.RawMessage, err error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	known := map[reflect.Type]*inferjson.Schema{}
	textTypes(t, known, map[reflect.Type]bool{})
	s, err := inferjson.ForType(t, &inferjson.ForOptions{TypeSchemas: known})
	if err != nil {
		return nil, nil, err
	}
	eachObject(s, optionalNullable)
	if checked, err = json.Marshal(s); err != nil {
		return nil, nil, err
	}
	eachObject(s, requireAll)
	told, err = json.Marshal(s)
	return told, checked, err
}

func eachObject(s *inferjson.Schema, fn func(*inferjson.Schema)) {
	if s == nil {
		return
	}
	for _, name := range s.PropertyOrder {
		eachObject(s.Properties[name], fn)
	}
	eachObject(s.Items, fn)
	eachObject(s.AdditionalProperties, fn)
	fn(s)
}

// optionalNullable makes what is optional nullable and what is a pointer
// optional.
func optionalNullable(s *inferjson.Schema) {
	s.Required = slices.DeleteFunc(s.Required, func(name string) bool { return isPointer(s.Properties[name]) })
	for _, name := range s.PropertyOrder {
		if !slices.Contains(s.Required, name) {
			makeNullable(s.Properties[name])
		}
	}
}

// isPointer reports whether a schema is a pointer's: it takes null, and is not
// a slice's, which takes null as well.
func isPointer(s *inferjson.Schema) bool {
	return slices.Contains(s.Types, "null") && !slices.Contains(s.Types, "array")
}

func requireAll(s *inferjson.Schema) {
	for _, name := range s.PropertyOrder {
		if !slices.Contains(s.Required, name) {
			s.Required = append(s.Required, name)
		}
	}
}

func makeNullable(s *inferjson.Schema) {
	switch {
	case s.Type != "":
		s.Types, s.Type = []string{"null", s.Type}, ""
	case len(s.Types) > 0 && s.Types[0] != "null":
		s.Types = append([]string{"null"}, s.Types...)
	}
}

// textTypes finds the types within t that write themselves as JSON in their own
// way, which their Go form says nothing about: as text, or as anything.
func textTypes(t reflect.Type, known map[reflect.Type]*inferjson.Schema, seen map[reflect.Type]bool) {
	if seen[t] {
		return
	}
	seen[t] = true
	pointer := reflect.PointerTo(t)
	switch {
	case t == reflect.TypeFor[time.Time]():
		known[t] = &inferjson.Schema{Type: "string", Format: "date-time"}
	case t == reflect.TypeFor[[]byte]():
		known[t] = &inferjson.Schema{Type: "string", ContentEncoding: "base64"}
	case t.Kind() != reflect.Interface && pointer.Implements(reflect.TypeFor[json.Unmarshaler]()):
		known[t] = &inferjson.Schema{}
	case t.Kind() != reflect.Interface && pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		known[t] = &inferjson.Schema{Type: "string"}
	default:
		eachPartType(t, func(part reflect.Type) { textTypes(part, known, seen) })
	}
}

func eachPartType(t reflect.Type, fn func(reflect.Type)) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		fn(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() || f.Anonymous {
				fn(f.Type)
			}
		}
	}
}

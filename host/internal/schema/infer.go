package schema

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	inferjson "github.com/google/jsonschema-go/jsonschema"
)

// Infer returns the schema of a Go type twice: told is for models, with every optional
// property required and nullable, as strict providers demand; checked is for validating
// arguments, where an optional property may also be left out, because models do.
func Infer(t reflect.Type) (told, checked json.RawMessage, err error) {
	return schemasOf(t, func(*inferjson.Schema) {})
}

// InferDocument is Infer for documents that Go also writes, such as states: nil slices
// and maps are null there.
func InferDocument(t reflect.Type) (told, checked json.RawMessage, err error) {
	return schemasOf(t, func(s *inferjson.Schema) {
		isMap := s.Type == "object" && s.AdditionalProperties != nil && s.AdditionalProperties.Not == nil
		if s.Type == "array" || isMap {
			makeNullable(s)
		}
	})
}

// InferParts is Infer for a type whose parts have schemas of their own, such as
// references to the components of a larger document. It returns the schema for
// validation.
func InferParts(t reflect.Type, parts map[reflect.Type]json.RawMessage) (json.RawMessage, error) {
	known := map[reflect.Type]*inferjson.Schema{}
	for part, raw := range parts {
		s := &inferjson.Schema{}
		if err := json.Unmarshal(raw, s); err != nil {
			return nil, fmt.Errorf("schema of %s: %w", part, err)
		}
		known[part] = s
	}
	_, checked, err := schemasWith(t, known, func(*inferjson.Schema) {})
	return checked, err
}

// schemasOf returns the schema for models and, after calling loosen with each part of
// it, the schema for validation.
func schemasOf(t reflect.Type, loosen func(*inferjson.Schema)) (told, checked json.RawMessage, err error) {
	return schemasWith(t, map[reflect.Type]*inferjson.Schema{}, loosen)
}

func schemasWith(t reflect.Type, known map[reflect.Type]*inferjson.Schema, loosen func(*inferjson.Schema)) (told, checked json.RawMessage, err error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	in := &inference{known: known}
	given := make(map[reflect.Type]bool, len(known))
	for part := range known {
		given[part] = true // and not looked into
	}
	textTypes(t, in.known, given)
	t = in.plainFields(t)
	s, err := inferjson.ForType(t, &inferjson.ForOptions{TypeSchemas: in.known})
	if err != nil {
		return nil, nil, err
	}
	if err := in.refine(s, t); err != nil {
		return nil, nil, err
	}
	loose := s.CloneSchemas()
	eachPart(loose, loosen)
	if checked, err = json.Marshal(loose); err != nil {
		return nil, nil, err
	}
	eachPart(s, requireAll)
	told, err = json.Marshal(s)
	return told, checked, err
}

func eachPart(s *inferjson.Schema, fn func(*inferjson.Schema)) {
	if s == nil {
		return
	}
	for _, name := range s.PropertyOrder {
		eachPart(s.Properties[name], fn)
	}
	eachPart(s.Items, fn)
	eachPart(s.AdditionalProperties, fn)
	fn(s)
}

func requireAll(s *inferjson.Schema) {
	for _, name := range s.PropertyOrder {
		if !slices.Contains(s.Required, name) {
			s.Required = append(s.Required, name)
		}
	}
}

// inference refines the library's inferred schemas by information from Go's types and
// tags.
type inference struct {
	known map[reflect.Type]*inferjson.Schema // of types with their own JSON
}

// refine makes pointers nullable and nothing else, and refines the parts of t.
func (in *inference) refine(s *inferjson.Schema, t reflect.Type) error {
	nullable := false
	for t.Kind() == reflect.Pointer {
		nullable, t = true, t.Elem()
	}
	withoutNull(s)
	var err error
	if in.known[t] == nil {
		err = in.refineParts(s, t)
	}
	if nullable {
		makeNullable(s)
	}
	return err
}

func (in *inference) refineParts(s *inferjson.Schema, t reflect.Type) error {
	switch {
	case t.Kind() == reflect.Struct && s.Properties != nil:
		return in.refineFields(s, t)
	case (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) && s.Items != nil:
		return in.refine(s.Items, t.Elem())
	case t.Kind() == reflect.Map && s.AdditionalProperties != nil:
		return in.refine(s.AdditionalProperties, t.Elem())
	}
	return nil
}

func (in *inference) refineFields(s *inferjson.Schema, t reflect.Type) error {
	fields := reflect.VisibleFields(t)
	last := map[string]int{} // the library takes the last of fields with one name
	for i, f := range fields {
		if name, _ := jsonField(f); !f.Anonymous && f.IsExported() {
			last[name] = i
		}
	}
	for i, f := range fields {
		name, optional := jsonField(f)
		property := s.Properties[name]
		if f.Anonymous || !f.IsExported() || property == nil || last[name] != i {
			continue
		}
		if err := in.refine(property, f.Type); err != nil {
			return err
		}
		if err := applyTags(property, f); err != nil {
			return fmt.Errorf("field %s of %s: %w", f.Name, t, err)
		}
		if optional || f.Type.Kind() == reflect.Pointer {
			makeNullable(property)
			s.Required = slices.DeleteFunc(s.Required, func(r string) bool { return r == name })
		}
	}
	return nil
}

// jsonField returns a field's name in JSON, and whether JSON may omit the field.
func jsonField(f reflect.StructField) (name string, optional bool) {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "-" && options == "" {
		return "", false
	}
	if name == "" {
		name = f.Name
	}
	for option := range strings.SplitSeq(options, ",") {
		optional = optional || option == "omitempty" || option == "omitzero"
	}
	return name, optional
}

// The tags of a field that describe its parameter: see [NewTool].
const (
	tagDescription = "description"
	tagEnum        = "enum"
	tagFormat      = "format"
)

func applyTags(s *inferjson.Schema, f reflect.StructField) error {
	if text, ok := f.Tag.Lookup(tagDescription); ok {
		if text == "" || s.Description != "" {
			return fmt.Errorf("the tag %s is empty, or stands beside the tag jsonschema", tagDescription)
		}
		s.Description = text
	}
	value := elements(s)
	if format, ok := f.Tag.Lookup(tagFormat); ok {
		if typeBesideNull(value) != "string" || format == "" {
			return fmt.Errorf("the tag %s:%q is for texts and not empty; the field's type is %s", tagFormat, format, f.Type)
		}
		value.Format = format
	}
	list, ok := f.Tag.Lookup(tagEnum)
	if !ok {
		return nil
	}
	for text := range strings.SplitSeq(list, ",") {
		v, err := enumValue(typeBesideNull(value), strings.TrimSpace(text))
		if err != nil {
			return fmt.Errorf("the tag %s:%q: %w; the field's type is %s", tagEnum, list, err, f.Type)
		}
		value.Enum = append(value.Enum, v)
	}
	if slices.Contains(value.Types, "null") {
		value.Enum = append(value.Enum, nil)
	}
	return nil
}

// elements returns the schema of a list's or map's elements, at any depth; s itself if
// it is neither.
func elements(s *inferjson.Schema) *inferjson.Schema {
	for {
		switch kind := typeBesideNull(s); {
		case kind == "array" && s.Items != nil:
			s = s.Items
		case kind == "object" && s.Properties == nil && s.AdditionalProperties != nil:
			s = s.AdditionalProperties
		default:
			return s
		}
	}
}

// typeBesideNull returns the schema's type other than null, or "".
func typeBesideNull(s *inferjson.Schema) string {
	for _, kind := range s.Types {
		if kind != "null" {
			return kind
		}
	}
	return s.Type
}

// enumValue reads a value of an enumeration. Numbers keep their spelling.
func enumValue(kind, text string) (any, error) {
	switch kind {
	case "string":
		return text, nil
	case "boolean":
		return strconv.ParseBool(text)
	case "integer":
		if _, err := strconv.ParseInt(text, 10, 64); err != nil {
			return nil, fmt.Errorf("%q is no integer", text)
		}
		return json.Number(text), nil
	case "number":
		if _, err := strconv.ParseFloat(text, 64); err != nil || !json.Valid([]byte(text)) {
			return nil, fmt.Errorf("%q is no number of JSON", text)
		}
		return json.Number(text), nil
	}
	return nil, fmt.Errorf("it is for texts, numbers and booleans")
}

// makeNullable makes s accept null, also in an enumeration.
func makeNullable(s *inferjson.Schema) {
	switch {
	case s.Type != "":
		s.Types, s.Type = []string{"null", s.Type}, ""
	case len(s.Types) > 0 && !slices.Contains(s.Types, "null"):
		s.Types = append([]string{"null"}, s.Types...)
	}
	if s.Enum != nil && !slices.Contains(s.Enum, nil) {
		s.Enum = append(slices.Clip(s.Enum), nil)
	}
}

// withoutNull removes null from s's types. A schema that takes only null is the
// library's schema of a pointer to any value.
func withoutNull(s *inferjson.Schema) {
	types := slices.DeleteFunc(slices.Clone(s.Types), func(kind string) bool { return kind == "null" })
	switch {
	case s.Types == nil:
	case len(types) == 1:
		s.Type, s.Types = types[0], nil
	case len(types) == 0:
		s.Types = nil
	default:
		s.Types = types
	}
}

// textTypes finds the types within t that marshal themselves, as text or as any JSON,
// so that their Go form does not show their schema.
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

package host

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	inferjson "github.com/google/jsonschema-go/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schema is a compiled JSON Schema: compiled once, when a tool is made.
type schema struct {
	compiled *jsonschema.Schema
	object   bool // the top level is an object
}

// maxSchemaBytes bounds a schema: it is sent to the model with every request.
const maxSchemaBytes = 256 << 10

// noRemote refuses to load other documents: a plugin's schema must not make the
// host open files or connections.
type noRemote struct{}

func (noRemote) Load(url string) (any, error) {
	return nil, fmt.Errorf("refers to %q; a schema may only refer to itself", url)
}

// Schema is a compiled JSON Schema (2020-12 unless it says otherwise). It is
// immutable and safe for concurrent use.
type Schema struct{ schema *schema }

// CompileSchema compiles a JSON Schema. It may refer to itself but to no other
// document. Errors have code invalid_argument.
func CompileSchema(raw json.RawMessage) (*Schema, error) {
	s, err := compileSchema(raw)
	if err != nil {
		return nil, Errorf(InvalidArgument, "%w", err)
	}
	return &Schema{s}, nil
}

// Validate returns an error of code invalid_argument that says which values do
// not fit and how.
func (s *Schema) Validate(raw json.RawMessage) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return Errorf(InvalidArgument, "not valid JSON: %v", err)
	}
	if err := s.schema.compiled.Validate(v); err != nil {
		return Errorf(InvalidArgument, "%s", validationSentence(err))
	}
	return nil
}

func compileSchema(raw json.RawMessage) (*schema, error) {
	if len(raw) > maxSchemaBytes {
		return nil, fmt.Errorf("schema is %d bytes long, more than %d", len(raw), maxSchemaBytes)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("schema is not JSON: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noRemote{})
	const here = "mem:///schema"
	if err := c.AddResource(here, doc); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	compiled, err := c.Compile(here)
	if err != nil {
		return nil, fmt.Errorf("schema: %s", oneLine(err.Error()))
	}
	return &schema{compiled: compiled, object: isObjectSchema(doc)}, nil
}

func isObjectSchema(doc any) bool {
	m, ok := doc.(map[string]any)
	if !ok {
		return false
	}
	if t, ok := m["type"]; ok {
		return t == "object"
	}
	return m["properties"] != nil || len(m) == 0
}

// validate returns an error whose message tells the model which argument is
// wrong and how.
func (s *schema) validate(raw json.RawMessage) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return Errorf(InvalidArgument, "the arguments are not valid JSON: %v", err)
	}
	if err := s.compiled.Validate(v); err != nil {
		return Errorf(InvalidArgument, "the arguments do not fit the schema: %s", validationSentence(err))
	}
	return nil
}

// maxFaults bounds how many faults one sentence lists.
const maxFaults = 5

func validationSentence(err error) string {
	ve, ok := err.(*jsonschema.ValidationError)
	if !ok {
		return oneLine(err.Error())
	}
	var faults []string
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		for _, c := range e.Causes {
			walk(c)
		}
		if len(e.Causes) > 0 {
			return
		}
		_, what, found := strings.Cut(oneLine(e.Error()), "at '")
		if found {
			_, what, _ = strings.Cut(what, "': ")
		} else {
			what = oneLine(e.Error())
		}
		faults = append(faults, "/"+strings.Join(e.InstanceLocation, "/")+": "+what)
	}
	walk(ve)
	if n := len(faults); n > maxFaults {
		faults = append(faults[:maxFaults], fmt.Sprintf("and %d more", n-maxFaults))
	}
	return strings.Join(faults, "; ")
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// inferSchema returns the schema of a Go type twice: as a model is told it, with
// every optional property required and nullable, which is what strict providers
// take; and as arguments are checked against it, where an optional property may
// be left out as well, because models do.
func inferSchema(t reflect.Type) (told, checked json.RawMessage, err error) {
	s, err := inferjson.ForType(t, &inferjson.ForOptions{})
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

func optionalNullable(s *inferjson.Schema) {
	for _, name := range s.PropertyOrder {
		if !slices.Contains(s.Required, name) {
			makeNullable(s.Properties[name])
		}
	}
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

func wrapSchema(raw json.RawMessage) json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{"value":` + string(raw) +
		`},"required":["value"],"additionalProperties":false}`)
}

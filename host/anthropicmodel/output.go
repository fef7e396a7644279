package anthropicmodel

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// outputs are the schemas of outputs as the provider takes them, for the next requests
// with the same ones.
type outputs struct {
	mu      sync.Mutex
	formats []*outputFormat // the last first
}

// outputFormat is a schema as the provider takes it.
type outputFormat struct {
	of      json.RawMessage
	schema  []byte // nil: it has none in the provider's words
	refused bool   // by the provider
}

// maxOutputs bounds the schemas that a model keeps: one for each agent that asks it.
const maxOutputs = 32

// format returns a schema in the provider's words; nil if it has none, or the provider has
// refused it.
func (o *outputs) format(schema json.RawMessage) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	f := o.find(schema)
	if f == nil {
		f = &outputFormat{of: bytes.Clone(schema)}
		if jsondoc.Check(schema) == nil {
			f.schema, _ = providerSchema(schema, 0)
		}
		o.formats = append([]*outputFormat{f}, o.formats[:min(len(o.formats), maxOutputs-1)]...)
	}
	if f.refused {
		return nil
	}
	return f.schema
}

// refuse notes that the provider does not take a schema.
func (o *outputs) refuse(schema json.RawMessage) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if f := o.find(schema); f != nil {
		f.refused = true
	}
}

func (o *outputs) find(schema json.RawMessage) *outputFormat {
	i := slices.IndexFunc(o.formats, func(f *outputFormat) bool { return bytes.Equal(f.of, schema) })
	if i < 0 {
		return nil
	}
	return o.formats[i]
}

// maxSchemaDepth bounds the nesting of a schema that is rewritten.
const maxSchemaDepth = 64

// providerSchema writes a schema with the keywords that the provider takes, in its order,
// which is that of the answer. Rules that the provider has no keyword for, such as minLength,
// move to the description: the model reads them, and the caller checks the answer against the
// schema itself. An object is closed, since the provider takes no other. ok is false for
// a schema that this would turn into another: maps, tuples and the like, and objects whose
// members are listed in two places.
func providerSchema(schema json.RawMessage, depth int) (out []byte, ok bool) {
	if depth > maxSchemaDepth {
		return nil, false
	}
	s := schemaWriter{out: []byte{'{'}, depth: depth}
	if err := jsondoc.EachMember(schema, s.member); err != nil || s.isObject && (!s.hasMembers || s.elsewhere) {
		return nil, false
	}
	if s.isObject {
		s.add("additionalProperties", []byte("false"))
	}
	if text := s.described(); text != "" {
		s.add("description", chat.AppendJSONString(nil, text))
	}
	return append(s.out, '}'), true
}

// schemaWriter writes one level of a schema.
type schemaWriter struct {
	out         []byte
	depth       int
	description string
	rules       []byte // for the description
	isObject    bool
	hasMembers  bool // the object lists some
	elsewhere   bool // other schemas may list more of them
}

// described returns the description with the rules that have no keyword.
func (s *schemaWriter) described() string {
	switch {
	case len(s.rules) == 0:
		return s.description
	case s.description == "":
		return string(s.rules)
	}
	return s.description + " (" + string(s.rules) + ")"
}

func (s *schemaWriter) add(name string, value []byte) {
	if len(s.out) > 1 {
		s.out = append(s.out, ',')
	}
	s.out = append(append(chat.AppendJSONString(s.out, name), ':'), value...)
}

// errNoWords ends the reading of a schema that has no words of the provider's.
type errNoWords struct{}

func (errNoWords) Error() string { return "the provider has no words for the schema" }

// member writes a keyword.
func (s *schemaWriter) member(name string, value []byte) error {
	switch name {
	case "type":
		s.isObject = s.isObject || bytes.Contains(value, []byte(`"object"`))
		s.add(name, value)
	case "properties":
		s.isObject, s.hasMembers = true, len(bytes.Trim(value, "{} \t\r\n")) > 0
		return s.schemas(name, value)
	case "$defs", "definitions":
		return s.schemas(name, value)
	case "items":
		return s.schema(name, value)
	case "anyOf", "oneOf": // the caller checks that it is one
		s.elsewhere = true
		return s.list("anyOf", value)
	case "$ref":
		s.elsewhere = true
		s.add(name, value)
	case "additionalProperties":
		if string(value) != "false" {
			return errNoWords{}
		}
	case "required", "enum", "const", "title":
		s.add(name, value)
	case "description":
		return jsondoc.DecodeString(name, value, &s.description)
	case "minItems":
		if n := string(value); n == "0" || n == "1" {
			s.add(name, value)
			return nil
		}
		s.rule(name, value)
	case "format":
		if slices.Contains(providerFormats, string(value)) {
			s.add(name, value)
			return nil
		}
		s.rule(name, value)
	case "maxItems", "uniqueItems", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern",
		"minProperties", "maxProperties", "contains", "minContains", "maxContains", "not", "if", "then", "else", "dependentRequired":
		s.rule(name, value)
	case "allOf", "patternProperties", "propertyNames", "prefixItems", "unevaluatedProperties", "unevaluatedItems", "dependentSchemas", "additionalItems",
		"$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor":
		return errNoWords{}
	}
	return nil // the others say nothing of a value
}

// providerFormats are the formats of texts that the provider takes, as JSON.
var providerFormats = []string{`"date-time"`, `"time"`, `"date"`, `"duration"`, `"email"`, `"hostname"`, `"uri"`, `"ipv4"`, `"ipv6"`, `"uuid"`}

// rule adds a keyword to the description.
func (s *schemaWriter) rule(name string, value []byte) {
	if len(s.rules) > 0 {
		s.rules = append(s.rules, ", "...)
	}
	s.rules = append(append(append(s.rules, name...), ": "...), value...)
}

func (s *schemaWriter) schema(name string, value []byte) error {
	inner, ok := providerSchema(value, s.depth+1)
	if !ok {
		return errNoWords{}
	}
	s.add(name, inner)
	return nil
}

// schemas writes a map of schemas.
func (s *schemaWriter) schemas(name string, value []byte) error {
	all := schemaWriter{out: []byte{'{'}, depth: s.depth}
	if err := jsondoc.EachMember(value, all.schema); err != nil {
		return err
	}
	s.add(name, append(all.out, '}'))
	return nil
}

// list writes a list of schemas.
func (s *schemaWriter) list(name string, value []byte) error {
	out := []byte{'['}
	err := jsondoc.EachElement(value, func(i int, v []byte) error {
		inner, ok := providerSchema(v, s.depth+1)
		if !ok {
			return errNoWords{}
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, inner...)
		return nil
	})
	s.add(name, append(out, ']'))
	return err
}

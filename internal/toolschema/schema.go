// Package toolschema reads the parameters of a tool for code that makes arguments.
//
// The JSON Schema of a tool goes in; a [Schema] without references and alternatives comes
// out: of anyOf and oneOf it has the first that is not null. Nothing is validated, and no
// document is refused: what is not as expected is an empty schema. A document that refers
// to itself, or that references multiply, is read up to [MaxDepth] and to a number of
// schemas.
package toolschema

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// MaxDepth is how deep a schema is read, through references too.
const MaxDepth = 8

// maxNodes bounds the schemas of one document, since references multiply.
const maxNodes = 2_000

// Schema is a JSON Schema as far as it helps to make a value. Is, WantsNumber, Number,
// Property and Element take a nil Schema, which asks for nothing.
type Schema struct {
	Type        Types             `json:"type"`
	Description string            `json:"description"`
	Title       string            `json:"title"`
	Properties  Properties        `json:"properties"`
	Required    []string          `json:"required"`
	Items       *Schema           `json:"items"`
	Enum        []json.RawMessage `json:"enum"`
	Const       json.RawMessage   `json:"const"`
	Default     json.RawMessage   `json:"default"`
	Format      string            `json:"format"`
	Pattern     string            `json:"pattern"`
	Minimum     *float64          `json:"minimum"`
	Maximum     *float64          `json:"maximum"`
	AnyOf       []*Schema         `json:"anyOf"`
	OneOf       []*Schema         `json:"oneOf"`
	Ref         string            `json:"$ref"`
	Defs        Properties        `json:"$defs"`
	Definitions Properties        `json:"definitions"`
}

// plain is Schema without its UnmarshalJSON.
type plain Schema

// UnmarshalJSON implements json.Unmarshaler. A schema that is true or false, or
// not as expected, is empty.
func (s *Schema) UnmarshalJSON(b []byte) error {
	var p plain
	if json.Unmarshal(b, &p) == nil {
		*s = Schema(p)
	}
	return nil
}

// Types is a type or a list of them.
type Types []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *Types) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*t = Types{""}
		return json.Unmarshal(b, &(*t)[0])
	}
	return json.Unmarshal(b, (*[]string)(t))
}

// Properties are an object's members in the order of the document.
type Properties []Property

// Property is a member: its name, and its schema, which is not nil.
type Property struct {
	Name   string
	Schema *Schema
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Properties) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		s := &Schema{}
		if err := d.Decode(s); err != nil {
			return err
		}
		*p = append(*p, Property{name.(string), s})
	}
	return nil
}

func (p Properties) find(name string) *Schema {
	for _, q := range p {
		if q.Name == name {
			return q.Schema
		}
	}
	return nil
}

// Read reads a tool's parameters and resolves their references. Without parameters it
// returns an empty schema.
func Read(raw json.RawMessage) *Schema {
	s := &Schema{}
	if len(raw) > 0 {
		json.Unmarshal(raw, s)
	}
	r := &resolver{root: s, left: maxNodes}
	return r.resolve(s, 0)
}

// resolver makes schemas without references and without alternatives: of anyOf
// and oneOf it takes the first that is not null.
type resolver struct {
	root *Schema
	left int // schemas that may still be made
}

func (r *resolver) resolve(s *Schema, depth int) *Schema {
	if r.left--; s == nil || depth > MaxDepth || r.left < 0 {
		return &Schema{}
	}
	if s.Ref != "" {
		return r.resolve(r.root.definition(s.Ref), depth+1)
	}
	for _, alternative := range slices.Concat(s.AnyOf, s.OneOf) {
		if a := r.resolve(alternative, depth+1); !slices.Equal(a.Type, Types{"null"}) {
			a.Description = strings.TrimSpace(s.Description + " " + a.Description)
			return a
		}
	}
	out := *s
	out.Properties = make(Properties, len(s.Properties))
	for i, p := range s.Properties {
		out.Properties[i] = Property{p.Name, r.resolve(p.Schema, depth+1)}
	}
	if s.Items != nil {
		out.Items = r.resolve(s.Items, depth+1)
	}
	return &out
}

func (s *Schema) definition(ref string) *Schema {
	name, found := strings.CutPrefix(ref, "#/$defs/")
	if !found {
		name = strings.TrimPrefix(ref, "#/definitions/")
	}
	if d := s.Defs.find(name); d != nil {
		return d
	}
	return s.Definitions.find(name)
}

// Is reports whether a value may be of the type of that name.
func (s *Schema) Is(name string) bool { return s != nil && slices.Contains(s.Type, name) }

// WantsNumber reports whether a value may be a number.
func (s *Schema) WantsNumber() bool { return s.Is("integer") || s.Is("number") }

// Number returns a text as a number, if a value may be a number and the text is one.
func (s *Schema) Number(text string) (n json.Number, ok bool) {
	if !s.WantsNumber() || strings.HasPrefix(text, `"`) || json.Unmarshal([]byte(text), &n) != nil {
		return "", false
	}
	return json.Number(text), true
}

// Kind returns the type to make a value of: the first that is not null, else object for a
// schema with properties, else string.
func (s *Schema) Kind() string {
	for _, t := range s.Type {
		if t != "null" {
			return t
		}
	}
	if len(s.Properties) > 0 {
		return "object"
	}
	return "string"
}

// Property returns the schema of a member, nil for an unknown one.
func (s *Schema) Property(name string) *Schema {
	if s == nil {
		return nil
	}
	return s.Properties.find(name)
}

// Element returns the schema of an array's elements, nil for an unknown one.
func (s *Schema) Element() *Schema {
	if s == nil {
		return nil
	}
	return s.Items
}

// Requires reports whether an object must have the member.
func (s *Schema) Requires(name string) bool { return slices.Contains(s.Required, name) }

// TakesNumber reports whether a number is between Minimum and Maximum.
func (s *Schema) TakesNumber(f float64) bool {
	return (s.Minimum == nil || f >= *s.Minimum) && (s.Maximum == nil || f <= *s.Maximum)
}

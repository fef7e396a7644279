package scriptedmodel

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// The bounds of one schema: how deep it is followed, through references too,
// and how many schemas that makes, since references multiply.
const (
	maxSchemaDepth = 8
	maxSchemaNodes = 2_000
)

// schema is a JSON Schema as far as it helps to guess a value. Its methods take
// a nil schema, which knows nothing.
type schema struct {
	Type        types             `json:"type"`
	Description string            `json:"description"`
	Title       string            `json:"title"`
	Properties  properties        `json:"properties"`
	Required    []string          `json:"required"`
	Items       *schema           `json:"items"`
	Enum        []json.RawMessage `json:"enum"`
	Const       json.RawMessage   `json:"const"`
	Default     json.RawMessage   `json:"default"`
	Format      string            `json:"format"`
	Pattern     string            `json:"pattern"`
	Minimum     *float64          `json:"minimum"`
	Maximum     *float64          `json:"maximum"`
	AnyOf       []*schema         `json:"anyOf"`
	OneOf       []*schema         `json:"oneOf"`
	Ref         string            `json:"$ref"`
	Defs        properties        `json:"$defs"`
	Definitions properties        `json:"definitions"`
}

// plainSchema is schema without its UnmarshalJSON.
type plainSchema schema

// UnmarshalJSON implements json.Unmarshaler. A schema that is true or false, or
// not as expected, knows nothing.
func (s *schema) UnmarshalJSON(b []byte) error {
	var p plainSchema
	if json.Unmarshal(b, &p) == nil {
		*s = schema(p)
	}
	return nil
}

// types is a type or a list of them.
type types []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *types) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*t = types{""}
		return json.Unmarshal(b, &(*t)[0])
	}
	return json.Unmarshal(b, (*[]string)(t))
}

// properties are an object's members in the order of the document.
type properties []property

type property struct {
	name   string
	schema *schema
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *properties) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		s := &schema{}
		if err := d.Decode(s); err != nil {
			return err
		}
		*p = append(*p, property{name.(string), s})
	}
	return nil
}

func (p properties) find(name string) *schema {
	for _, q := range p {
		if q.name == name {
			return q.schema
		}
	}
	return nil
}

// readSchema reads a tool's parameters and resolves their references.
func readSchema(raw json.RawMessage) *schema {
	s := &schema{}
	if len(raw) > 0 {
		json.Unmarshal(raw, s)
	}
	r := &resolver{root: s, left: maxSchemaNodes}
	return r.resolve(s, 0)
}

// resolver makes schemas without references and without alternatives: of anyOf
// and oneOf it takes the first that is not null.
type resolver struct {
	root *schema
	left int // schemas that may still be made
}

func (r *resolver) resolve(s *schema, depth int) *schema {
	if r.left--; s == nil || depth > maxSchemaDepth || r.left < 0 {
		return &schema{}
	}
	if s.Ref != "" {
		return r.resolve(r.root.definition(s.Ref), depth+1)
	}
	for _, alternative := range slices.Concat(s.AnyOf, s.OneOf) {
		if a := r.resolve(alternative, depth+1); !slices.Equal(a.Type, types{"null"}) {
			a.Description = strings.TrimSpace(s.Description + " " + a.Description)
			return a
		}
	}
	out := *s
	out.Properties = make(properties, len(s.Properties))
	for i, p := range s.Properties {
		out.Properties[i] = property{p.name, r.resolve(p.schema, depth+1)}
	}
	if s.Items != nil {
		out.Items = r.resolve(s.Items, depth+1)
	}
	return &out
}

func (s *schema) definition(ref string) *schema {
	name, found := strings.CutPrefix(ref, "#/$defs/")
	if !found {
		name = strings.TrimPrefix(ref, "#/definitions/")
	}
	if d := s.Defs.find(name); d != nil {
		return d
	}
	return s.Definitions.find(name)
}

func (s *schema) is(name string) bool { return s != nil && slices.Contains(s.Type, name) }

func (s *schema) wantsNumber() bool { return s.is("integer") || s.is("number") }

// kind returns the one type that is guessed for.
func (s *schema) kind() string {
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

func (s *schema) property(name string) *schema {
	if s == nil {
		return nil
	}
	return s.Properties.find(name)
}

func (s *schema) items() *schema {
	if s == nil {
		return nil
	}
	return s.Items
}

func (s *schema) requires(name string) bool { return slices.Contains(s.Required, name) }

func (s *schema) takesNumber(f float64) bool {
	return (s.Minimum == nil || f >= *s.Minimum) && (s.Maximum == nil || f <= *s.Maximum)
}

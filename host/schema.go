package host

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schema is a compiled JSON Schema: compiled once, when a tool is made.
type schema struct {
	doc    any
	object bool         // the top level is an object
	plain  *plainSchema // nil if the schema says more than that

	mu       sync.Mutex // one check at a time: they share the budget
	compiled *jsonschema.Schema
	budget   *budget
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
type Schema struct {
	schema *schema
	told   json.RawMessage // as a model is told it
	strict bool            // told keeps the rules of strict providers
}

// JSON returns the schema as a model is told it. It must not be changed.
func (s *Schema) JSON() json.RawMessage { return s.told }

// CompileSchema compiles a JSON Schema. It may refer to itself but to no other
// document. Errors have code invalid_argument.
func CompileSchema(raw json.RawMessage) (*Schema, error) {
	s, err := compileSchema(raw)
	if err != nil {
		return nil, Errorf(InvalidArgument, "%w", err)
	}
	return &Schema{schema: s, told: raw}, nil
}

// Validate returns an error of code invalid_argument that says which values do
// not fit and how. JSON that readers might understand differently (a member
// given twice, a number beyond every type) does not fit. Code resource_exhausted
// says that the schema takes too long to tell.
func (s *Schema) Validate(raw json.RawMessage) error {
	_, err := s.schema.check(raw)
	switch {
	case err == nil:
		return nil
	case isA[errTooManyChecks](err):
		return Errorf(ResourceExhausted, "%w", err)
	}
	return Errorf(InvalidArgument, "%w", err)
}

// ValidateUnseen is Validate for values that are somebody else's: its error says
// which places do not fit and which rules they break, and nothing of what is
// there.
func (s *Schema) ValidateUnseen(raw json.RawMessage) error {
	v, nodes, err := decodeStrict(raw)
	if err != nil {
		return Errorf(InvalidArgument, "%w", err)
	}
	var places string
	err = s.schema.within(nodes, func(compiled *jsonschema.Schema) error {
		err := compiled.Validate(v)
		if err != nil {
			places = faultSentence(err, ruleOf)
		}
		return err
	})
	switch {
	case isA[errTooManyChecks](err):
		return Errorf(ResourceExhausted, "%w", err)
	case err != nil:
		return Errorf(InvalidArgument, "%s", places)
	}
	return nil
}

func compileSchema(raw json.RawMessage) (*schema, error) {
	if len(raw) > maxSchemaBytes {
		return nil, fmt.Errorf("schema is %d bytes long, more than %d", len(raw), maxSchemaBytes)
	}
	doc, _, err := decodeStrict(raw)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
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
	s := &schema{doc: doc, object: isObjectSchema(doc), plain: newPlainSchema(doc), compiled: compiled, budget: &budget{}}
	return s, s.budget.watch(compiled)
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

// check decodes a value and checks it. Its error tells a model which value is
// wrong and how.
func (s *schema) check(raw json.RawMessage) (any, error) {
	v, nodes, err := decodeStrict(raw)
	if err != nil {
		return nil, err
	}
	if s.plain.fits(v) {
		return v, nil
	}
	return v, s.validate(v, nodes)
}

func (s *schema) validate(v any, nodes int) error {
	return s.within(nodes, func(compiled *jsonschema.Schema) error {
		if err := compiled.Validate(v); err != nil {
			return fmt.Errorf("%s", validationSentence(err))
		}
		return nil
	})
}

// within runs a check of a value of so many nodes within the budget.
func (s *schema) within(nodes int, check func(*jsonschema.Schema) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.budget.spend(nodes, func() error { return check(s.compiled) })
}

// maxFaults bounds how many faults one sentence lists.
const maxFaults = 5

func validationSentence(err error) string { return faultSentence(err, faultOf) }

// faultSentence lists what is wrong and where, each in the words of tell.
func faultSentence(err error, tell func(*jsonschema.ValidationError) string) string {
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
		faults = append(faults, "/"+strings.Join(e.InstanceLocation, "/")+": "+tell(e))
	}
	walk(ve)
	if n := len(faults); n > maxFaults {
		faults = append(faults[:maxFaults], fmt.Sprintf("and %d more", n-maxFaults))
	}
	return strings.Join(faults, "; ")
}

// faultOf says what is wrong with a value, and mostly the value.
func faultOf(e *jsonschema.ValidationError) string {
	_, what, found := strings.Cut(oneLine(e.Error()), "at '")
	if !found {
		return oneLine(e.Error())
	}
	_, what, _ = strings.Cut(what, "': ")
	return what
}

// ruleOf says which rule a value breaks.
func ruleOf(e *jsonschema.ValidationError) string {
	path := e.ErrorKind.KeywordPath()
	if len(path) == 0 {
		return "is not allowed"
	}
	return "breaks the rule " + path[len(path)-1]
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// wrapSchema makes a schema whose top level is not an object the member "value"
// of one that is. Definitions move up, so that references to them hold.
func wrapSchema(raw json.RawMessage) json.RawMessage {
	inner, outer := []byte{'{'}, []byte{}
	err := eachMember(raw, func(name string, v []byte) error {
		into := &inner
		if name == "$defs" || name == "definitions" || name == "$schema" {
			into = &outer
		}
		if n := len(*into); n != 1 || (*into)[0] != '{' {
			*into = append(*into, ',')
		}
		*into = append(appendString(*into, name), ':')
		*into = append(*into, v...)
		return nil
	})
	inner = append(inner, '}')
	if err != nil { // true or false
		inner = raw
	}
	return json.RawMessage(`{"type":"object","properties":{"value":` + string(inner) +
		`},"required":["value"],"additionalProperties":false` + string(outer) + `}`)
}

// completeSchema spells out what an object's schema may leave unsaid and
// providers insist on.
func completeSchema(raw json.RawMessage) json.RawMessage {
	has := map[string]bool{}
	_ = eachMember(raw, func(name string, _ []byte) error { // it is an object
		has[name] = true
		return nil
	})
	rest := bytes.TrimLeft(raw, jsonSpace)[1:]
	for _, m := range []struct{ name, member string }{{"properties", `"properties":{}`}, {"type", `"type":"object"`}} {
		if has[m.name] {
			continue
		}
		if len(has) > 0 {
			rest = slices.Concat([]byte{','}, rest)
		}
		rest = slices.Concat([]byte(m.member), rest)
		has[m.name] = true
	}
	return slices.Concat([]byte{'{'}, rest)
}

// withoutNulls returns v without the optional members that are null where the
// schema does not take null: strict providers have models write null for what
// they leave out.
func withoutNulls(schema, v any) any {
	s, _ := schema.(map[string]any)
	switch v := v.(type) {
	case map[string]any:
		properties, _ := s["properties"].(map[string]any)
		required, _ := s["required"].([]any)
		out := make(map[string]any, len(v))
		for name, e := range v {
			property, known := properties[name]
			if e == nil && known && !slices.Contains(required, any(name)) && !takesNull(property) {
				continue
			}
			out[name] = withoutNulls(property, e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = withoutNulls(s["items"], e)
		}
		return out
	}
	return v
}

func takesNull(schema any) bool {
	s, _ := schema.(map[string]any)
	switch t := s["type"].(type) {
	case string:
		return t == "null"
	case []any:
		return slices.Contains(t, any("null"))
	}
	return true // as far as can be seen here
}

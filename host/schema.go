package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// schema is a compiled JSON Schema: compiled once, when a tool is made. It is
// immutable.
type schema struct {
	doc    any
	object bool         // the top level is an object
	plain  *plainSchema // says at once that most values fit
	rule   *rule
}

// maxSchemaBytes bounds a schema. Those that generators make of whole services
// reach 431 kB.
const maxSchemaBytes = 512 << 10

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
	return CompileSchemaContext(context.Background(), raw)
}

// CompileSchemaContext is CompileSchema that ends with its context, between two
// pieces of the work; the error has code canceled or deadline_exceeded then.
func CompileSchemaContext(ctx context.Context, raw json.RawMessage) (*Schema, error) {
	s, err := compileSchema(ctx, raw)
	switch {
	case err == nil:
		return &Schema{schema: s, told: raw}, nil
	case isA[*Error](err):
		return nil, err
	}
	return nil, Errorf(InvalidArgument, "%w", err)
}

// Validate returns an error of code invalid_argument that says which values do
// not fit and how. JSON that readers might understand differently (a member
// given twice, a number beyond every type) does not fit, nor does JSON that is
// nested deeper than 512. Code resource_exhausted says that the schema takes too
// long to tell: one validation takes less than 200 ms of processor time, whatever
// the schema and the value are, and lets other goroutines go first meanwhile.
func (s *Schema) Validate(raw json.RawMessage) error {
	return s.ValidateContext(context.Background(), raw)
}

// ValidateContext is Validate that ends with its context; the error has code
// canceled or deadline_exceeded then.
func (s *Schema) ValidateContext(ctx context.Context, raw json.RawMessage) error {
	_, err := s.schema.check(ctx, raw, faultOf)
	return schemaError(err)
}

// ValidateUnseen is Validate for values that are somebody else's: its error says
// which places do not fit and which rules they break, and nothing of what is
// there.
func (s *Schema) ValidateUnseen(raw json.RawMessage) error {
	_, err := s.schema.check(context.Background(), raw, ruleOf)
	return schemaError(err)
}

// schemaError gives an error of a validation its code.
func schemaError(err error) error {
	switch {
	case err == nil, isA[*Error](err):
		return err
	case isA[errTooManyChecks](err):
		return Errorf(ResourceExhausted, "%w", err)
	}
	return Errorf(InvalidArgument, "%w", err)
}

// maxCompileError bounds the words for a schema that does not compile.
const maxCompileError = 1000

func compileSchema(ctx context.Context, raw json.RawMessage) (*schema, error) {
	if len(raw) > maxSchemaBytes {
		return nil, fmt.Errorf("schema is %d bytes long, more than %d", len(raw), maxSchemaBytes)
	}
	doc, _, err := decodeBounded(raw)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	if err := estimateSchema(doc); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	if ctx.Err() != nil {
		return nil, contextEnd(ctx)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noRemote{})
	patterns := newPatternSet(ctx)
	c.UseRegexpEngine(patterns.compile)
	const here = "mem:///schema"
	if err := c.AddResource(here, doc); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	compiled, err := c.Compile(here)
	switch {
	case ctx.Err() != nil:
		return nil, contextEnd(ctx)
	case patterns.bound != nil:
		return nil, fmt.Errorf("schema: %w", patterns.bound)
	case err != nil:
		return nil, fmt.Errorf("schema: %s", cutText(oneLine(err.Error()), maxCompileError))
	}
	r, err := newRules(compiled)
	if err != nil {
		return nil, err
	}
	return &schema{doc: doc, object: isObjectSchema(doc), plain: newPlainSchema(doc), rule: r}, nil
}

// decodeBounded is decodeStrict for what is nested no deeper than maxValueDepth.
func decodeBounded(raw []byte) (doc any, nodes int, err error) {
	if err := jsondoc.Check(raw); err != nil {
		return nil, 0, err
	}
	if len(raw) > 2*maxValueDepth && jsondoc.WrittenDepth(raw) > maxValueDepth {
		return nil, 0, errTooDeep()
	}
	return jsondoc.DecodeStrict(raw)
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

// check decodes a value and checks it. Its error says which value is wrong and
// how, in the words of tell.
func (s *schema) check(ctx context.Context, raw json.RawMessage, tell func(*fault) string) (any, error) {
	v, nodes, err := decodeBounded(raw)
	if err != nil {
		return nil, err
	}
	if s.plain.fits(v) {
		return v, nil
	}
	return v, s.newCheck(ctx, nodes, len(raw)).validate(v, tell)
}

// schemaCheck holds values to a schema, with the work that one value gets.
type schemaCheck struct {
	checker
	schema *schema
}

func (s *schema) newCheck(ctx context.Context, nodes, size int) *schemaCheck {
	return &schemaCheck{checker{workMeter: workMeter{ctx: ctx, left: workFor(nodes, size)}}, s}
}

// validate returns why a decoded value does not fit.
func (c *schemaCheck) validate(v any, tell func(*fault) string) error {
	ok, err := c.fits(c.schema.rule, v)
	if ok || err != nil {
		return err
	}
	return c.misfit(v, tell)
}

// misfit says what is wrong with a value that does not fit.
func (c *schemaCheck) misfit(v any, tell func(*fault) string) error {
	faults, err := c.explain(c.schema.rule, v)
	if err != nil {
		return err
	}
	return errors.New(faults.sentence(tell))
}

// arguments returns a model's arguments as they fit, which may be without nulls
// that strict providers have models write. Both attempts share the work of one
// value.
func (s *schema) arguments(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
	v, nodes, err := decodeBounded(raw)
	if err != nil {
		return nil, err
	}
	if s.plain.fits(v) {
		return raw, nil
	}
	c := s.newCheck(ctx, nodes, len(raw))
	ok, err := c.fits(s.rule, v)
	if ok || err != nil {
		return raw, err
	}
	if trimmed, err := c.withoutNulls(v); err == nil {
		if again, err := c.fits(s.rule, trimmed); again && err == nil {
			return jsondoc.Encode(trimmed), nil
		}
	}
	return nil, c.misfit(v, faultOf)
}

// wrapSchema makes a schema whose top level is not an object the member "value"
// of one that is. Definitions move up, so that references to them hold.
func wrapSchema(raw json.RawMessage) json.RawMessage {
	inner, outer := []byte{'{'}, []byte{}
	err := jsondoc.EachMember(raw, func(name string, v []byte) error {
		into := &inner
		if name == "$defs" || name == "definitions" || name == "$schema" {
			into = &outer
		}
		if n := len(*into); n != 1 || (*into)[0] != '{' {
			*into = append(*into, ',')
		}
		*into = append(jsondoc.AppendString(*into, name), ':')
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
	_ = jsondoc.EachMember(raw, func(name string, _ []byte) error { // it is an object
		has[name] = true
		return nil
	})
	rest := bytes.TrimLeft(raw, jsondoc.Space)[1:]
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
// they leave out. Each null looks through the names that are required, which is
// work like any other.
func (c *schemaCheck) withoutNulls(v any) (trimmed any, err error) {
	err = stopped(func() { trimmed = c.trim(c.schema.doc, v) })
	return trimmed, err
}

func (c *schemaCheck) trim(schema, v any) any {
	c.spend(trackWork)
	s, _ := schema.(map[string]any)
	switch v := v.(type) {
	case map[string]any:
		properties, _ := s["properties"].(map[string]any)
		required, _ := s["required"].([]any)
		out := make(map[string]any, len(v))
		for name, e := range v {
			property, known := properties[name]
			if e == nil && known && !c.lists(required, name) && !takesNull(property) {
				continue
			}
			out[name] = c.trim(property, e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = c.trim(s["items"], e)
		}
		return out
	}
	return v
}

// lists reports whether a list of names has one.
func (c *schemaCheck) lists(names []any, name string) bool {
	for _, n := range names {
		c.spend(1 + len(name)/bytesPerCompare)
		if n == name {
			return true
		}
	}
	return false
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

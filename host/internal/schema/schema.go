package schema

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Schema is a compiled JSON Schema: compiled once, when a tool is made. It is
// immutable.
type Schema struct {
	doc    any
	object bool       // the top level is an object
	plain  *plainRule // says at once that most values fit
	rule   *rule
}

// maxBytes bounds a schema. Schemas that generators make of whole services reach 431
// kB.
const maxBytes = 512 << 10

// noRemote refuses to load other documents: a plugin's schema must not make the
// host open files or connections.
type noRemote struct{}

func (noRemote) Load(url string) (any, error) {
	return nil, fmt.Errorf("refers to %q; a schema may only refer to itself", url)
}

// maxCompileError bounds the message for a schema that does not compile.
const maxCompileError = 1000

func Compile(ctx context.Context, raw json.RawMessage) (*Schema, error) {
	if len(raw) > maxBytes {
		return nil, fmt.Errorf("schema is %d bytes long, more than %d", len(raw), maxBytes)
	}
	doc, _, err := decodeBounded(raw)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	if err := estimate(doc); err != nil {
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
	return &Schema{doc: doc, object: takesObject(doc), plain: newPlainRule(doc), rule: r}, nil
}

// decodeBounded is jsondoc.DecodeStrict for JSON that is nested no deeper than
// maxValueDepth.
func decodeBounded(raw []byte) (doc any, nodes int, err error) {
	if err := jsondoc.Check(raw); err != nil {
		return nil, 0, err
	}
	return decodeValid(raw)
}

// decodeValid is decodeBounded for JSON that jsondoc.Check has accepted.
func decodeValid(raw []byte) (doc any, nodes int, err error) {
	if len(raw) > 2*maxValueDepth && jsondoc.WrittenDepth(raw) > maxValueDepth {
		return nil, 0, errTooDeep()
	}
	return jsondoc.DecodeStrictValid(raw)
}

func takesObject(doc any) bool {
	m, ok := doc.(map[string]any)
	if !ok {
		return false
	}
	if t, ok := m["type"]; ok {
		return t == "object"
	}
	return m["properties"] != nil || len(m) == 0
}

// IsObject reports whether the top level of the schema is an object.
func (s *Schema) IsObject() bool { return s.object }

// Validate returns an error that says which values in raw do not fit and how.
func (s *Schema) Validate(ctx context.Context, raw json.RawMessage) error {
	_, err := s.check(ctx, raw, faultOf)
	return err
}

// ValidateUnseen is Validate with an error that names the paths that do not fit and the
// rules that they break, but shows no values.
func (s *Schema) ValidateUnseen(ctx context.Context, raw json.RawMessage) error {
	_, err := s.check(ctx, raw, ruleOf)
	return err
}

// ValidateValue is Validate for a decoded value, whose JSON is size bytes long.
func (s *Schema) ValidateValue(v any, size int) error {
	if jsondoc.Depth(v) > maxValueDepth {
		return errTooDeep()
	}
	if huge := jsondoc.OutOfRange(v); huge != "" { // its fraction would have as many digits as the exponent says
		return jsondoc.ErrOutOfRange(huge)
	}
	return s.newCheck(context.Background(), jsondoc.CountValues(v), size).validate(v, faultOf)
}

// StillFits reports whether a decoded value is sure to fit. was is a value that does
// fit, or absent: parts that v shares with it are skipped. False means that the value
// may or may not fit.
func (s *Schema) StillFits(v any, was jsondoc.Optional) bool { return s.plain.stillFits(v, was) }

// check decodes a value and validates it. Its error lists the faults, in the words of
// tell.
func (s *Schema) check(ctx context.Context, raw json.RawMessage, tell func(*fault) string) (any, error) {
	v, nodes, err := decodeBounded(raw)
	if err != nil {
		return nil, err
	}
	if s.plain.fits(v) {
		return v, nil
	}
	return v, s.newCheck(ctx, nodes, len(raw)).validate(v, tell)
}

// check validates values against a schema, within the work of one value.
type check struct {
	schema  *Schema
	checker checker
}

func (s *Schema) newCheck(ctx context.Context, nodes, size int) *check {
	return &check{schema: s, checker: checker{work: workMeter{ctx: ctx, left: workFor(nodes, size)}}}
}

// validate returns why a decoded value does not fit.
func (c *check) validate(v any, tell func(*fault) string) error {
	ok, err := c.checker.fits(c.schema.rule, v)
	if ok || err != nil {
		return err
	}
	return c.misfit(v, tell)
}

// misfit returns the error for a value that does not fit.
func (c *check) misfit(v any, tell func(*fault) string) error {
	faults, err := c.checker.explain(c.schema.rule, v)
	if err != nil {
		return err
	}
	return errors.New(faults.sentence(tell))
}

// Arguments returns a model's arguments if they fit, or fit without the nulls that
// strict providers make models write. Both attempts share the work of one value. raw is JSON
// that jsondoc.Check has accepted.
func (s *Schema) Arguments(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
	v, nodes, err := decodeValid(raw)
	if err != nil {
		return nil, err
	}
	if s.plain.fits(v) {
		return raw, nil
	}
	c := s.newCheck(ctx, nodes, len(raw))
	ok, err := c.checker.fits(s.rule, v)
	if ok || err != nil {
		return raw, err
	}
	if trimmed, err := c.withoutNulls(v); err == nil {
		if again, err := c.checker.fits(s.rule, trimmed); again && err == nil {
			return jsondoc.Encode(trimmed), nil
		}
	}
	return nil, c.misfit(v, faultOf)
}

// Wrap makes a schema whose top level is not an object the member "value"
// of one that is. Definitions move up, so that references to them hold.
func Wrap(raw json.RawMessage) json.RawMessage {
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

// Complete adds the members that an object's schema may omit and providers require.
func Complete(raw json.RawMessage) json.RawMessage {
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

// withoutNulls returns v without the optional members that are null where the schema
// does not take null: strict providers make models write null for members that they
// leave out. The search for each null among the required names is charged.
func (c *check) withoutNulls(v any) (trimmed any, err error) {
	err = stopped(func() { trimmed = c.checker.work.withoutNulls(c.schema.doc, v) })
	return trimmed, err
}

// withoutNulls returns v without such members, by the document of its schema.
func (m *workMeter) withoutNulls(schema, v any) any {
	m.spend(trackWork)
	s, _ := schema.(map[string]any)
	switch v := v.(type) {
	case map[string]any:
		properties, _ := s["properties"].(map[string]any)
		required, _ := s["required"].([]any)
		out := make(map[string]any, len(v))
		for name, e := range v {
			property, known := properties[name]
			if e == nil && known && !m.lists(required, name) && !takesNull(property) {
				continue
			}
			out[name] = m.withoutNulls(property, e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = m.withoutNulls(s["items"], e)
		}
		return out
	}
	return v
}

// lists reports whether a list of names has the given one.
func (m *workMeter) lists(names []any, name string) bool {
	for _, n := range names {
		m.spend(1 + len(name)/bytesPerCompare)
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
	return true // a schema without type may take null
}

package host

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A schema can be small and take for ever: twenty definitions that each refer
// to the next one twice are a million checks of one value. The validator cannot
// be stopped from outside, and schemas come from plugins; so every check is
// counted.

// The budget of one validation: checks that any value gets, more for each value
// within it, and what no value gets. A check takes about half a microsecond.
const (
	baseChecks     = 50_000
	checksPerValue = 32
	maxChecks      = 4_000_000
)

// budget counts what is left of one validation.
type budget struct{ left int }

type budgetSpent struct{}

// errTooManyChecks says that nothing is known of a value.
type errTooManyChecks struct{}

func (errTooManyChecks) Error() string { return "the schema takes too many checks" }

func (b *budget) spend(values int, validate func() error) (err error) {
	b.left = min(baseChecks+checksPerValue*values, maxChecks)
	defer func() {
		if p := recover(); p == (budgetSpent{}) {
			err = errTooManyChecks{}
		} else if p != nil {
			panic(p)
		}
	}()
	return validate()
}

// watch has each part of a compiled schema pay when it is used. A format is the
// first thing that a part checks by a function, so it is the place to do it; the
// part above pays for what comes before: type, const and enum.
func (b *budget) watch(root *jsonschema.Schema) error {
	seen := map[*jsonschema.Schema]bool{}
	var visit func(v reflect.Value) error
	visit = func(v reflect.Value) error {
		switch v.Kind() {
		case reflect.Interface:
			return visit(v.Elem())
		case reflect.Slice:
			for i := range v.Len() {
				if err := visit(v.Index(i)); err != nil {
					return err
				}
			}
		case reflect.Map:
			for it := v.MapRange(); it.Next(); {
				if err := visit(it.Value()); err != nil {
					return err
				}
			}
		}
		s, ok := schemaOf(v)
		if !ok || seen[s] {
			return nil
		}
		seen[s] = true
		if s.DynamicRef != nil || s.RecursiveRef != nil {
			return fmt.Errorf("schema: $dynamicRef and $recursiveRef are not supported; use $ref")
		}
		b.charge(s)
		for _, field := range reflect.VisibleFields(reflect.TypeFor[jsonschema.Schema]()) {
			if !field.IsExported() {
				continue
			}
			if err := visit(v.Elem().FieldByIndex(field.Index)); err != nil {
				return err
			}
		}
		return nil
	}
	return visit(reflect.ValueOf(root))
}

func schemaOf(v reflect.Value) (*jsonschema.Schema, bool) {
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return nil, false
	}
	s, ok := v.Interface().(*jsonschema.Schema)
	return s, ok
}

// charge makes a part pay each time it is used.
func (b *budget) charge(s *jsonschema.Schema) {
	format := jsonschema.Format{Name: "any", Validate: func(any) error { return nil }}
	if s.Format != nil {
		format = *s.Format
	}
	validate := format.Validate
	p := priceOf(s)
	format.Validate = func(v any) error {
		if b.left -= p.of(v); b.left < 0 {
			panic(budgetSpent{})
		}
		return validate(v)
	}
	s.Format = &format
}

// price is what one use of a part of a schema costs.
type price struct {
	once      int // itself, and what it compares or hands on
	perMember int // each element or member of the value
	perByte   int // each byte of a string, in fractions
}

// patternFraction: matching a byte against a byte of a pattern is about this
// part of a check; a repetition stands for up to repetition times its length.
const (
	patternFraction = 50
	repetition      = 100
)

func (p price) of(v any) int {
	switch v := v.(type) {
	case map[string]any:
		return p.once + p.perMember*len(v)
	case []any:
		return p.once + p.perMember*len(v)
	case string:
		return p.once + p.perByte*len(v)/patternFraction
	}
	return p.once
}

func priceOf(s *jsonschema.Schema) price {
	p := price{once: 1 + len(s.AllOf) + len(s.AnyOf) + len(s.OneOf) + len(s.Required)}
	for _, here := range slices.Concat(s.AllOf, s.AnyOf, s.OneOf, []*jsonschema.Schema{s.Ref, s.Not, s.If, s.Then, s.Else}) {
		p.once += values(here)
	}
	for _, below := range s.Properties {
		p.once += values(below)
	}
	for _, below := range s.PrefixItems {
		p.once += values(below)
	}
	for _, below := range s.PatternProperties {
		p.perMember += 1 + values(below)
	}
	for _, below := range []any{s.Items, s.Items2020, s.AdditionalItems, s.AdditionalProperties, s.UnevaluatedItems,
		s.UnevaluatedProperties, s.Contains, s.PropertyNames} {
		p.perMember += values(below)
	}
	if s.Pattern != nil {
		p.perByte = len(s.Pattern.String())
		if strings.Contains(s.Pattern.String(), "{") {
			p.perByte *= repetition
		}
	}
	return p
}

// values returns how many values a part compares one with, before it pays.
func values(part any) int {
	switch s := part.(type) {
	case *jsonschema.Schema:
		if s != nil && s.Enum != nil {
			return len(s.Enum.Values)
		}
	case []*jsonschema.Schema:
		n := 0
		for _, e := range s {
			n = max(n, values(e))
		}
		return n
	}
	return 0
}

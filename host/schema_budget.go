package host

import (
	"fmt"
	"reflect"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A schema can be small and take for ever: twenty definitions that each refer
// to the next one twice are a million checks of one value. The validator cannot
// be stopped from outside, and schemas come from plugins; so every check is
// counted.

// The budget of one validation: checks that any value gets, and more for each
// value within it.
const (
	baseChecks     = 10_000
	checksPerValue = 64
)

// budget counts what is left of one validation.
type budget struct{ left int }

type budgetSpent struct{}

func (b *budget) spend(values int, validate func() error) (err error) {
	b.left = baseChecks + checksPerValue*values
	defer func() {
		if p := recover(); p == (budgetSpent{}) {
			err = fmt.Errorf("the schema takes too many checks")
		} else if p != nil {
			panic(p)
		}
	}()
	return validate()
}

// watch has each part of a compiled schema report when it is used. A format is
// the first thing that a part checks by a function, so it is the place to do
// it; what comes before it (type, const, enum) is paid for by the part's price.
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

// charge makes a part pay each time it is used: one, and one for each thing that
// it compares or hands on without a format of its own.
func (b *budget) charge(s *jsonschema.Schema) {
	price := 1 + len(s.AllOf) + len(s.AnyOf) + len(s.OneOf) + len(s.Required) + len(s.PatternProperties)
	if s.Enum != nil {
		price += len(s.Enum.Values)
	}
	format := jsonschema.Format{Name: "any", Validate: func(any) error { return nil }}
	if s.Format != nil {
		format = *s.Format
	}
	validate := format.Validate
	format.Validate = func(v any) error {
		if b.left -= price; b.left < 0 {
			panic(budgetSpent{})
		}
		return validate(v)
	}
	s.Format = &format
}

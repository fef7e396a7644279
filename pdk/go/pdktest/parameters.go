package pdktest

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/agenthost/agenthost/pdk/go/pdk"
)

// checkArguments fails the test if arguments do not fit the parameters of a tool: a
// host would refuse them before the plugin sees them.
func (h *Host) checkArguments(t testing.TB, name string, arguments pdk.Raw) {
	t.Helper()
	entry := h.manifestEntry(t, "tools", name)
	if entry == "" {
		return // which is for the plugin to answer
	}
	parameters := entry.Get("parameters")
	if parameters == "" {
		parameters = `{"type":"object","additionalProperties":false}`
	}
	if err := (fitting{parameters, new(int)}).check(parameters, arguments, "", 0); err != nil {
		t.Fatalf("tool %s: the arguments %s do not fit its parameters: %v; a host would refuse them. "+
			"To see what the plugin makes of them, use Call", name, arguments, err)
	}
}

// maxFittingDepth and maxFittingSteps bound how far a schema is followed, which may
// refer to itself.
const maxFittingDepth, maxFittingSteps = 64, 1_000_000

// fitting holds values to a JSON Schema, as far as the keywords go that schemas of
// parameters are written with: $ref into the same document, type, enum, const,
// properties, required, additionalProperties, items, the bounds of numbers, lengths
// and items, allOf, anyOf and oneOf. Others are passed over: a host checks them as
// well.
type fitting struct {
	root  pdk.Raw
	steps *int
}

func (f fitting) check(schema, value pdk.Raw, at string, depth int) error {
	*f.steps++
	switch {
	case depth > maxFittingDepth || *f.steps > maxFittingSteps || schema == "true":
		return nil
	case schema == "false":
		return fmt.Errorf("%s may not be there", valueAt(at))
	case schema.Kind() != pdk.KindObject:
		return nil
	}
	if ref, ok := schema.Get("$ref").Str(); ok {
		if err := f.check(f.resolve(ref), value, at, depth+1); err != nil {
			return err
		}
	}
	for _, check := range []func(schema, value pdk.Raw, at string) error{checkType, checkValues, checkBounds} {
		if err := check(schema, value, at); err != nil {
			return err
		}
	}
	if err := f.checkInside(schema, value, at, depth); err != nil {
		return err
	}
	return f.checkCombined(schema, value, at, depth)
}

// valueAt is a JSON pointer as an error names it.
func valueAt(at string) string {
	if at == "" {
		return "the value"
	}
	return at
}

// resolve returns what a reference into the same document names; true, which takes
// anything, if there is nothing.
func (f fitting) resolve(ref string) pdk.Raw {
	pointer, inside := strings.CutPrefix(ref, "#")
	if !inside {
		return "true"
	}
	here := f.root
	for _, name := range strings.Split(pointer, "/")[1:] {
		here = here.Get(strings.NewReplacer("~1", "/", "~0", "~").Replace(name))
	}
	if here == "" {
		return "true"
	}
	return here
}

func checkType(schema, value pdk.Raw, at string) error {
	types := schema.Get("type")
	if types == "" {
		return nil
	}
	var names []string
	if name, ok := types.Str(); ok {
		names = []string{name}
	}
	for element := range types.Elements() {
		name, _ := element.Str()
		names = append(names, name)
	}
	is := typeOf(value)
	if slices.Contains(names, is) || is == "integer" && slices.Contains(names, "number") {
		return nil
	}
	return fmt.Errorf("%s is %s, not %s", valueAt(at), is, strings.Join(names, " or "))
}

// typeOf is the type of a value in the words of JSON Schema: 2.0 is an integer.
func typeOf(value pdk.Raw) string {
	switch value.Kind() {
	case pdk.KindObject:
		return "object"
	case pdk.KindArray:
		return "array"
	case pdk.KindString:
		return "string"
	case pdk.KindBool:
		return "boolean"
	case pdk.KindNumber:
		if n := number(value); n != nil && n.IsInt() {
			return "integer"
		}
		return "number"
	}
	return "null"
}

// maxNumber bounds the text of a number that is compared: 1e1000000000 has more
// digits than memory.
const maxNumber = 400

// number is the value of a number; nil if it is none, or too long to be told.
func number(value pdk.Raw) *big.Rat {
	text := strings.ToLower(string(value))
	if _, exponent, ok := strings.Cut(text, "e"); len(text) > maxNumber || ok && len(strings.TrimLeft(exponent, "+-0")) > 3 {
		return nil
	}
	if n, ok := new(big.Rat).SetString(text); ok {
		return n
	}
	return nil
}

// checkValues checks enum and const.
func checkValues(schema, value pdk.Raw, at string) error {
	if only := schema.Get("const"); only != "" && !sameValue(only, value) {
		return fmt.Errorf("%s is %s, not %s", valueAt(at), value, only)
	}
	values := schema.Get("enum")
	if values == "" {
		return nil
	}
	for element := range values.Elements() {
		if sameValue(element, value) {
			return nil
		}
	}
	return fmt.Errorf("%s is %s, none of %s", valueAt(at), value, values)
}

// sameValue compares values without members and items; others by their text.
func sameValue(a, b pdk.Raw) bool {
	if s, ok := a.Str(); ok {
		t, ok := b.Str()
		return ok && s == t
	}
	if m, n := number(a), number(b); m != nil && n != nil {
		return m.Cmp(n) == 0
	}
	return a == b
}

// checkBounds checks the bounds of numbers, and of the lengths of strings, arrays
// and objects.
func checkBounds(schema, value pdk.Raw, at string) error {
	measures := map[string]*big.Rat{}
	count := func(n int) *big.Rat { return new(big.Rat).SetInt64(int64(n)) }
	switch value.Kind() {
	case pdk.KindNumber:
		measures["imum"] = number(value)
	case pdk.KindString:
		s, _ := value.Str()
		measures["Length"] = count(utf8.RuneCountInString(s))
	case pdk.KindArray:
		n := 0
		for range value.Elements() {
			n++
		}
		measures["Items"] = count(n)
	case pdk.KindObject:
		n := 0
		for range value.Members() {
			n++
		}
		measures["Properties"] = count(n)
	}
	for what, n := range measures {
		least, most := number(schema.Get("min"+what)), number(schema.Get("max"+what))
		switch {
		case n == nil:
		case least != nil && n.Cmp(least) < 0:
			return fmt.Errorf("%s is less than min%s %s allows: %s", valueAt(at), what, least.RatString(), value)
		case most != nil && n.Cmp(most) > 0:
			return fmt.Errorf("%s is more than max%s %s allows: %s", valueAt(at), what, most.RatString(), value)
		}
	}
	return nil
}

// checkInside checks members and items.
func (f fitting) checkInside(schema, value pdk.Raw, at string, depth int) error {
	switch value.Kind() {
	case pdk.KindArray:
		i := 0
		for element := range value.Elements() {
			if err := f.check(schema.Get("items"), element, fmt.Sprintf("%s/%d", at, i), depth+1); err != nil {
				return err
			}
			i++
		}
	case pdk.KindObject:
		return f.checkMembers(schema, value, at, depth)
	}
	return nil
}

func (f fitting) checkMembers(schema, value pdk.Raw, at string, depth int) error {
	for element := range schema.Get("required").Elements() {
		if name, _ := element.Str(); value.Get(name) == "" {
			return fmt.Errorf("%s has no member %q", valueAt(at), name)
		}
	}
	properties, others := schema.Get("properties"), schema.Get("additionalProperties")
	if schema.Get("patternProperties") != "" {
		others = "" // which members it has is not told
	}
	for name, member := range value.Members() {
		of := properties.Get(name)
		if of == "" {
			of = others
		}
		if err := f.check(of, member, at+"/"+name, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// checkCombined checks allOf, anyOf and oneOf.
func (f fitting) checkCombined(schema, value pdk.Raw, at string, depth int) error {
	for all := range schema.Get("allOf").Elements() {
		if err := f.check(all, value, at, depth+1); err != nil {
			return err
		}
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		fits, n := 0, 0
		for one := range schema.Get(keyword).Elements() {
			if n++; f.check(one, value, at, depth+1) == nil {
				fits++
			}
		}
		if n > 0 && fits == 0 {
			return fmt.Errorf("%s fits nothing of its %s: %s", valueAt(at), keyword, value)
		}
	}
	return nil
}

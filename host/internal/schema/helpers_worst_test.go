package schema

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// worstCase is a schema and a value that together ask for as much work as they can
// within the limits.
type worstCase struct {
	name   string
	schema string
	value  string
}

// repeated joins n texts; {n} in them is which one it is, {n+1} the next.
func repeated(n int, text, sep string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(sep)
		}
		b.WriteString(strings.ReplaceAll(strings.ReplaceAll(text, "{n}", strconv.Itoa(i)), "{n+1}", strconv.Itoa(i+1)))
	}
	return b.String()
}

// manyTimes is a schema that holds a value to part again and again: eight
// definitions that each refer sixteen times to the next.
func manyTimes(part string) string {
	var b strings.Builder
	for i := range 8 {
		fmt.Fprintf(&b, `"m%d":{"allOf":[%s]},`, i, repeated(16, fmt.Sprintf(`{"$ref":"#/$defs/m%d"}`, i+1), ","))
	}
	return `{"$ref":"#/$defs/m0","$defs":{` + b.String() + `"m8":` + part + `}}`
}

func oldDraft(schema string) string {
	schema = strings.Replace(schema, `{"$ref":"#/$defs/m0",`, `{"$schema":"http://json-schema.org/draft-07/schema#","allOf":[{"$ref":"#/$defs/m0"}],`, 1)
	return schema
}

// worstCases are the worst that are known of each keyword.
func worstCases() []worstCase {
	zeros := `[` + repeated(100_000, `0`, ",") + `]`
	lists := `[` + repeated(40_000, `[{n},[0]]`, ",") + `]`
	objects := `[` + repeated(40_000, `{"a":{n}}`, ",") + `]`
	members := `{` + repeated(40_000, `"member{n}":{n}`, ",") + `}`
	text := `"` + strings.Repeat("ab", 500_000) + `"`
	fraction := "0." + strings.Repeat("1234567", 50)
	huge := strings.Repeat("9", 300) + "e-390"
	deep := strings.Repeat(`[`, 510) + repeated(100_000, `0`, ",") + strings.Repeat(`]`, 510)
	return []worstCase{
		{"allOf", manyTimes(`{}`), zeros},
		{"allOf of types", manyTimes(`{"type":"array"}`), zeros},
		{"anyOf", `{"$ref":"#/$defs/a0","$defs":{` + repeated(50, `"a{n}":{"anyOf":[{"$ref":"#/$defs/a{n+1}"},{"$ref":"#/$defs/a{n+1}"}]}`, ",") + `,"a50":{"type":"string"}}}`, zeros},
		{"if", manyTimes(`{"if":{"minItems":1},"then":{"if":{"maxItems":0},"else":{}}}`), zeros},
		{"not", manyTimes(`{"not":{"not":{"not":{"type":"string"}}}}`), zeros},
		{"oneOf", manyTimes(`{"oneOf":[{"type":"string"},{"minItems":1},{"type":"object"}]}`), zeros},
		{"items", manyTimes(`{"items":{}}`), zeros},
		{"items of a type", manyTimes(`{"items":{"type":"integer"}}`), zeros},
		{"prefixItems", manyTimes(`{"prefixItems":[` + repeated(1000, `{"type":"number"}`, ",") + `]}`), zeros},
		{"contains", manyTimes(`{"contains":{"const":1},"minContains":0}`), zeros},
		{"maxContains", manyTimes(`{"contains":{"type":"number"},"maxContains":1000000}`), zeros},
		{"const of a list", manyTimes(`{"const":[` + repeated(50_000, "0", ",") + `]}`), `[` + repeated(50_000, "0", ",") + `]`},
		{"const of objects", manyTimes(`{"const":[` + repeated(20_000, `{"a":{n}}`, ",") + `]}`), `[` + repeated(20_000, `{"a":{n}}`, ",") + `]`},
		{"enum of lists", manyTimes(`{"not":{"enum":[` + repeated(20, `[`+repeated(2000, "0", ",")+`,{n}]`, ",") + `]}}`), `[` + repeated(2000, "0", ",") + `,99]`},
		{"enum of many", manyTimes(`{"items":{"not":{"enum":[` + repeated(20_000, `"v{n}"`, ",") + `]}}}`), `[` + repeated(100_000, `"v{n}x"`, ",") + `]`},
		{"enum of many lists", manyTimes(`{"items":{"not":{"enum":[` + repeated(20_000, `[{n}]`, ",") + `]}}}`), lists},
		{"uniqueItems of numbers", manyTimes(`{"uniqueItems":true}`), `[` + repeated(100_000, `{n}`, ",") + `]`},
		{"uniqueItems of texts", manyTimes(`{"uniqueItems":true}`), `[` + repeated(80_000, `"t{n}"`, ",") + `]`},
		{"uniqueItems of long texts", manyTimes(`{"uniqueItems":true}`), `[` + repeated(1000, `"{n}`+strings.Repeat("x", 1000)+`"`, ",") + `]`},
		{"uniqueItems of lists", manyTimes(`{"uniqueItems":true}`), lists},
		{"uniqueItems of objects", manyTimes(`{"uniqueItems":true}`), objects},
		{"required", manyTimes(`{"required":[` + repeated(20_000, `"member{n}"`, ",") + `]}`), members},
		{"required, of long names", manyTimes(`{"required":[` + repeated(40, `"{n}`+strings.Repeat("x", 10_000)+`"`, ",") + `]}`), `{` + repeated(40, `"{n}`+strings.Repeat("x", 10_000)+`":0`, ",") + `}`},
		{"dependentRequired", manyTimes(`{"dependentRequired":{"member0":[` + repeated(20_000, `"member{n}"`, ",") + `]}}`), members},
		{"dependentSchemas", manyTimes(`{"dependentSchemas":{` + repeated(5000, `"member{n}":{"type":"object"}`, ",") + `}}`), members},
		{"minProperties", manyTimes(`{"minProperties":1,"maxProperties":1000000}`), members},
		{"properties", manyTimes(`{"properties":{` + repeated(5000, `"member{n}":{"type":"number"}`, ",") + `}}`), members},
		{"additionalProperties", manyTimes(`{"additionalProperties":{"type":"number"}}`), members},
		{"patternProperties", manyTimes(`{"patternProperties":{` + repeated(100, `"x{n}y*z$":{}`, ",") + `}}`), members},
		{"propertyNames", manyTimes(`{"propertyNames":{"maxLength":100}}`), members},
		{"propertyNames of a pattern", manyTimes(`{"propertyNames":{"pattern":"(m|e)*[0-9]$"}}`), members},
		{"unevaluatedProperties", manyTimes(`{"anyOf":[` + repeated(20, `{"properties":{`+repeated(40, `"member{n}":{}`, ",")+`}}`, ",") + `],"unevaluatedProperties":{"type":"number"}}`), members},
		{"unevaluatedItems", manyTimes(`{"anyOf":[{"contains":{"type":"number"}},{"prefixItems":[{},{}]}],"unevaluatedItems":{}}`), zeros},
		{"minLength", manyTimes(`{"minLength":3}`), text},
		{"minLength of many", manyTimes(`{"items":{"minLength":1}}`), `[` + repeated(100_000, `"é{n}"`, ",") + `]`},
		{"pattern", manyTimes(`{"pattern":"(a|b)*$"}`), text},
		{"a large pattern", manyTimes(`{"pattern":"([ab]?){900}([ab]?){900}$"}`), text},
		{"a pattern of nothing", manyTimes(`{"pattern":"^((a?)*b?)*$"}`), text},
		{"a pattern of many texts", manyTimes(`{"items":{"pattern":"(x+x+)+y|a[a-f]*[^g]$"}}`), `[` + repeated(60_000, `"aaaa{n}"`, ",") + `]`},
		{"minimum", manyTimes(`{"items":{"minimum":-1}}`), zeros},
		{"minimum of fractions", manyTimes(`{"items":{"minimum":-1.5,"maximum":` + fraction + `e300}}`), `[` + repeated(2000, fraction, ",") + `]`},
		{"minimum of long numbers", manyTimes(`{"items":{"minimum":-1.5}}`), `[` + repeated(2000, huge, ",") + `]`},
		{"multipleOf", manyTimes(`{"items":{"multipleOf":1}}`), zeros},
		{"multipleOf, long", manyTimes(`{"items":{"multipleOf":1e-399}}`), `[` + repeated(2000, huge, ",") + `]`},
		{"integer", manyTimes(`{"items":{"type":"integer"}}`), `[` + repeated(2000, strings.Repeat("9", 350)+".0", ",") + `]`},
		{"short integer", manyTimes(`{"items":{"type":"integer"}}`), `[` + repeated(100_000, "1.0", ",") + `]`},
		{"format uri", oldDraft(manyTimes(`{"format":"uri"}`)), `"http://a/` + strings.Repeat("%41", 300_000) + `"`},
		{"format uri-template", oldDraft(manyTimes(`{"format":"uri-template"}`)), `"http://a/` + strings.Repeat("%7B%7D/", 140_000) + `"`},
		{"format json-pointer", oldDraft(manyTimes(`{"format":"json-pointer"}`)), `"` + strings.Repeat("/", 65_000) + `"`},
		{"format semver", oldDraft(manyTimes(`{"format":"semver"}`)), `"1.2.3-` + strings.Repeat("a.", 32_000) + `a"`},
		{"format duration", oldDraft(manyTimes(`{"format":"duration"}`)), `"P` + strings.Repeat("1", 1_000_000) + `Y"`},
		{"format regex", oldDraft(manyTimes(`{"format":"regex"}`)), `"` + strings.Repeat("a|b*", 2_900) + `"`},
		{"format regex of classes", oldDraft(manyTimes(`{"format":"regex"}`)), `"` + strings.Repeat(`(?i)[a-\\x{1E943}]`, 1) + `"`},
		{"format regex of repetitions", oldDraft(manyTimes(`{"format":"regex"}`)), `"` + strings.Repeat(`a{900}`, 100) + `"`},
		{"format date of many", oldDraft(manyTimes(`{"items":{"format":"date-time"}}`)), `[` + repeated(40_000, `"2024-01-01T00:00:00Z"`, ",") + `]`},
		{"a deep value", `{"$ref":"#/$defs/a0","$defs":{` + repeated(2, `"a{n}":{"allOf":[{"$ref":"#/$defs/a{n+1}"}]}`, ",") + `,"a2":{"items":{"$ref":"#"}}}}`, deep},
		{"a value too deep", `{"$ref":"#/$defs/a0","$defs":{` + repeated(60, `"a{n}":{"allOf":[{"$ref":"#/$defs/a{n+1}"}]}`, ",") + `,"a60":{"items":{"$ref":"#"}}}}`, deep},
	}
}

// compileCases are schemas that take long to compile, or would.
func compileCases() []worstCase {
	return []worstCase{
		{name: "a generated service", schema: generatedService(690, "$defs")},
		{name: "a generated service of components", schema: generatedService(690, "components/schemas")},
		{name: "nested not", schema: strings.Repeat(`{"not":`, 63) + `{}` + strings.Repeat(`}`, 63)},
		{name: "nested properties", schema: strings.Repeat(`{"properties":{"a":`, 63) + `{}` + strings.Repeat(`}}`, 63)},
		{name: "flat", schema: `{"allOf":[` + repeated(11_000, `{"a":1}`, ",") + `]}`},
		{name: "long names", schema: `{"properties":{"` + strings.Repeat("x", 10_000) + `":{"properties":{` + repeated(700, `"{n}":{"type":"string"}`, ",") + `}}}}`},
		{name: "references", schema: `{"allOf":[` + repeated(5000, `{"$ref":"#/$defs/a"}`, ",") + `],"$defs":{"a":{"type":"string"}}}`},
		{name: "references to no part", schema: `{"allOf":[` + repeated(200, `{"$ref":"#/x/d{n}"}`, ",") + `],"x":{` + repeated(200, `"d{n}":{"properties":{"a":{"type":"string"}}}`, ",") + `}}`},
		{name: "addresses", schema: `{"allOf":[` + repeated(1000, `{"$id":"a{n}"}`, ",") + `]}`},
		{name: "anchors", schema: `{"allOf":[` + repeated(4000, `{"$dynamicAnchor":"a{n}"}`, ",") + `]}`},
		{name: "misfits", schema: `{"allOf":[` + repeated(10_000, `{"type":1}`, ",") + `]}`},
		{name: "patterns", schema: `{"allOf":[` + repeated(1000, `{"pattern":"a{90}[b-z]+{n}"}`, ",") + `]}`},
		{name: "folded patterns", schema: `{"allOf":[` + repeated(50, `{"pattern":"(?i)[a-\\x{1E94{n}}]"}`, ",") + `]}`},
		{name: "classes", schema: `{"pattern":"[` + strings.Repeat(`\\pL`, 1400) + `]"}`},
		{name: "alternatives", schema: `{"pattern":"` + alternatives(400) + `"}`},
		{name: "a large enum", schema: `{"enum":[` + repeated(60_000, `{n}`, ",") + `]}`},
	}
}

// alternatives is a pattern of n words that begin alike.
func alternatives(n int) string {
	var list []string
	for i := range n {
		list = append(list, strings.Repeat("a", i+1))
	}
	return strings.Join(list, "|")
}

// generatedService is a schema as generators make it of a service's description: n
// models that refer to each other, twelve levels deep.
func generatedService(n int, under string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"M%d":{"type":"object","description":"Model %d of the generated service, in words that its document has for it.","required":["id"],"properties":{"id":{"type":"string","format":"uuid"},"name":{"type":["string","null"],"maxLength":200},"kind":{"enum":["a","b","c"]},"tags":{"type":"array","items":{"type":"string","pattern":"^[a-z]+$"}},"next":{"$ref":"#/UNDER/M%d"},"any":{"oneOf":[{"$ref":"#/UNDER/M%d"},{"type":"object","properties":{"x":{"type":"object","properties":{"y":{"type":"array","items":{"type":"object","properties":{"z":{"anyOf":[{"type":"array","items":{"type":"object","properties":{"w":{"minimum":0}}}}]}}}}}}}}]}}}`,
			i, i, (i+1)%n, (i*7+1)%n)
	}
	open, end := "", ""
	for _, name := range strings.Split(under, "/") {
		open, end = open+`"`+name+`":{`, end+`}`
	}
	return strings.ReplaceAll(`{"type":"object","properties":{"root":{"$ref":"#/UNDER/M0"}},`+open+b.String()+end+`}`, "UNDER", under)
}

func isA[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

// The kinds of errors that the package host tells apart.
const (
	misfit        = "a misfit"
	tooManyChecks = "too many checks"
	ended         = "ended"
)

func kindOf(err error) string {
	switch {
	case err == nil:
		return ""
	case isA[TooManyChecksError](err):
		return tooManyChecks
	case isA[*EndedError](err):
		return ended
	}
	return misfit
}

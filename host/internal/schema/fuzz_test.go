package schema

import (
	"encoding/json"
	"testing"
)

// FuzzSchemas compiles any schema and holds any value to it: what compiles says the
// same as the library, within the work that a value gets.
func FuzzSchemas(f *testing.F) {
	for _, schema := range []string{
		`true`, `{"type":"integer","minimum":1}`, `{"$ref":"#/x","x":{"enum":[1,[2],{"a":3}]}}`, `{"$id":"http://a/b","$defs":{"c":{"$id":"d","$anchor":"e"}},"items":{"$ref":"d#e"}}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","format":"uri","dependencies":{"a":["b"]}}`, `{"patternProperties":{"(?i)^[a-z]{1,3}$":{"uniqueItems":true}},"unevaluatedProperties":false}`,
		`{"anyOf":[{"contains":{"const":1},"maxContains":2},{"prefixItems":[{}]}],"unevaluatedItems":{"multipleOf":0.5}}`, `{"$ref":"http://json-schema.org/draft-07/schema#"}`,
	} {
		for _, value := range []string{`1`, `"http://a"`, `[1,1,{"a":[]}]`, `{"a":1,"abc":[1,1.0]}`, `2e0`, `null`} {
			f.Add([]byte(schema), []byte(value))
		}
	}
	f.Fuzz(func(t *testing.T, schema, value []byte) {
		if len(schema) > 4<<10 || len(value) > 4<<10 {
			return // the library takes its time
		}
		s, err := Compile(t.Context(), schema)
		if err != nil {
			return
		}
		library, err := compileByLibrary(json.RawMessage(schema))
		if err != nil {
			t.Fatalf("the library does not compile %s: %v", schema, err)
		}
		v, nodes, err := decodeBounded(value)
		if err != nil {
			return
		}
		c := s.newCheck(t.Context(), nodes, len(value))
		given := c.checker.work.left
		got := c.validate(v, faultOf)
		if isA[TooManyChecksError](got) || given-c.checker.work.left > given/4 {
			return // the library would take longer
		}
		if want := library.Validate(v); (got == nil) != (want == nil) {
			t.Fatalf("schema %s, value %s: %v, the library says: %v", schema, value, got, want)
		}
	})
}

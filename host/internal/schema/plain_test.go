package schema

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// This file looks at two validators from inside: whatever the first takes, the
// second takes.

func anyPlainSchema(depth int) *rapid.Generator[map[string]any] {
	return rapid.Custom(func(t *rapid.T) map[string]any {
		s := map[string]any{}
		kind := rapid.SampledFrom([]string{"object", "object", "array", "string", "integer", "number", "boolean", "null", ""}).Draw(t, "kind")
		switch {
		case rapid.IntRange(0, 4).Draw(t, "nullable") == 0 && kind != "" && kind != "null":
			s["type"] = []any{kind, "null"}
		case kind != "":
			s["type"] = kind
		}
		if kind == "string" && rapid.Bool().Draw(t, "enum") {
			s["enum"] = []any{"a", "b"}
		}
		if depth > 0 && (kind == "object" || kind == "") {
			members := map[string]any{}
			for _, name := range []string{"a", "b"} {
				if rapid.Bool().Draw(t, name) {
					members[name] = anyPlainSchema(depth-1).Draw(t, "member")
				}
			}
			s["properties"] = members
			s["required"] = rapid.SampledFrom([][]any{{}, {"a"}, {"a", "c"}}).Draw(t, "required")
			if s["additionalProperties"] = rapid.Bool().Draw(t, "open"); rapid.Bool().Draw(t, "rest") {
				s["additionalProperties"] = anyPlainSchema(depth-1).Draw(t, "others")
			}
		}
		if depth > 0 && kind == "array" {
			s["items"] = anyPlainSchema(depth-1).Draw(t, "items")
		}
		switch rapid.IntRange(0, 9).Draw(t, "more") {
		case 0:
			s["minLength"] = 1
		case 1:
			s["minimum"] = 0
		case 2:
			s["minimum"] = 1
		}
		return s
	})
}

func anyJSONValue(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		switch n := rapid.IntRange(0, 7).Draw(t, "value"); {
		case n == 0:
			return nil
		case n == 1:
			return rapid.Bool().Draw(t, "bool")
		case n == 2:
			return json.Number(rapid.SampledFrom([]string{"0", "-1", "7", "1.5", "1e2", "-0", "2.0"}).Draw(t, "number"))
		case n == 3 || depth == 0:
			return rapid.SampledFrom([]string{"a", "b", "c", ""}).Draw(t, "string")
		case n == 4:
			return rapid.SliceOfN(anyJSONValue(depth-1), 0, 3).Draw(t, "array")
		}
		m := map[string]any{}
		for _, name := range []string{"a", "b", "c"} {
			if rapid.Bool().Draw(t, name) {
				m[name] = anyJSONValue(depth-1).Draw(t, "member")
			}
		}
		return m
	})
}

func TestPlainSchemasTakeNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw, err := json.Marshal(anyPlainSchema(2).Draw(t, "schema"))
		if err != nil {
			t.Fatal(err)
		}
		s, err := Compile(t.Context(), raw)
		if err != nil {
			t.Fatal(err)
		}
		var fit jsondoc.Optional // the last value that did
		for range 8 {
			value, err := json.Marshal(anyJSONValue(2).Draw(t, "value"))
			if err != nil {
				t.Fatal(err)
			}
			v, nodes, err := jsondoc.DecodeStrict(value)
			if err != nil {
				t.Fatal(err)
			}
			if fit.Present && rapid.Bool().Draw(t, "patched") {
				v = mixed(t, fit.Value, v)
				nodes = jsondoc.CountValues(v)
			}
			err = s.newCheck(t.Context(), nodes, len(value)).validate(v, faultOf)
			if s.plain.stillFits(v, fit) && err != nil {
				t.Fatalf("schema %s is said to take %s after %v; the validator says: %v", raw, jsondoc.Encode(v), fit, err)
			}
			if err == nil {
				fit = jsondoc.Optional{Value: v, Present: true}
			}
		}
	})
}

// mixed draws a value that shares parts with old, as one that was patched does.
func mixed(t *rapid.T, old, other any) any {
	switch v := other.(type) {
	case map[string]any:
		if was, ok := old.(map[string]any); ok {
			for name, part := range was {
				if rapid.Bool().Draw(t, "kept") {
					v[name] = part
				}
			}
		}
	case []any:
		if was, ok := old.([]any); ok {
			for i := range min(len(was), len(v)) {
				if rapid.Bool().Draw(t, "kept") {
					v[i] = was[i]
				}
			}
		}
	}
	return other
}

func TestPlainSchemasTakeWhatTheyShould(t *testing.T) {
	s, err := Compile(t.Context(), json.RawMessage(`{"type":"object","required":["n"],"additionalProperties":false,"properties":{
		"n":{"type":["integer","null"]},"x":{"type":"number"},"s":{"type":"string","enum":["a","b"]},"l":{"type":"array","items":{"type":"boolean"}},"o":{}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for raw, want := range map[string]bool{
		`{"n":1042}`: true, `{"n":-1,"x":1.5,"s":"a","l":[true,false],"o":{"any":[1]}}`: true, `{"n":null,"l":[]}`: true,
		`{}`: false, `{"n":"1"}`: false, `{"n":1.5}`: false, `{"n":1,"s":"c"}`: false, `{"n":1,"l":[1]}`: false, `{"n":1,"more":1}`: false, `[]`: false,
		`{"n":1.0}`: false, // the validator takes it
	} {
		v, _, err := jsondoc.DecodeStrict([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		if got := s.plain.fits(v); got != want {
			t.Errorf("%s fits: %t, want %t", raw, got, want)
		}
	}
}

func TestPlainSchemas(t *testing.T) {
	for raw, value := range map[string]string{ // that fits; none if nobody can be sure
		`{"type":"object","properties":{"order":{"type":"integer","description":"d"}},"required":["order"],"additionalProperties":false}`: `{"order":1}`,
		`{"type":"object","properties":{"n":{"type":["integer","null"]},"tags":{"type":"array","items":{"type":"string"}}}}`:              `{"n":null,"tags":["a"]}`,
		`{}`: `[{}]`,
		`{"type":"object","additionalProperties":{"type":"string"}}`:                  `{"a":"b"}`,
		`{"type":"object","properties":{"a":true}}`:                                   `{"a":1}`,
		`{"type":"object","properties":{"n":{"type":"integer","minimum":0}}}`:         `{"n":0}`,
		`{"$schema":"https://json-schema.org/draft/2020-12/schema","$defs":{"x":{}}}`: `1`,
		`{"type":"object","properties":{"s":{"type":"string","pattern":"^a"}}}`:       ``,
		`{"type":"object","properties":{"s":{"type":"string","minLength":0}}}`:        ``,
		`{"enum":["a",1]}`:                      ``,
		`{"$ref":"#/$defs/x","$defs":{"x":{}}}`: ``,
	} {
		s, err := Compile(t.Context(), json.RawMessage(raw))
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if value != "" && !s.plain.fits(jsondoc.DecodeValid([]byte(value))) {
			t.Errorf("%s is not sure of %s", raw, value)
		}
		if value == "" && s.plain.fits(jsondoc.DecodeValid([]byte(`{"s":"a"}`))) {
			t.Errorf("%s is taken for a plain schema", raw)
		}
	}
}

func BenchmarkSchema(b *testing.B) {
	s, err := Compile(b.Context(), json.RawMessage(`{"type":"object","properties":{"order":{"type":"integer"}},"required":["order"],"additionalProperties":false}`))
	if err != nil {
		b.Fatal(err)
	}
	v, nodes, err := jsondoc.DecodeStrict([]byte(`{"order":1042}`))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			if !s.plain.fits(v) {
				b.Fatal("does not fit")
			}
		}
	})
	b.Run("validator", func(b *testing.B) {
		for b.Loop() {
			if err := s.newCheck(b.Context(), nodes, 14).validate(v, faultOf); err != nil {
				b.Fatal(err)
			}
		}
	})
}

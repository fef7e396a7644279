package schema

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// The library's validator is what the host's rules are compared with: both must
// say the same of every value.

// wholeSchema draws a schema of any keywords, which may refer to definitions.
func wholeSchema(depth int, draft int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		if rapid.IntRange(0, 19).Draw(t, "verdict") == 0 && draft >= 6 {
			return rapid.Bool().Draw(t, "bool")
		}
		s := map[string]any{}
		for range rapid.IntRange(0, 3).Draw(t, "keywords") {
			name, v := wholeKeyword(t, depth, draft)
			if name != "" {
				s[name] = v
			}
		}
		return s
	})
}

var memberNames = []string{"a", "b", "c", "ab", ""}

func wholeKeyword(t *rapid.T, depth, draft int) (string, any) {
	below := func() any {
		if depth == 0 {
			return map[string]any{"type": rapid.SampledFrom([]any{"string", "integer", "object", "array"}).Draw(t, "leaf")}
		}
		return wholeSchema(depth-1, draft).Draw(t, "below")
	}
	several := func() any {
		list := []any{below()}
		for range rapid.IntRange(0, 2).Draw(t, "more") {
			list = append(list, below())
		}
		return list
	}
	named := func() any {
		m := map[string]any{}
		for range rapid.IntRange(0, 2).Draw(t, "members") {
			m[rapid.SampledFrom(memberNames).Draw(t, "name")] = below()
		}
		return m
	}
	names := func() any {
		list := []any{}
		for _, n := range memberNames[:rapid.IntRange(1, 2).Draw(t, "names")] {
			list = append(list, n)
		}
		return list
	}
	count := func() any { return rapid.IntRange(0, 3).Draw(t, "count") }
	number := func() any { return rapid.SampledFrom([]any{0, 1, -1, 1.5, 2, json.Number("1e2")}).Draw(t, "number") }
	keywords := map[string]func() any{
		"type": func() any {
			return rapid.SampledFrom([]any{"null", "boolean", "number", "integer", "string", "array", "object", []any{"string", "null"}, []any{"number", "array"}, []any{"integer", "object"}}).Draw(t, "type")
		},
		"enum": func() any {
			values := []any{}
			seen := map[string]bool{}
			for range 2 {
				v := anyJSONValue(2).Draw(t, "enum")
				raw, _ := json.Marshal(v)
				if !seen[string(raw)] {
					seen[string(raw)] = true
					values = append(values, v)
				}
			}
			return values[:1]
		},
		"allOf": several, "anyOf": several, "oneOf": several, "not": below,
		"properties": named, "additionalProperties": below, "minProperties": count, "maxProperties": count, "required": names,
		"patternProperties": func() any {
			return map[string]any{rapid.SampledFrom([]string{"^a", "b$", "."}).Draw(t, "pattern"): below()}
		},
		"minItems": count, "maxItems": count, "uniqueItems": func() any { return rapid.Bool().Draw(t, "unique") },
		"minLength": count, "maxLength": count, "pattern": func() any { return rapid.SampledFrom([]string{"^a", "b$", "a+b?", "^$"}).Draw(t, "pattern") },
		"minimum": number, "maximum": number, "multipleOf": func() any { return rapid.SampledFrom([]any{1, 2, 0.5}).Draw(t, "of") },
		"format": func() any {
			return rapid.SampledFrom([]string{"date", "uuid", "ipv4", "email", "regex", "uri", "none"}).Draw(t, "format")
		},
		"$ref": func() any { return fmt.Sprintf("#/definitions/d%d", rapid.IntRange(0, 2).Draw(t, "ref")) },
	}
	if draft < 2020 {
		keywords["items"] = func() any {
			if rapid.Bool().Draw(t, "list") {
				return several()
			}
			return below()
		}
		keywords["additionalItems"] = below
		keywords["dependencies"] = func() any {
			if rapid.Bool().Draw(t, "names") {
				return map[string]any{"a": names()}
			}
			return map[string]any{"a": below()}
		}
	}
	if draft >= 6 {
		keywords["const"] = func() any { return anyJSONValue(2).Draw(t, "const") }
		keywords["contains"], keywords["propertyNames"] = below, below
		keywords["exclusiveMinimum"], keywords["exclusiveMaximum"] = number, number
	}
	if draft >= 7 {
		keywords["if"], keywords["then"], keywords["else"] = below, below, below
	}
	if draft >= 2019 {
		keywords["dependentSchemas"] = func() any { return map[string]any{"a": below()} }
		keywords["dependentRequired"] = func() any { return map[string]any{"b": names()} }
		keywords["unevaluatedProperties"], keywords["unevaluatedItems"] = below, below
		keywords["minContains"], keywords["maxContains"] = count, count
	}
	if draft >= 2020 {
		keywords["prefixItems"], keywords["items"] = several, below
	}
	name := rapid.SampledFrom(jsondoc.SortedNames(keywords)).Draw(t, "keyword")
	return name, keywords[name]()
}

var dialects = map[int]string{
	4: "http://json-schema.org/draft-04/schema#", 6: "http://json-schema.org/draft-06/schema#", 7: "http://json-schema.org/draft-07/schema#",
	2019: "https://json-schema.org/draft/2019-09/schema", 2020: "https://json-schema.org/draft/2020-12/schema",
}

// anySchema draws a whole schema with its definitions.
func anySchema() *rapid.Generator[json.RawMessage] {
	return rapid.Custom(func(t *rapid.T) json.RawMessage {
		draft := rapid.SampledFrom([]int{4, 6, 7, 2019, 2020}).Draw(t, "draft")
		s, _ := wholeSchema(3, draft).Draw(t, "schema").(map[string]any)
		if s == nil {
			s = map[string]any{}
		}
		definitions := map[string]any{}
		for i := range 3 {
			definitions[fmt.Sprintf("d%d", i)] = wholeSchema(1, draft).Draw(t, "definition")
		}
		s["$schema"], s["definitions"] = dialects[draft], definitions
		raw, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	})
}

func TestRulesSayWhatTheLibrarySays(t *testing.T) {
	fit, misfit, refused := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		raw := anySchema().Draw(t, "raw")
		library, libraryErr := compileByLibrary(raw)
		s, err := Compile(t.Context(), raw)
		if err != nil && libraryErr == nil && strings.Contains(err.Error(), "by way of itself") {
			return
		}
		if (err == nil) != (libraryErr == nil) {
			t.Fatalf("schema %s: %v, the library says: %v", raw, err, libraryErr)
		}
		if err != nil {
			refused++
			return
		}
		for range 12 {
			value, err := json.Marshal(anyJSONValue(4).Draw(t, "value"))
			if err != nil {
				t.Fatal(err)
			}
			v, nodes, err := jsondoc.DecodeStrict(value)
			if err != nil {
				t.Fatal(err)
			}
			want := library.Validate(v)
			got := s.newCheck(t.Context(), nodes, len(value)).validate(v, faultOf)
			if (got == nil) != (want == nil) {
				t.Fatalf("schema %s, value %s: %v, the library says: %v", raw, value, got, want)
			}
			if got == nil {
				fit++
				continue
			}
			misfit++
			if strings.Contains(got.Error(), "it does not fit") {
				t.Fatalf("schema %s, value %s: %v; the library says: %v", raw, value, got, want)
			}
		}
	})
	t.Logf("%d values fit, %d do not, %d schemas are refused", fit, misfit, refused)
}

func compileByLibrary(raw json.RawMessage) (*jsonschema.Schema, error) {
	doc, _, err := jsondoc.DecodeStrict(raw)
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noRemote{})
	if err := c.AddResource("mem:///schema", doc); err != nil {
		return nil, err
	}
	return c.Compile("mem:///schema")
}

package schematypes_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/internal/schematypes"
)

// order is a schema with most of what schemas of tools have.
const order = `{
  "description": "An order of a shop.",
  "type": "object",
  "properties": {
    "id": {"type": "integer", "minimum": 1},
    "state": {"enum": ["open", "paid", null], "description": "Where it is."},
    "content-type": {"type": "string"},
    "lines": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}, "count": {"type": "integer", "default": 1}}, "required": ["sku"]}},
    "to": {"$ref": "#/$defs/address"},
    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    "note": {"type": ["string", "null"]},
    "by": {"anyOf": [{"type": "string"}, {"type": "number"}]},
    "extra": {}
  },
  "required": ["id", "lines"],
  "$defs": {"address": {"type": "object", "properties": {"street": {"type": "string"}, "next": {"$ref": "#/$defs/address"}}}}
}`

func declare(t testing.TB, lang schematypes.Language, name, schema string) string {
	t.Helper()
	out, err := schematypes.Declare(lang, []schematypes.Type{{Name: name, Schema: json.RawMessage(schema)}})
	if err != nil {
		t.Fatalf("declare %s: %v", schema, err)
	}
	return out
}

func TestDeclareRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, lang, schema, text string
	}{
		{"an unknown language", "cobol", `{}`, `unknown language "cobol"`},
		{"text that is not JSON", "typescript", `{`, "not JSON"},
		{"a number", "typescript", `17`, "neither an object nor true or false"},
		{"an empty text", "typescript", ``, "not JSON"},
		{"a schema of two megabytes", "typescript", `{"title":"` + strings.Repeat("x", 2<<20) + `"}`, "at most 1048576"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, err := schematypes.Declare(schematypes.Language(tt.lang), []schematypes.Type{{Name: "X", Schema: json.RawMessage(tt.schema)}})
			if fault.CodeOf(err) != fault.InvalidArgument || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %q, %v; want an error of code invalid_argument with %q", out, err, tt.text)
			}
		})
	}
}

func TestNamesAndTextsOfSchemasBreakNoDeclaration(t *testing.T) {
	for _, tt := range []struct {
		name   string
		lang   schematypes.Language
		schema string
		want   string
		never  string
	}{
		{"marks that share a star end no comment", schematypes.TypeScript, `{"description":"a /*/ b(); /**/ c */"}`, "/** a / * / b();", "*/ b"},
		{"marks in a member's name end no comment", schematypes.C, `{"properties":{"/*/ b":{}}}`, `/* "/ * / b" */`, "*/ b"},
		{"a constant has the name of no type", schematypes.Go, `{"properties":{"state":{"enum":["a","b"]},"stateA":{"required":["x"]}}}`, "XStateA2 XState = \"a\"", "XStateA XState ="},
		{"the comment of a member that is left out is left out", schematypes.Zig, `{"properties":{"":{"description":"words"}}}`, "has a name that no field can have", "words"},
		{"a structure has no name of the kit", schematypes.C, `{"properties":{"a":{"$ref":"#/$defs/ahJson"}},"$defs":{"ahJson":{"required":["x"]}}}`, "struct my_ah_json_ {", "struct ah_json"},
		{"a type has no name of the C library", schematypes.C, `{"$ref":"#/$defs/size_t","$defs":{"size_t":{"required":["x"]}}}`, "struct my_size_t_ {", "struct size_t"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if out := declare(t, tt.lang, "x", tt.schema); !strings.Contains(out, tt.want) || strings.Contains(out, tt.never) {
				t.Errorf("want %q and not %q in:\n%s", tt.want, tt.never, out)
			}
		})
	}
}

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

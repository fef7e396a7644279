package toolschema_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/internal/toolschema"
)

func TestRead(t *testing.T) {
	for _, tt := range []struct{ name, raw, kind string }{
		{"a member", `{"properties":{"x":{"type":"integer"}}}`, "integer"},
		{"a type beside null", `{"properties":{"x":{"type":["null","boolean"]}}}`, "boolean"},
		{"a reference", `{"properties":{"x":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"number"}}}`, "number"},
		{"an older reference", `{"properties":{"x":{"$ref":"#/definitions/n"}},"definitions":{"n":{"type":"number"}}}`, "number"},
		{"a reference to itself", `{"properties":{"x":{"$ref":"#/$defs/x"}},"$defs":{"x":{"$ref":"#/$defs/x"}}}`, "string"},
		{"alternatives", `{"properties":{"x":{"anyOf":[{"type":"null"},{"type":"array"}]}}}`, "array"},
		{"an object without a type", `{"properties":{"x":{"properties":{"y":{}}}}}`, "object"},
		{"true", `{"properties":{"x":true}}`, "string"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if x := toolschema.Read([]byte(tt.raw)).Property("x"); x == nil || x.Kind() != tt.kind {
				t.Errorf("x is %+v, want a schema of %s", x, tt.kind)
			}
		})
	}
	for _, raw := range []string{``, `null`, `true`, `[]`, `{`, `{"type":17,"properties":[1]}`} {
		if s := toolschema.Read([]byte(raw)); s == nil || s.Kind() != "string" || s.Property("x") != nil {
			t.Errorf("%q is read as %+v, want an empty schema", raw, s)
		}
	}
}

func TestNumber(t *testing.T) {
	number, text := toolschema.Read([]byte(`{"type":["integer","null"]}`)), toolschema.Read([]byte(`{"type":"string"}`))
	for _, tt := range []struct {
		schema *toolschema.Schema
		text   string
		ok     bool
	}{{number, "9007199254740993", true}, {number, "-1.5", true}, {number, "007", false}, {number, `"7"`, false}, {number, "", false}, {text, "7", false}, {nil, "7", false}} {
		n, ok := tt.schema.Number(tt.text)
		if ok != tt.ok || ok && n.String() != tt.text {
			t.Errorf("Number(%q) = %q, %t; want %t", tt.text, n, ok, tt.ok)
		}
	}
}

// size returns how many schemas hang on one, itself included.
func size(s *toolschema.Schema) int {
	if s == nil {
		return 0
	}
	n := 1 + size(s.Items)
	for _, p := range s.Properties {
		n += size(p.Schema)
	}
	return n
}

func TestReferencesMakeABoundedNumberOfSchemas(t *testing.T) {
	var members []string
	for i := range 300 {
		members = append(members, fmt.Sprintf(`"m%d":{"$ref":"#/$defs/n"}`, i))
	}
	all := `{"type":"object","properties":{` + strings.Join(members, ",") + `}}`
	raw := all[:len(all)-1] + `,"$defs":{"n":` + all + `}}`
	if n := size(toolschema.Read([]byte(raw))); n < 2_000 || n > 10_000 {
		t.Errorf("%d schemas", n)
	}
}

// FuzzRead reads any bytes as a schema: it ends, and no member is without a schema.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{``, `true`, `{"properties":{"a":{"$ref":"#/$defs/b"}},"$defs":{"b":{"anyOf":[{"$ref":"#/$defs/b"}]}}}`,
		`{"type":["null","array"],"items":{"type":"array","items":{}},"required":["a"],"enum":[1,"x"]}`, `{"properties":{"a":null}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		s := toolschema.Read(raw)
		for _, p := range s.Properties {
			if p.Schema == nil {
				t.Fatalf("member %q has no schema", p.Name)
			}
			p.Schema.Kind()
		}
		s.Number("7")
	})
}

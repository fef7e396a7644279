package mcpclient

// Inside the package: the repair of a schema has no door of its own.

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
)

func TestSchemasAreRepairedForProviders(t *testing.T) {
	for _, row := range []struct{ name, schema, want, fails string }{
		{name: "a plain one stays", schema: `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`, want: `{"properties":{"a":{"type":"string"}},"required":["a"],"type":"object"}`},
		{name: "absent", schema: `null`, want: `{"properties":{},"type":"object"}`},
		{name: "any", schema: `true`, want: `{"properties":{},"type":"object"}`},
		{name: "no type", schema: `{"properties":{}}`, want: `{"properties":{},"type":"object"}`},
		{name: "an object or nothing", schema: `{"type":["object","null"]}`, want: `{"properties":{},"type":"object"}`},
		{name: "a choice at the top", schema: `{"type":"object","anyOf":[{"required":["a"]}]}`, want: `{"properties":{},"type":"object"}`},
		{name: "a choice below stays", schema: `{"type":"object","properties":{"a":{"anyOf":[{"type":"array"}]}}}`, want: `{"properties":{"a":{"anyOf":[{"items":{},"type":"array"}]}},"type":"object"}`},
		{name: "a reference within", schema: `{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"string"}}}`, want: `{"$defs":{"a":{"type":"string"}},"properties":{"a":{"$ref":"#/$defs/a"}},"type":"object"}`},
		{name: "a reference elsewhere", schema: `{"type":"object","properties":{"a":{"$ref":"other.json"}}}`, fails: "another document"},
		{name: "required of draft 3", schema: `{"type":"object","properties":{"a":{"type":"string","required":true}}}`, want: `{"properties":{"a":{"type":"string"}},"type":"object"}`},
		{name: "a list", schema: `{"type":"array"}`, fails: "not that of an object"},
		{name: "never", schema: `false`, fails: "not an object"},
		{name: "no JSON", schema: `{`, fails: "not JSON"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, _, err := repairSchema(json.RawMessage(row.schema))
			if row.fails != "" {
				if err == nil || !strings.Contains(err.Error(), row.fails) {
					t.Errorf("error %v, want %q in it", err, row.fails)
				}
				return
			}
			if err != nil || string(got) != row.want {
				t.Errorf("repaired to %s, %v; want %s", got, err, row.want)
			}
		})
	}
}

// A repaired schema is one that the host compiles or refuses with an error, and repairing it
// again changes nothing.
func FuzzRepairSchema(f *testing.F) {
	for _, seed := range []string{`{}`, `true`, `{"type":["object"]}`, `{"properties":{"a":{"items":[{}],"type":"array"}},"required":["b"]}`, `{"$ref":"#"}`, `{"type":"object","allOf":[1]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > 4<<10 {
			return
		}
		once, _, err := repairSchema(raw)
		if err != nil {
			return
		}
		twice, made, err := repairSchema(once)
		if err != nil || string(once) != string(twice) || len(made) > 0 {
			t.Errorf("%s is repaired to %s, and again to %s, %v, %v", raw, once, twice, made, err)
		}
		_, _ = host.CompileSchemaContext(t.Context(), once)
	})
}

func TestNamesFitProvidersAndStayApart(t *testing.T) {
	for name, want := range map[string]string{"plain-name_1": "plain-name_1", "": "_", "a.b": "a_b_", "a b": "a_b_", "größe": "gr__e_", strings.Repeat("x", 65): strings.Repeat("x", 55) + "_"} {
		if got := fitName(name); !strings.HasPrefix(got, want) || len(got) > maxToolName || fitName(got) != got {
			t.Errorf("fitName(%q) = %q, want it to begin with %q", name, got, want)
		}
	}
	if fitName("a.b") == fitName("a b") {
		t.Error("two names become one")
	}
}

func TestInvisibleCharactersAreTakenOut(t *testing.T) {
	for text, want := range map[string]string{
		"plain\ttext\nof two lines": "plain\ttext\nof two lines",
		"a\x00b\x1b[31mc":           "ab[31mc",
		"to\u202eward\u2066s":       "towards",
		"z\u200be\u200dr\ufeffo":    "zero",
		"tags\U000E0041\U000E007F":  "tags",
		"selectors\ufe0f\U000E0100": "selectors",
		"bad\xff bytes":             "bad bytes",
		"größe 漢字 🙂":                "größe 漢字 🙂",
	} {
		if got := plainText(text, 100); got != want {
			t.Errorf("plainText(%q) = %q, want %q", text, got, want)
		}
	}
	if got := plainText(strings.Repeat("ä", 10), 5); got != "ää…" {
		t.Errorf("a long text is cut to %q", got)
	}
}

func TestASearchRanksByWords(t *testing.T) {
	ix := newToolIndex(&Server{Name: "s"}, []Definition{{Name: "listOrders", Description: "Lists the orders of a customer."}, {Name: "order", Description: "Places one."}, {Name: "weather", Description: "Says how the weather is, in order."}})
	for query, want := range map[string][]string{
		"orders of customers": {"s__listOrders", "s__order", "s__weather"},
		"WEATHER":             {"s__weather"},
		"nothing":             nil,
		"":                    nil,
	} {
		var got []string
		for _, f := range ix.find(query).Tools {
			got = append(got, f.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("find(%q) = %q, want %q", query, got, want)
		}
	}
}

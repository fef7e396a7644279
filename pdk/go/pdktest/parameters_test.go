package pdktest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/pdk/go/pdk"
)

func TestArgumentsAreHeldToParameters(t *testing.T) {
	const order = `{"type":"object","required":["number"],"additionalProperties":false,"properties":{
		"number":{"type":"integer","minimum":1},"unit":{"enum":["c","f"]},"tags":{"type":"array","maxItems":2,"items":{"$ref":"#/$defs/tag"}},
		"note":{"anyOf":[{"type":"null"},{"type":"string","maxLength":3}]}},"$defs":{"tag":{"type":"string","minLength":1}}}`
	for _, c := range []struct{ schema, arguments, fault string }{
		{order, `{"number":1}`, ""},
		{order, `{"number":2.0,"unit":"c","tags":["a"],"note":null}`, ""},
		{order, `{"number":1,"note":"äöü"}`, ""},
		{order, `{}`, `no member "number"`},
		{order, `{"number":"1"}`, "/number is string, not integer"},
		{order, `{"number":1.5}`, "/number is number, not integer"},
		{order, `{"number":0}`, "/number is less than minimum 1 allows"},
		{order, `{"number":1,"unit":"k"}`, "/unit is \"k\", none of"},
		{order, `{"number":1,"tags":["a","b","c"]}`, "maxItems"},
		{order, `{"number":1,"tags":[""]}`, "/tags/0 is less than minLength"},
		{order, `{"number":1,"note":"long"}`, "/note fits nothing of its anyOf"},
		{order, `{"number":1,"Number":1}`, "/Number may not be there"},
		{order, `[]`, "the value is array, not object"},
		{`{"anyOf":[{"$ref":"#"},{"$ref":"#"}],"type":"string"}`, `1`, ""}, // which has no end, and gets one
		{`{"const":1}`, `1.0`, ""},
		{`true`, `1`, ""},
	} {
		err := (fitting{pdk.Raw(c.schema), new(int)}).check(pdk.Raw(c.schema), pdk.Raw(c.arguments), "", 0)
		if strings.Contains(c.schema, `"#"`) {
			continue // any answer
		}
		if c.fault == "" && err != nil || c.fault != "" && !strings.Contains(fmt.Sprint(err), c.fault) {
			t.Errorf("%s under %.40s: %v, want %q", c.arguments, c.schema, err, c.fault)
		}
	}
}

// fataler is a test that another one looks at.
type fataler struct {
	testing.TB
	said string
}

func (f *fataler) Helper() {}
func (f *fataler) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	panic(f)
}

func TestAToolIsNotCalledWithWhatAHostRefuses(t *testing.T) {
	var p pdk.Plugin
	called := 0
	p.Tool("order", "", `{"type":"object","required":["number"],"properties":{"number":{"type":"integer"}}}`, func(c *pdk.Call) error {
		called++
		c.Return(`"done"`)
		return nil
	})
	h := Host{Plugin: &p}
	f := &fataler{TB: t}
	func() {
		defer func() { recover() }()
		h.Tool(f, "order", `{"nmuber":1}`)
	}()
	if called != 0 || !strings.Contains(f.said, `no member "number"`) {
		t.Errorf("called %d times, the test fails with %q; want that the arguments do not fit", called, f.said)
	}
	if got := h.Tool(t, "order", `{"number":1}`); got != `"done"` || called != 1 {
		t.Errorf("%s, called %d times", got, called)
	}
}

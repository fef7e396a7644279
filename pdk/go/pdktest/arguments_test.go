package pdktest_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/pdk/go/pdk"
	"github.com/agenthost/agenthost/pdk/go/pdktest"
)

// A recorder is a test that may fail.
type recorder struct {
	testing.TB
	fatal bool
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(string, ...any) {
	r.fatal = true
	runtime.Goexit()
}

// fails reports whether f ends its test.
func fails(t *testing.T, f func(t testing.TB)) bool {
	r, done := &recorder{TB: t}, make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	return r.fatal
}

func TestReadingAnArgumentThatParametersDoNotName(t *testing.T) {
	for name, c := range map[string]struct {
		parameters string
		typo       bool // reading "nmae" is one
	}{
		"a property of another name":   {`{"type":"object","properties":{"name":{}}}`, true},
		"none besides":                 {`{"properties":{"name":{}},"additionalProperties":false}`, true},
		"in a part of the schema":      {`{"allOf":[{"properties":{"name":{}}},{"$ref":"#/$defs/more"}],"$defs":{"more":{"properties":{"age":{}}}}}`, true},
		"no parameters":                {``, true},
		"no properties, and no others": {`{"type":"object","additionalProperties":false}`, true},
		"the property":                 {`{"properties":{"nmae":{}}}`, false},
		"the property behind a ref":    {`{"$ref":"#/$defs/a~1b","$defs":{"a/b":{"anyOf":[{"properties":{"nmae":{}}}]}}}`, false},
		"a condition's property":       {`{"properties":{"name":{}},"if":{"properties":{"name":{"const":"a"}}},"then":{"properties":{"nmae":{}}}}`, false},
		"any object":                   {`{"type":"object"}`, false},
		"a schema for all others":      {`{"properties":{"name":{}},"additionalProperties":{"type":"string"}}`, false},
		"a pattern":                    {`{"properties":{"name":{}},"patternProperties":{"^n":{}}}`, false},
		"a ref that never ends":        {`{"properties":{"name":{}},"allOf":[{"$ref":"#"}]}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			var p pdk.Plugin
			p.Tool("fail", "", c.parameters, func(call *pdk.Call) error {
				return pdk.Errorf(pdk.NotFound, "nobody is called %q", call.String("nmae"))
			})
			host := pdktest.Host{Plugin: &p}
			_, failure := host.Call("tool", `{"tool":"fail","arguments":{"name":"Ann"}}`)
			if got := strings.Contains(failure.Message, `reads the argument "nmae"`); got != c.typo {
				t.Errorf("Call: %v; names the argument: %t, want %t", failure, got, c.typo)
			}
			if got := fails(t, func(t testing.TB) { host.ToolError(t, "fail", `{"name":"Ann"}`) }); got != c.typo {
				t.Errorf("ToolError ends the test: %t, want %t", got, c.typo)
			}
		})
	}
}

func TestReadingArgumentsByTheirNames(t *testing.T) {
	var p pdk.Plugin
	p.Tool("greet", "", `{"properties":{"name":{},"loud":{}}}`, func(c *pdk.Call) error {
		c.Text(c.String("name"))
		if c.Bool("loud") {
			c.Text(strings.ToUpper(c.String("name")))
		}
		return nil
	})
	host := pdktest.Host{Plugin: &p}
	if got := host.Tool(t, "greet", `{"name":"Ann"}`); got != `"Ann"` {
		t.Errorf("the tool answers %s", got)
	}
	if !fails(t, func(t testing.TB) { host.Tool(t, "greet", `{"name":1}`) }) {
		t.Error("Tool passes for a tool that fails")
	}
}

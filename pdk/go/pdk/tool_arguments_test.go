package pdk_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/pdk/go/pdk"
	"github.com/agenthost/agenthost/pdk/go/pdktest"
)

// reader registers a tool that reads its argument v by an accessor, and counts how
// often a handler went on after that.
func reader(read func(c *pdk.Call), went *int) *pdk.Plugin {
	var p pdk.Plugin
	p.Tool("read", "", parametersOf("v"), func(c *pdk.Call) error {
		read(c)
		*went++
		return nil
	})
	return &p
}

func TestAccessorsFailTheCallForAnotherType(t *testing.T) {
	for name, c := range map[string]struct {
		read        func(c *pdk.Call)
		fit, misfit []string
	}{
		"String": {func(c *pdk.Call) { _ = c.String("v") }, []string{`""`, `"\ud800"`}, []string{`1`, `true`, `{}`, `[]`}},
		"Int":    {func(c *pdk.Call) { c.Int("v") }, []string{`0`, `2.0`, `-2e3`}, []string{`2.5`, `1e30`, `"2"`, `false`, `{}`, `[2]`}},
		"Float":  {func(c *pdk.Call) { c.Float("v") }, []string{`0`, `2.5`, `1e-400`}, []string{`1e400`, `"2"`, `false`, `{}`, `[2.5]`}},
		"Bool":   {func(c *pdk.Call) { c.Bool("v") }, []string{`true`, `false`}, []string{`0`, `"true"`, `{}`, `[true]`}},
	} {
		t.Run(name, func(t *testing.T) {
			went := 0
			host := pdktest.Host{Plugin: reader(c.read, &went)}
			for _, value := range append(c.fit, "null") {
				host.Tool(t, "read", pdk.Raw(`{"v":`+value+`}`))
			}
			host.Tool(t, "read", `{}`)
			want := len(c.fit) + 2
			for _, value := range c.misfit {
				failure := host.ToolError(t, "read", pdk.Raw(`{"v":`+value+`}`))
				if failure.Code != pdk.InvalidArgument || !strings.HasPrefix(failure.Message, `argument "v" is `) {
					t.Errorf("%s: %v, want invalid_argument and the argument's name", value, failure)
				}
			}
			if went != want {
				t.Errorf("the handler went on %d times, want %d: not after an argument that it misread", went, want)
			}
		})
	}
}

// A handler's deferred functions run, and one that recovers does not turn a misread
// argument into an answer. Other panics stay what they are.
func TestMisreadArgumentsAndPanics(t *testing.T) {
	cleaned := 0
	var p pdk.Plugin
	p.Tool("hide", "", parametersOf("v"), func(c *pdk.Call) (err error) {
		defer func() { cleaned++; _ = recover(); c.Text("all is well"); err = nil }()
		return errors.New("read " + c.String("v"))
	})
	p.Tool("break", "", "", func(*pdk.Call) error { panic("broken") })
	p.Tool("fine", "", "", func(c *pdk.Call) error { c.Text("fine"); return nil })
	host := pdktest.Host{Plugin: &p}
	if got := host.ToolError(t, "hide", `{"v":1}`); got.Code != pdk.InvalidArgument || cleaned != 1 {
		t.Errorf("%v after %d deferred functions", got, cleaned)
	}
	if got := host.Tool(t, "fine", `{}`); got != `"fine"` {
		t.Errorf("the next call answers %s", got)
	}
	defer func() {
		if got := recover(); got != "broken" {
			t.Errorf("the panic is %v", got)
		}
	}()
	_, _ = host.Call("tool", `{"tool":"break"}`)
}

func TestErrorsSayWhatAnArgumentIs(t *testing.T) {
	went := 0
	host := pdktest.Host{Plugin: reader(func(c *pdk.Call) { c.Int("v") }, &went)}
	for value, want := range map[pdk.Raw]string{
		`2.5`:                                   `argument "v" is 2.5, not an integer of 64 bits`,
		`"2"`:                                   `argument "v" is a string, not an integer of 64 bits`,
		`1` + pdk.Raw(strings.Repeat("0", 100)): `argument "v" is a number, not an integer of 64 bits`,
	} {
		if got := host.ToolError(t, "read", `{"v":`+value+`}`); got.Message != want {
			t.Errorf("%q, want %q", got.Message, want)
		}
	}
}

func TestIntegersOfTheContractInAnySpelling(t *testing.T) {
	var p pdk.Plugin
	attempt := 0
	p.Tool("t", "", "", func(c *pdk.Call) error { attempt = c.Attempt; return nil })
	for spelled, want := range map[string]int{`2`: 2, `2.0`: 2, `20e-1`: 2, `1000000000000000000000e-20`: 10} {
		if output, status := p.Call("tool", []byte(`{"tool":"t","attempt":`+spelled+`}`)); status != 0 || attempt != want {
			t.Errorf("attempt %s is %d, want %d: %s", spelled, attempt, want, output)
		}
	}
	for _, spelled := range []string{`2.5`, `02`, `2.`, `-`, `1e`, `1e400`, `"2"`, `99999999999999999999`} {
		if output, status := p.Call("tool", []byte(`{"tool":"t","attempt":`+spelled+`}`)); status == 0 {
			t.Errorf("attempt %s is read as %d: %s", spelled, attempt, output)
		}
	}
}

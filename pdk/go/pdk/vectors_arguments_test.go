package pdk_test

// Scenario: the golden vectors of integers and unknown parts.

import (
	"strings"
	"testing"

	"github.com/agenthost/agenthost/pdk/go/pdk"
	"github.com/agenthost/agenthost/pdk/go/pdktest"
)

// parametersOf is the schema of a tool that has arguments of these names.
func parametersOf(names ...string) string {
	var w pdk.Writer
	w.BeginObject().Key("type").Str("object").Key("properties").BeginObject()
	for _, name := range names {
		w.Key(name).BeginObject().EndObject()
	}
	w.EndObject()
	return string(w.EndObject().Value())
}

func TestIntegerVectors(t *testing.T) {
	var p pdk.Plugin
	p.Tool("read", "", parametersOf("n"), func(c *pdk.Call) error {
		c.JSON().Int(int64(c.Int("n")))
		return nil
	})
	vectors(t, "numbers", "integer", func(t *testing.T, v *vector, document pdk.Raw) {
		host := pdktest.Host{Plugin: &p}
		arguments := `{"n":` + document.Get("argument") + `}`
		if v.Valid {
			if got, want := host.Tool(t, "read", arguments), document.Get("want"); got != want {
				t.Errorf("%s is read as %s, want %s", arguments, got, want)
			}
			return
		}
		failure := host.ToolError(t, "read", arguments)
		if failure.Code != v.Error || !strings.Contains(failure.Message, `argument "n" is `) {
			t.Errorf("%s: %v, want code %s and the argument's name", arguments, failure, v.Error)
		}
	})
}

func TestUnknownPartVectors(t *testing.T) {
	var p pdk.Plugin
	p.Tool("t", "", "", func(*pdk.Call) error { return nil })
	p.Processor("p", func(*pdk.Process) error { return nil })
	p.Router("r", func(*pdk.Route) error { return nil })
	p.Provider("c", func(*pdk.Provide) error { return nil })
	p.Observer("c", func(*pdk.Observe) error { return nil })
	vectors(t, "unknown", "unknown_part", func(t *testing.T, v *vector, document pdk.Raw) {
		host := pdktest.Host{Plugin: &p}
		export, _ := document.Get("export").Str()
		output, failure := host.Call(export, document.Get("input"))
		if failure == nil || failure.Code != v.Error {
			t.Errorf("%s %v, want code %s", output, failure, v.Error)
		}
	})
}

package pdk_test

// Scenario: the golden vectors of steps.

import (
	"testing"

	"github.com/agenthost/agenthost/pdk/go/pdk"
	"github.com/agenthost/agenthost/pdk/go/pdktest"
)

// stepped runs one step of a plugin's tool and returns what the tool saw. The host
// answers step.begin with told; what is asked is kept by operation.
func stepped(t *testing.T, name string, opts pdk.StepOptions, told, result pdk.Raw) (asked map[string]pdk.Raw, ran bool, got pdk.Raw) {
	t.Helper()
	asked = map[string]pdk.Raw{}
	answer := func(op string, response pdk.Raw) func(pdk.Raw) (pdk.Raw, *pdk.Error) {
		return func(request pdk.Raw) (pdk.Raw, *pdk.Error) {
			asked[op] = request
			return response, nil
		}
	}
	var p pdk.Plugin
	p.Tool("f", "", "", func(c *pdk.Call) error {
		left, err := pdk.Step(name, opts, func() (pdk.Raw, error) { ran = true; return result, nil })
		got = pdk.Raw([]byte(left))
		return err
	})
	host := pdktest.Host{Plugin: &p, Ops: map[string]func(pdk.Raw) (pdk.Raw, *pdk.Error){
		"step.begin": answer("step.begin", told), "step.end": answer("step.end", "{}"),
	}}
	if _, failure := host.Call("tool", `{"tool":"f","arguments":{}}`); failure != nil {
		t.Fatal(failure)
	}
	return asked, ran, got
}

func TestStepVectors(t *testing.T) {
	validVectors(t, "step", "step_begin_in", func(t *testing.T, document pdk.Raw) {
		name, _ := document.Get("name").Str()
		idempotent, _ := document.Get("idempotent").Bool()
		asked, _, _ := stepped(t, name, pdk.StepOptions{Idempotent: idempotent}, `{"done":false}`, "1")
		requireSame(t, asked["step.begin"], pruned(t, document, []string{"name", "idempotent"}))
	})
	validVectors(t, "step", "step_begin_out", func(t *testing.T, document pdk.Raw) {
		_, ran, got := stepped(t, "a", pdk.StepOptions{}, document, `"of now"`)
		done, _ := document.Get("done").Bool()
		if ran == done {
			t.Errorf("told %s the kit does the step: %t", document, ran)
		}
		if want := document.Get("result"); done {
			requireSame(t, got, want)
		} else {
			requireSame(t, got, `"of now"`)
		}
	})
	validVectors(t, "step", "step_end_in", func(t *testing.T, document pdk.Raw) {
		name, _ := document.Get("name").Str()
		asked, ran, got := stepped(t, name, pdk.StepOptions{}, `{"done":false}`, document.Get("result"))
		if !ran {
			t.Error("the kit does not do the step")
		}
		requireSame(t, asked["step.end"].Get("name"), document.Get("name"))
		requireSame(t, asked["step.end"].Get("result"), document.Get("result"))
		requireSame(t, got, document.Get("result"))
	})
}

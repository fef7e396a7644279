package host_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
)

type ticket struct {
	Customer string   `json:"customer"`
	Open     bool     `json:"open"`
	Tags     []string `json:"tags,omitempty"`
}

func stateSchema(t testing.TB, raw string) *host.Schema {
	t.Helper()
	s, err := host.CompileSchema(json.RawMessage(raw))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ticketSchema(t testing.TB) *host.Schema {
	t.Helper()
	s, err := host.SchemaOf[ticket]()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// An agent on its own can have a schema of its state, too.
func TestTheStateOfAnAgentFitsItsSchema(t *testing.T) {
	a, err := host.NewAgent("a", &host.AgentOptions{Model: says("x"), StateSchema: ticketSchema(t)})
	if err != nil {
		t.Fatal(err)
	}
	if host.StateSchemaOf(a) == nil || host.StateSchemaOf(a.WithModel(says("y"))) == nil {
		t.Error("the schema is not the target's")
	}
	h := newHost(t, nil)
	if _, err := h.Run(t.Context(), a, &host.Request{Text: "hi", State: ticket{Customer: "ada"}}); err != nil {
		t.Errorf("a state that fits: %v", err)
	}
	if _, err := h.Run(t.Context(), a, &host.Request{Text: "hi", State: map[string]any{"customer": 7}}); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("a state that does not: %v", err)
	}
}

func TestDefaultStatesThatDoNotFit(t *testing.T) {
	a := agentNamed(t, "a", "")
	for name, c := range map[string]struct {
		state  any
		schema *host.Schema
		says   string // empty: it is taken
	}{
		"none":                     {nil, ticketSchema(t), ""},
		"of the type":              {ticket{Customer: "ada"}, ticketSchema(t), ""},
		"of the type, by pointer":  {&ticket{Customer: "ada"}, ticketSchema(t), ""},
		"a member of another type": {json.RawMessage(`{"customer":7,"open":true}`), ticketSchema(t), "/customer: got number, want string"},
		"a member too few":         {json.RawMessage(`{"customer":"ada"}`), ticketSchema(t), "missing property 'open'"},
		"a member too many":        {json.RawMessage(`{"customer":"ada","open":true,"opne":1}`), ticketSchema(t), "additional properties 'opne' not allowed"},
		"a schema by hand":         {json.RawMessage(`{"n":1}`), stateSchema(t, `{"properties":{"n":{"maximum":0}}}`), "/n: maximum: got 1, want 0"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := host.NewNetwork("desk", []*host.Agent{a}, &host.NetworkOptions{Router: host.InOrder("line"), State: c.state, StateSchema: c.schema})
			if c.says == "" && err == nil {
				return
			}
			if c.says == "" || host.CodeOf(err) != host.InvalidArgument || !strings.HasPrefix(err.Error(), `default state of network "desk" does not fit its schema: `) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("NewNetwork: %v; want %q", err, c.says)
			}
		})
	}
}

// What a run starts with fits the schema, whoever brings it, and so does what it
// becomes, whoever changes it.
func TestStateFitsItsSchema(t *testing.T) {
	raw := func(name string, output *host.ToolOutput) *host.Tool {
		tool, err := host.NewRawTool(llm.ToolSpec{Name: name}, func(context.Context, *host.Call) (*host.ToolOutput, error) { return output, nil }, nil)
		if err != nil {
			t.Fatal(err)
		}
		return tool
	}
	returns := func(texts ...string) *host.Tool { return raw("change", &host.ToolOutput{State: ops(t, texts...)}) }
	changes := func(fn func(s *host.State) error) *host.Tool {
		return tool("change", func(_ context.Context, call *host.Call) (string, error) { return "", fn(call.State) })
	}
	const want = `{"customer":"ada","open":true}`
	for name, c := range map[string]struct {
		tool *host.Tool
		told string // empty: it works
		want string
	}{
		"a patch that fits":       {returns(`add /tags ["new"]`), "", `{"customer":"ada","open":true,"tags":["new"]}`},
		"a patch of another type": {returns(`replace /open "yes"`), "state would not fit its schema: /open: got string, want boolean", want},
		"a patch that removes":    {returns(`remove /open`), "missing property 'open'", want},
		"right only in the end":   {returns(`remove /open`, `add /open true`), "", want},
		"a stranger":              {changes(func(s *host.State) error { return s.Set("/opne", false) }), "'opne' not allowed", want},
		"typed": {changes(func(s *host.State) error {
			return host.UpdateState(s, func(v *ticket) error { v.Open = false; return nil })
		}), "", `{"customer":"ada","open":false}`},
		"as another type": {changes(func(s *host.State) error {
			return host.UpdateState(s, func(v *map[string]any) error { (*v)["open"] = 1; return nil })
		}), "/open: got number, want boolean", want},
	} {
		t.Run(name, func(t *testing.T) {
			agent := newAgent(t, &host.AgentOptions{Model: hosttest.NewModel(hosttest.Call("change", "{}")), Tools: []*host.Tool{c.tool}, MaxRounds: 1})
			n := newNetwork(t, []*host.Agent{agent}, &host.NetworkOptions{Router: host.InOrder("line", "clerk"), StateSchema: ticketSchema(t), State: ticket{Customer: "nobody", Open: true}})
			r, err := newHost(t, nil).Run(t.Context(), n, &host.Request{Text: "go", State: map[string]string{"customer": "ada"}})
			if err != nil {
				t.Fatal(err)
			}
			if string(r.State) != c.want {
				t.Errorf("the state is %s, want %s", r.State, c.want)
			}
			res := r.Results[0].ToolResults()[0]
			if res.IsError != (c.told != "") || !strings.Contains(res.ContentText(), c.told) {
				t.Errorf("the model is told %q, want %q", res.ContentText(), c.told)
			}
		})
	}
}

func TestRunsThatBeginWithAStateThatDoesNotFit(t *testing.T) {
	history := hosttest.NewHistory()
	n := newNetwork(t, []*host.Agent{agentNamed(t, "a", "")}, &host.NetworkOptions{Router: host.InOrder("line", "a"), History: newHistory(t, history), StateSchema: ticketSchema(t)})
	for name, state := range map[string]any{
		"another type": map[string]any{"customer": 1, "open": true},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newHost(t, nil).Run(t.Context(), n, &host.Request{Thread: "T", Text: "hi", State: state})
			if host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), "state does not fit its schema") {
				t.Errorf("Run: %v; want code %s", err, host.InvalidArgument)
			}
		})
	}
	if r, err := newHost(t, nil).Run(t.Context(), n, &host.Request{Text: "hi", Model: answering("ok")}); err != nil || string(r.State) != "{}" {
		t.Errorf("a run with a state that nobody has set: %+v, %v", r, err)
	}
	if r, err := newHost(t, nil).Run(t.Context(), n, &host.Request{Text: "hi", State: ticket{Customer: "ada"}}); err != nil || string(r.State) != `{"customer":"ada","open":false}` {
		t.Errorf("a run with what the schema requires: %+v, %v", r, err)
	}
}

// The validator takes long for numbers beyond every type, and panics at some.
func TestStatesWithNumbersBeyondAllTypes(t *testing.T) {
	for _, number := range []string{"1e999999", "1e9999999", "-1e-9999999", "0e99999999999999999999", strings.Repeat("9", 500)} {
		for _, rules := range []string{`"type":"number"`, `"type":"number","maximum":5`, `"type":"integer"`, `"multipleOf":0.5`, `"const":1`} {
			s, err := host.NewStateWithSchema(json.RawMessage(`{"n":1}`), stateSchema(t, `{"type":"object","properties":{"n":{`+rules+`}}}`))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Patch([]host.PatchOp{{Op: "replace", Path: "/n", Value: json.RawMessage(number)}}); host.CodeOf(err) != host.InvalidArgument || !strings.HasSuffix(err.Error(), " is out of range") {
				t.Errorf("%s set to %.30s: %v", rules, number, err)
			}
		}
	}
}

// Who asks about a value that is somebody else's is told of places and rules.
func TestAFaultTellsNothingOfTheValue(t *testing.T) {
	schema, err := host.CompileSchema(json.RawMessage(`{"type":"object","required":["id"],"properties":{"a":{"pattern":"^x$"},"b":{"enum":[1]},"c":{"type":"array","items":{"format":"email","maxLength":3}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	err = schema.ValidateUnseen(json.RawMessage(`{"a":"secret1","b":"secret2","c":["secret3@"]}`))
	if host.CodeOf(err) != host.InvalidArgument || strings.Contains(err.Error(), "secret") {
		t.Errorf("ValidateUnseen = %v", err)
	}
	for _, want := range []string{"/: breaks the rule required", "/a: breaks the rule pattern", "/b: breaks the rule enum", "/c/0: breaks the rule maxLength"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("ValidateUnseen = %v, want %q in it", err, want)
		}
	}
	if err := schema.ValidateUnseen(json.RawMessage(`{"id":1}`)); err != nil {
		t.Errorf("ValidateUnseen of what fits = %v", err)
	}
}

package host_test

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

type Place struct {
	City string `json:"city" description:"Where." enum:"Rome,Oslo"`
}

type unit struct {
	Name string `json:"name"`
}

type Base struct {
	ID int `json:"id"`
}

func (Base) Kind() string { return "" }

type Level int

type trip struct {
	Base
	Place `json:"place"`
	unit  `json:"unit"`
	Level
	Stops []struct {
		*Place `json:"at,omitempty"`
		Hours  int `json:"hours"`
	} `json:"stops"`
	_ int
}

// A tool reads the arguments that its schema asks for, with embedded structs under a
// name, without one, and below lists.
func TestEmbeddedStructsWithANameAreParameters(t *testing.T) {
	var got trip
	tool := host.NewTool("plan", "Plans.", func(_ context.Context, _ *host.Call, in trip) (string, error) {
		got = in
		return "done", nil
	}, nil)
	const arguments = `{"id":7,"place":{"city":"Rome"},"unit":{"name":"km"},"Level":3,"stops":[{"at":{"city":"Oslo"},"hours":2},{"at":null,"hours":1}]}`
	model := hosttest.NewModel(hosttest.Call("plan", arguments), hosttest.Say("ok"))
	h := newHost(t, &host.Options{Model: model})
	if _, err := h.Run(t.Context(), newAgent(t, &host.AgentOptions{Tools: []*host.Tool{tool}}), &host.Request{Text: "go"}); err != nil {
		t.Fatal(err)
	}
	var want trip
	if err := json.Unmarshal([]byte(arguments), &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the tool has %+v, want %+v", got, want)
	}
	const schema = `{"type":"object","properties":{"id":{"type":"integer"},` +
		`"place":{"type":"object","properties":{"city":{"type":"string","description":"Where.","enum":["Rome","Oslo"]}},"required":["city"],"additionalProperties":false},` +
		`"unit":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false},` +
		`"Level":{"type":"integer"},` +
		`"stops":{"type":"array","items":{"type":"object","properties":{` +
		`"at":{"type":["null","object"],"properties":{"city":{"type":"string","description":"Where.","enum":["Rome","Oslo"]}},"required":["city"],"additionalProperties":false},` +
		`"hours":{"type":"integer"}},"required":["hours","at"],"additionalProperties":false}}},` +
		`"required":["id","place","unit","Level","stops"],"additionalProperties":false}`
	if s := string(model.Requests()[0].Tools[0].Parameters); s != schema {
		t.Errorf("the schema is\n%s\nwant\n%s", s, schema)
	}
}

type (
	// Node has a place in JSON and embeds itself.
	Node struct {
		*Node
		Place `json:"place"`
	}
	// numbered has a field with the name that an embedded one gets in the schema's type.
	numbered struct {
		unit
		Embedded0 int
		Place     `json:"place"`
	}
)

func (Node) Label() string { return "node" }

// Package reflect cannot make the type from which the schemas of these are inferred. The
// library infers one from the type itself.
func TestTypesThatReflectCannotMakeAreParameters(t *testing.T) {
	for name, tool := range map[string]*host.Tool{
		"a type within itself": host.NewTool("a", "A.", func(context.Context, *host.Call, Node) (string, error) { return "", nil }, nil),
		"a name used twice":    host.NewTool("a", "A.", func(context.Context, *host.Call, numbered) (string, error) { return "", nil }, nil),
	} {
		if _, err := host.NewAgent("clerk", &host.AgentOptions{Tools: []*host.Tool{tool}}); err != nil {
			t.Errorf("an agent with a tool of %s: %v", name, err)
		}
	}
}

package host_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

type verdict struct {
	Fine   bool    `json:"fine"`
	Reason *string `json:"reason"`
}

func verdictSchema(t testing.TB) *host.Schema {
	t.Helper()
	s, err := host.SchemaOf[verdict]()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOutput(t *testing.T) {
	for _, test := range []struct {
		name    string
		replies []hosttest.Reply
		want    string // the output; "" for a run that fails
		asked   int
	}{
		{"as asked", []hosttest.Reply{hosttest.Say(`{"fine":true,"reason":null}`)}, `{"fine":true,"reason":null}`, 1},
		{"an optional member left out", []hosttest.Reply{hosttest.Say(`{"fine":true}`)}, `{"fine":true}`, 1},
		{"in a fence", []hosttest.Reply{hosttest.Say("```json\n{\"fine\":true}\n```")}, `{"fine":true}`, 1},
		{"after a tool", []hosttest.Reply{hosttest.Call("look", `{"what":"it"}`), hosttest.Say(`{"fine":true}`)}, `{"fine":true}`, 2},
		{"not JSON, repaired", []hosttest.Reply{hosttest.Say("It is fine."), hosttest.Say(`{"fine":true}`)}, `{"fine":true}`, 2},
		{"wrong type, repaired", []hosttest.Reply{hosttest.Say(`{"fine":"yes"}`), hosttest.Say(`{"fine":true}`)}, `{"fine":true}`, 2},
		{"empty, repaired", []hosttest.Reply{hosttest.Say(""), hosttest.Say(`{"fine":true}`)}, `{"fine":true}`, 2},
		{"wrong twice", []hosttest.Reply{hosttest.Say("It is fine."), hosttest.Say("I said it is fine.")}, "", 2},
		{"a call instead of a repair", []hosttest.Reply{hosttest.Say("It is fine."), hosttest.Call("look", `{"what":"it"}`)}, "", 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			result, model, err := runWith(t, &host.AgentOptions{Output: verdictSchema(t), Tools: []*host.Tool{lookUp()}}, nil, test.replies...)
			if n := len(model.Requests()); n != test.asked {
				t.Errorf("the model was asked %d times, want %d", n, test.asked)
			}
			last := test.replies[len(test.replies)-1]
			if got := result.Text(); got != last.Text {
				t.Errorf("the conversation ends with %q, want %q", got, last.Text)
			}
			if test.want == "" {
				if host.CodeOf(err) != host.Unavailable || !strings.Contains(err.Error(), "does not fit its output") {
					t.Errorf("error %v, want one of code unavailable", err)
				}
				return
			}
			if err != nil || string(result.Results[0].Output) != test.want {
				t.Errorf("output %s, %v, want %s", result.Results[0].Output, err, test.want)
			}
			var v verdict
			if err := result.Decode(&v); err != nil || !v.Fine {
				t.Errorf("Decode: %+v, %v", v, err)
			}
		})
	}
}

// The model is told what is wrong and what is wanted; nothing of that is kept.
func TestARepairIsNotKept(t *testing.T) {
	result, model, err := runWith(t, &host.AgentOptions{Output: verdictSchema(t)}, nil, hosttest.Say("It is fine."), hosttest.Say(`{"fine":true}`))
	if err != nil {
		t.Fatal(err)
	}
	first, second := model.Requests()[0], model.Requests()[1]
	if first.Output == nil || first.Output.Name != "clerk" || !first.Output.Strict || !json.Valid(first.Output.Schema) {
		t.Errorf("the model is asked for the output %+v", first.Output)
	}
	complaint := second.Messages[2].Text()
	if got := said(second.Messages[:2]); got != "u:hi | a:It is fine." || !strings.Contains(complaint, string(first.Output.Schema)) {
		t.Errorf("the repair asks %q and complains %q", got, complaint)
	}
	if got := said(result.Results[0].Messages); got != `a:{"fine":true}` {
		t.Errorf("kept are %q", got)
	}
	if r := result.Results[0]; r.Rounds != 2 || r.Usage.OutputTokens != 2 {
		t.Errorf("%d rounds, %d tokens; want both answers counted", r.Rounds, r.Usage.OutputTokens)
	}
}

func TestDecodeWithoutOutput(t *testing.T) {
	result, _, err := runWith(t, &host.AgentOptions{}, nil, hosttest.Say("hi"))
	if err != nil {
		t.Fatal(err)
	}
	if err := result.Decode(&verdict{}); host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("Decode: %v", err)
	}
	if _, err := host.SchemaOf[func()](); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("the schema of a function: %v", err)
	}
}

func ExampleSchemaOf() {
	type Order struct {
		ID    int      `json:"id"`
		Items []string `json:"items"`
	}
	schema, err := host.SchemaOf[Order]()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(schema.Validate(json.RawMessage(`{"id":1042,"items":["grinder"]}`)))
	fmt.Println(schema.Validate(json.RawMessage(`{"id":"1042","items":[]}`)) != nil)
	// Output:
	// <nil>
	// true
}

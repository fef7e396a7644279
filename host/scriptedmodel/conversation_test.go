package scriptedmodel_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host/scriptedmodel"
)

func TestConversation(t *testing.T) {
	var got *scriptedmodel.Conversation
	h, err := scriptedmodel.New(&scriptedmodel.Options{Otherwise: func(c *scriptedmodel.Conversation) *scriptedmodel.Reply {
		got = c
		return &scriptedmodel.Reply{Text: "ok"}
	}})
	if err != nil {
		t.Fatal(err)
	}
	complete(t, h, chat{
		"messages": []any{
			system("Be kind."), system("Be short."), user("first"), calledWith("a", `{"x":1}`), resultOf(0, "one"), assistant("Done."),
			user("second"), calledWith("b", `{`, "c", `{}`), resultOf(1, "of c"), resultOf(7, "of none"),
		},
		"tools":       []any{toolOf("a", "Does a.", `{"type":"object"}`)},
		"tool_choice": turn{"type": "function", "function": turn{"name": "a"}}, "parallel_tool_calls": false,
	})
	want := &scriptedmodel.Conversation{
		System: "Be kind.\nBe short.", Users: []string{"first", "second"},
		Past:       []scriptedmodel.Call{{Name: "a", Arguments: `{"x":1}`}},
		Current:    []scriptedmodel.Call{{Name: "b", Arguments: `{`}, {Name: "c", Arguments: `{}`}},
		Results:    []scriptedmodel.Result{{Call: scriptedmodel.Call{Name: "c", Arguments: `{}`}, Text: "of c"}, {Text: "of none"}},
		Tools:      []scriptedmodel.Tool{{Name: "a", Description: "Does a.", Parameters: json.RawMessage(`{"type":"object"}`)}},
		ToolChoice: "a", Serial: true,
	}
	if diff := cmp.Diff(want, got); diff != "" || got.LastUser() != "second" {
		t.Errorf("last user said %q, conversation (-want +got):\n%s", got.LastUser(), diff)
	}
}

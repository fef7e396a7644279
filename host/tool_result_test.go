package host_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
)

// The results of one answer's calls are a message each, or one, as the agent has it:
// for the model, for readers, and in what is stored.
func TestResultsOfABatchAreOneMessage(t *testing.T) {
	for _, join := range []bool{false, true} {
		model := hosttest.NewModel(hosttest.Call("a", "{}").Call("b", "{}").Call("a", "{}"), hosttest.Call("b", "{}"), hosttest.Say("done"))
		var tools []*host.Tool
		for _, name := range []string{"a", "b"} {
			tool, err := host.NewRawTool(llm.ToolSpec{Name: name, Description: name}, func(context.Context, *host.Call) (*host.ToolOutput, error) {
				return &host.ToolOutput{Content: json.RawMessage(`"` + name + `"`)}, nil
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			tools = append(tools, tool)
		}
		a, err := host.NewAgent("agent", &host.AgentOptions{Model: model, Tools: tools, JoinResults: join})
		if err != nil {
			t.Fatal(err)
		}
		var told, stored []int
		for ev, err := range newHost(t, nil).Stream(t.Context(), a, &host.Request{Text: "hi"}) {
			if err != nil {
				t.Fatal(err)
			}
			switch d := ev.Data.(type) {
			case *runevent.MessageDone:
				if d.Message.Role == host.ToolRole {
					told = append(told, len(d.Message.ToolResults()))
				}
			case *runevent.RunFinished:
				for _, m := range d.Result.Results[0].Messages {
					if m.Role == host.ToolRole {
						stored = append(stored, len(m.ToolResults()))
					}
				}
			}
		}
		var asked []int
		for _, m := range model.Requests()[2].Messages {
			if m.Role == host.ToolRole {
				asked = append(asked, len(m.ToolResults()))
			}
		}
		want := []int{1, 1, 1, 1}
		if join {
			want = []int{3, 1}
		}
		for name, got := range map[string][]int{"readers": told, "the result": stored, "the model": asked} {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("joined %t, %s: %s", join, name, diff)
			}
		}
	}
}

package agentchoice_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/agentchoice"
	"github.com/agenthost/agenthost/host/llm"
)

var agents = []agentchoice.Agent{{Name: "clerk", Description: "writes"}, {Name: "judge", Description: "decides", Tools: []string{"weigh", "ask"}}}

func TestAPromptListsTheAgents(t *testing.T) {
	const list = "The agents:\n- clerk: writes\n- judge: decides (tools: weigh, ask)\n"
	if got := agentchoice.List(agents); got != list {
		t.Errorf("List: %q, want %q", got, list)
	}
	if got := agentchoice.Instructions(agents); !strings.HasSuffix(got, "\n\n"+list) {
		t.Errorf("Instructions: %q, want the list at its end", got)
	}
	for _, tool := range agentchoice.Tools(agents) {
		if !json.Valid(tool.Parameters) {
			t.Errorf("parameters of %s are not JSON: %s", tool.Name, tool.Parameters)
		}
	}
	if got := string(agentchoice.Tools(agents)[0].Parameters); !strings.Contains(got, `"enum":["clerk","judge"]`) {
		t.Errorf("the first tool takes %s, want the names of the agents", got)
	}
}

func TestReadChoosesOrComplains(t *testing.T) {
	for name, c := range map[string]struct {
		call, arguments, agent, reason, complaint string
	}{
		"an agent":                  {"select_agent", `{"name":"judge","reason":"law"}`, "judge", "law", ""},
		"the end":                   {"done", `{"summary":"all said"}`, "", "all said", ""},
		"the end without a summary": {"done", `no JSON`, "", "", ""},
		"no call":                   {"", "", "", "the model answered without choosing", ""},
		"an invented tool":          {"stop", `{}`, "", "", `There is no tool "stop"; call select_agent or done.`},
		"an invented agent":         {"select_agent", `{"name":"king"}`, "", "", `There is no agent "king"; choose one of: clerk, judge.`},
		"a name that is no text":    {"select_agent", `{"name":1}`, "", "", "The arguments cannot be read; name must be a string."},
	} {
		t.Run(name, func(t *testing.T) {
			resp := &llm.Response{Parts: []chat.Part{&chat.Text{Text: "well"}}}
			if c.call != "" {
				resp.Parts = append(resp.Parts, &chat.ToolCall{ID: "1", Name: c.call, Arguments: json.RawMessage(c.arguments)})
			}
			got, complaint := agentchoice.Read(resp, agents)
			if want := (agentchoice.Choice{Agent: c.agent, Reason: c.reason}); got != want || complaint != c.complaint {
				t.Errorf("Read: %+v and the complaint %q, want %+v and %q", got, complaint, want, c.complaint)
			}
		})
	}
}

func TestComplainAnswersEachCall(t *testing.T) {
	view := slices.Grow([]*chat.Message{chat.UserText("hi")}, 8)
	call := func(id string) chat.Part { return &chat.ToolCall{ID: id, Name: "select_agent"} }
	got := agentchoice.Complain(view, &llm.Response{Parts: []chat.Part{call("1"), call("2")}}, "no such")
	if n, fault := chat.Faults(got); len(got) != 4 || n > 0 {
		t.Errorf("Complain leaves %d messages with the fault %v, want an answer with two results", len(got), fault)
	}
	if r := got[3].ToolResults(); len(r) != 1 || !r[0].IsError || string(r[0].Content) != `"no such"` {
		t.Errorf("the last result is %+v, want the complaint as an error", r)
	}
	got = agentchoice.Complain(view, &llm.Response{Parts: []chat.Part{&chat.Text{Text: "king"}}}, "no such")
	if len(got) != 3 || got[2].Role != chat.User || got[2].Text() != "no such" {
		t.Errorf("a text alone is answered with %d messages, want the complaint as the user's", len(got))
	}
	if len(view) != 1 || view[:2][1] != nil {
		t.Error("Complain has written to the caller's conversation")
	}
}

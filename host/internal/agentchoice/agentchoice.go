// Package agentchoice asks a model which agent acts next, and reads its answer.
//
// Agents go in; instructions and tools for a request come out. The model's answer goes in;
// a [Choice] comes out, or a complaint that the conversation takes back to the model. A
// choice names one of the agents that the model was offered, or none.
//
// The package asks no model itself. It knows no network, no router and no run.
package agentchoice

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/llm"
)

// Agent describes an agent to a router.
type Agent struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Tools       []string `json:"-"`
}

// Choice is the decision of a model.
type Choice struct {
	Agent  string // that acts next; "" is none
	Reason string // of the model; may be empty
}

// Instructions returns the system prompt of a model that chooses, with the list of agents.
func Instructions(agents []Agent) string {
	return "You direct a group of agents. Read the conversation and decide: either the user's request is met, then call done; " +
		"or call select_agent with the agent who should act next. Do not select an agent without need.\n\n" + List(agents)
}

// List returns the agents as a list for a prompt, a line each.
func List(agents []Agent) string {
	var b strings.Builder
	b.WriteString("The agents:\n")
	for _, a := range agents {
		fmt.Fprintf(&b, "- %s: %s", a.Name, a.Description)
		if len(a.Tools) > 0 {
			fmt.Fprintf(&b, " (tools: %s)", strings.Join(a.Tools, ", "))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Tools returns the two tools of a model that chooses: one for the name of an agent, and one
// to end the run.
func Tools(agents []Agent) []llm.ToolSpec {
	names := make([]string, len(agents))
	for i, a := range agents {
		names[i] = a.Name
	}
	enum, _ := json.Marshal(names)
	return []llm.ToolSpec{
		{Name: "select_agent", Description: "Let this agent act next.", Parameters: json.RawMessage(
			`{"type":"object","properties":{"name":{"type":"string","enum":` + string(enum) + `},"reason":{"type":["string","null"]}},"required":["name","reason"],"additionalProperties":false}`)},
		{Name: "done", Description: "The request is met.", Parameters: json.RawMessage(
			`{"type":"object","properties":{"summary":{"type":["string","null"]}},"required":["summary"],"additionalProperties":false}`)},
	}
}

// Read returns the choice that the first call of an answer asks for, or a complaint about
// it for the model. An answer without a call chooses no agent.
func Read(resp *llm.Response, agents []Agent) (_ Choice, complaint string) {
	m := chat.Message{Parts: resp.Parts}
	calls := m.ToolCalls()
	if len(calls) == 0 {
		return Choice{Reason: "the model answered without choosing"}, ""
	}
	var args struct{ Name, Reason, Summary string }
	raw, err := jsondoc.ReadArguments(calls[0].Arguments)
	if err == nil {
		err = json.Unmarshal(raw, &args)
	}
	switch {
	case calls[0].Name == "done":
		return Choice{Reason: args.Summary}, ""
	case calls[0].Name != "select_agent":
		return Choice{}, fmt.Sprintf("There is no tool %q; call select_agent or done.", calls[0].Name)
	case err != nil:
		return Choice{}, "The arguments cannot be read; name must be a string."
	}
	for _, a := range agents {
		if a.Name == args.Name {
			return Choice{Agent: args.Name, Reason: args.Reason}, ""
		}
	}
	return Choice{}, NoSuchAgent(args.Name, agents)
}

// NoSuchAgent returns the complaint about a name that is none of the agents.
func NoSuchAgent(name string, agents []Agent) string {
	return fmt.Sprintf("There is no agent %q; choose one of: %s.", name, strings.Join(namesOf(agents), ", "))
}

func namesOf(agents []Agent) []string {
	names := make([]string, len(agents))
	for i, a := range agents {
		names[i] = a.Name
	}
	return names
}

// Complain returns the conversation with an answer and a complaint about it. view is not
// written to.
func Complain(view []*chat.Message, resp *llm.Response, complaint string) []*chat.Message {
	answer := chat.NewMessage(chat.Assistant, resp.Parts...)
	view = append(view[:len(view):len(view)], answer)
	calls := answer.ToolCalls()
	if len(calls) == 0 {
		return append(view, chat.UserText(complaint))
	}
	for _, c := range calls {
		view = append(view, chat.NewMessage(chat.ToolRole, &chat.ToolResult{ID: c.ID, Name: c.Name, Content: jsondoc.Quote(complaint), IsError: true}))
	}
	return view
}

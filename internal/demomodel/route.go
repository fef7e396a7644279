package demomodel

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host/scriptedmodel"
)

// The tools of a model router.
const (
	selectTool = "select_agent"
	doneTool   = "done"
)

// agentLine is how the router's instructions name an agent.
var agentLine = expression(`(?m)^[-*]\s*([\w./ -]+?):\s*(.*)$`)

// route answers a model router: done once an agent has spoken, else the agent
// whose description shares most words with the request.
func route(c *conversation) *scriptedmodel.Reply {
	if c.Said != "" && len(c.Results) == 0 && c.tool(doneTool) != nil {
		return decide(doneTool, map[string]any{"summary": "an agent has answered"})
	}
	agents := c.agents()
	if len(agents) == 0 {
		return &scriptedmodel.Reply{Text: "I am a scripted stand-in, not a language model, and I find no agents to choose from."}
	}
	asked := strings.Join(asks(c.LastUser(), isVerbOf(agents)), " ")
	for _, text := range append([]string{asked, c.LastUser()}, reversed(c.earlier())...) {
		if list := rank(agents, stems(text)); len(list) > 0 {
			return decide(selectTool, map[string]any{"name": list[0].name, "reason": reason(list[0])})
		}
	}
	return decide(selectTool, map[string]any{"name": agents[0].name, "reason": "no description shares a word with the request; this agent is the first"})
}

func reversed(texts []string) []string {
	out := slices.Clone(texts)
	slices.Reverse(out)
	return out
}

func reason(r ranked) string {
	return fmt.Sprintf("its description shares %s with the request", strings.Join(quoteAll(r.words), ", "))
}

func quoteAll(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = `"` + w + `"`
	}
	return out
}

func decide(tool string, arguments map[string]any) *scriptedmodel.Reply {
	return &scriptedmodel.Reply{Calls: []scriptedmodel.ReplyCall{{Name: tool, Arguments: encode(arguments)}}}
}

// agents returns the selectable agents, with the descriptions in the
// instructions.
func (c *conversation) agents() []*offer {
	described := map[string]string{}
	for _, m := range agentLine().FindAllStringSubmatch(c.System, -1) {
		described[m[1]] = m[2]
	}
	var out []*offer
	for _, p := range c.tool(selectTool).parameters.Properties {
		for _, v := range p.Schema.Enum {
			var name string
			if json.Unmarshal(v, &name) == nil && name != "" {
				out = append(out, &offer{name: name, nameStems: stems(name), aboutStems: stems(described[name])})
			}
		}
		if len(out) > 0 {
			break
		}
	}
	return out
}

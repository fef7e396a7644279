package reduce

import (
	"context"
	"strings"

	"github.com/agenthost/agenthost/host"
)

// MaxCollapsedChars is how long the text in place of a collapsed group may be,
// in characters.
const MaxCollapsedChars = 4096

// DropTools drops tool calls with their results, but for the newest keep groups
// of them. Code invalid_argument for a negative keep.
func DropTools(keep int) (Reducer, error) { return oldTools(keep, dropGroup) }

// CollapseTools puts one assistant's message in place of each group of tool calls
// and results, but for the newest keep: [Tool results: NAME: RESULT; ...], of at
// most [MaxCollapsedChars]. Its id is tool_summary_ and that of the first message
// it stands for. Code invalid_argument for a negative keep.
func CollapseTools(keep int) (Reducer, error) { return oldTools(keep, collapseGroup) }

func oldTools(keep int, do func(*conversation, *group)) (Reducer, error) {
	if err := atLeast(0, keep, "the number of tool groups to keep"); err != nil {
		return nil, err
	}
	return &oldToolGroups{keep, do}, nil
}

type oldToolGroups struct {
	keep int
	do   func(*conversation, *group)
}

// ReadsOnly implements [llm.Reader].
func (*oldToolGroups) ReadsOnly() {}

func (r *oldToolGroups) Reduce(_ context.Context, view *host.View) ([]*host.Message, error) {
	if err := checkView(view); err != nil {
		return nil, err
	}
	c := grouped(view)
	tools := c.kept(isTool)
	for _, g := range tools[:max(len(tools)-r.keep, 0)] {
		if !c.open(g) {
			r.do(c, g)
		}
	}
	return c.messages(), nil
}

// open reports whether a group waits for results: then the model is not done
// with it.
func (c *conversation) open(g *group) bool {
	calls, results := 0, 0
	for _, i := range g.members {
		calls += len(c.view.Messages[i].ToolCalls())
		results += len(c.view.Messages[i].ToolResults())
	}
	return calls > results
}

func dropGroup(_ *conversation, g *group) { g.dropped = true }

func collapseGroup(c *conversation, g *group) {
	first := c.view.Messages[g.members[0]]
	g.instead = &host.Message{ID: "tool_summary_" + first.ID, Role: host.Assistant, Agent: first.Agent, CreatedAt: first.CreatedAt,
		Parts: []host.Part{&host.Text{Text: c.collapsed(g)}}}
}

func (c *conversation) collapsed(g *group) string {
	var b strings.Builder
	for _, i := range g.members {
		for _, r := range c.view.Messages[i].ToolResults() {
			if b.Len() > 0 {
				b.WriteString("; ")
			}
			if r.Name != "" {
				b.WriteString(r.Name + ": ")
			}
			b.WriteString(r.ContentText())
		}
	}
	if b.Len() == 0 {
		return "[Tool results: no results]"
	}
	return "[Tool results: " + shortened(b.String(), MaxCollapsedChars-len("[Tool results: ]")) + "]"
}

const truncated = "... [truncated]"

// shortened cuts text to n characters.
func shortened(text string, n int) string {
	if len(text) <= n {
		return text
	}
	runes := []rune(text[:min(len(text), 4*n)])
	if len(runes) <= n && len(text) <= 4*n {
		return text
	}
	return string(runes[:n-len(truncated)]) + truncated
}

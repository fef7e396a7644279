package reduce

import (
	"slices"

	"github.com/agenthost/agenthost/host"
)

// kind is the kind of a group of messages.
type kind int

const (
	systemKind kind = iota
	userKind
	toolKind // an assistant's calls, the reasoning around them and their results
	textKind // an assistant's words
)

// group is messages that are kept or dropped together.
type group struct {
	kind    kind
	members []int // positions in the conversation, ascending
	dropped bool
	instead *host.Message // stands for the members, unless it is nil
}

// conversation is a view in groups, in the order of their first members.
type conversation struct {
	view   *host.View
	groups []*group
}

func grouped(view *host.View) *conversation {
	c := &conversation{view: view}
	for i := 0; i < len(view.Messages); {
		g, next := c.groupAt(i)
		c.groups = append(c.groups, g)
		i = next
	}
	c.reunite()
	return c
}

// groupAt returns the group that begins at i, and where the next one does.
func (c *conversation) groupAt(i int) (g *group, next int) {
	m := c.view.Messages[i]
	switch {
	case m.Role == host.System:
		return &group{kind: systemKind, members: []int{i}}, i + 1
	case m.Role == host.User:
		return &group{kind: userKind, members: []int{i}}, i + 1
	case m.Role == host.ToolRole: // results whose call is elsewhere
		end := c.while(i, func(m *host.Message) bool { return m.Role == host.ToolRole })
		return &group{kind: toolKind, members: positions(i, end)}, end
	}
	calls := c.while(i, onlyReasoning)
	if calls == len(c.view.Messages) || !callsTools(c.view.Messages[calls]) {
		return &group{kind: textKind, members: []int{i}}, i + 1
	}
	end := c.while(calls+1, func(m *host.Message) bool { return m.Role == host.ToolRole || onlyReasoning(m) })
	return &group{kind: toolKind, members: positions(i, end)}, end
}

// while returns the first position from i on at which is does not hold.
func (c *conversation) while(i int, is func(*host.Message) bool) int {
	for i < len(c.view.Messages) && is(c.view.Messages[i]) {
		i++
	}
	return i
}

func positions(from, to int) (list []int) {
	for i := from; i < to; i++ {
		list = append(list, i)
	}
	return list
}

func callsTools(m *host.Message) bool { return m.Role == host.Assistant && len(m.ToolCalls()) > 0 }

func onlyReasoning(m *host.Message) bool {
	return m.Role == host.Assistant && len(m.Parts) > 0 && !slices.ContainsFunc(m.Parts, func(p host.Part) bool {
		_, is := p.(*host.Reasoning)
		return !is
	})
}

// aboutTools reports whether m holds a call or a result.
func aboutTools(m *host.Message) bool {
	return m.Role == host.ToolRole || slices.ContainsFunc(m.Parts, func(p host.Part) bool {
		switch p.(type) {
		case *host.ToolCall, *host.ToolResult:
			return true
		}
		return false
	})
}

// reunite moves results that do not stand beside their call into its group.
func (c *conversation) reunite() {
	open := map[string][]*group{} // by the id of a call that has no result yet
	for _, g := range slices.Clone(c.groups) {
		for _, i := range slices.Clone(g.members) {
			m := c.view.Messages[i]
			for _, call := range m.ToolCalls() {
				open[call.ID] = append(open[call.ID], g)
			}
			for _, result := range m.ToolResults() {
				at := slices.Index(open[result.ID], g)
				switch owners := open[result.ID]; {
				case at >= 0:
					open[result.ID] = slices.Delete(owners, at, at+1)
				case len(owners) == 1: // with several owners the right one is unknown
					c.move(i, g, owners[0])
					delete(open, result.ID)
				}
			}
		}
	}
	c.groups = slices.DeleteFunc(c.groups, func(g *group) bool { return len(g.members) == 0 })
}

func (c *conversation) move(i int, from, to *group) {
	if at := slices.Index(from.members, i); at >= 0 && from != to {
		from.members = slices.Delete(from.members, at, at+1)
		to.members = append(to.members, i)
		slices.Sort(to.members)
	}
}

// messages returns the kept messages, in their original order.
func (c *conversation) messages() []*host.Message {
	at := make([]*host.Message, len(c.view.Messages))
	for _, g := range c.groups {
		switch {
		case g.dropped:
		case g.instead != nil:
			at[g.members[0]] = g.instead
		default:
			for _, i := range g.members {
				at[i] = c.view.Messages[i]
			}
		}
	}
	out := make([]*host.Message, 0, len(at))
	for _, m := range at {
		if m != nil {
			out = append(out, m)
		}
	}
	return out
}

// kept returns the groups that are not dropped and that is says yes to.
func (c *conversation) kept(is func(*group) bool) (list []*group) {
	for _, g := range c.groups {
		if !g.dropped && is(g) {
			list = append(list, g)
		}
	}
	return list
}

func isSystem(g *group) bool    { return g.kind == systemKind }
func notSystem(g *group) bool   { return g.kind != systemKind }
func isTool(g *group) bool      { return g.kind == toolKind && g.instead == nil }
func anything(g *group) bool    { return true }
func (g *group) has(i int) bool { return slices.Contains(g.members, i) }

// needed returns the groups that are never dropped: the newest that is not a
// system message (or the newest of all), and the current input.
func (c *conversation) needed() map[*group]bool {
	needed := map[*group]bool{}
	newest := c.kept(notSystem)
	if len(newest) == 0 {
		newest = c.kept(anything)
	}
	if n := len(newest); n > 0 {
		needed[newest[n-1]] = true
	}
	if i := inputAt(c.view); i >= 0 {
		for _, g := range c.groups {
			needed[g] = needed[g] || g.has(i)
		}
	}
	return needed
}

// inputAt is where the current input is, or -1.
func inputAt(view *host.View) int {
	if view.Input == "" {
		return -1
	}
	return slices.IndexFunc(view.Messages, func(m *host.Message) bool { return m.ID == view.Input && m.Role == host.User })
}

// history returns the messages before the turn in progress, and that turn.
func history(view *host.View) (past, turn []*host.Message) {
	if i := inputAt(view); i >= 0 {
		return view.Messages[:i:i], view.Messages[i:]
	}
	return view.Messages, nil
}

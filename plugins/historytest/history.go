// Package historytest tests history processors that work on outlines: it writes
// conversations in one line, draws random ones, and counts what a provider would
// refuse.
//
// In that line messages are separated by |. Each is a role letter, a colon and
// its parts, separated by spaces: name#id calls a tool, =name#id is a result,
// and anything else is text. This is a question, an answer that calls two tools,
// their results, and the answer:
//
//	u:hi | a:look search#1 fetch#2 | t:=search#1 | t:=fetch#2 | a:done
package historytest

import (
	"slices"
	"strconv"
	"strings"

	"github.com/agenthost/agenthost/pdk/go/pdk"
	"github.com/agenthost/agenthost/pdk/go/pdktest"
)

var roles = map[byte]string{
	pdk.RoleLetterSystem:    pdk.RoleSystem,
	pdk.RoleLetterUser:      pdk.RoleUser,
	pdk.RoleLetterAssistant: pdk.RoleAssistant,
	pdk.RoleLetterTool:      pdk.RoleTool,
}

// Parse reads a conversation. Its messages have ids, so that those without one
// are known to be a processor's.
func Parse(line string) []pdk.Message {
	if line == "" {
		return nil
	}
	var out []pdk.Message
	for text := range strings.SplitSeq(line, " | ") {
		m := pdk.NewMessage(roles[text[0]])
		for _, word := range strings.Fields(text[2:]) {
			m.Parts = append(m.Parts, parsePart(word))
		}
		out = append(out, m)
	}
	return identify(out)
}

func parsePart(word string) pdk.Part {
	name, id, tool := strings.Cut(word, "#")
	if !tool {
		return pdk.TextPart(word)
	}
	if result, ok := strings.CutPrefix(name, "="); ok {
		return pdk.ToolResultPart(id, result, `"ok"`)
	}
	return pdk.ToolCallPart(id, name, `{}`)
}

func identify(messages []pdk.Message) []pdk.Message {
	for i := range messages {
		messages[i].ID = "m" + strconv.Itoa(i)
	}
	return messages
}

// Format is the inverse of [Parse].
func Format(messages []pdk.Message) string {
	var out []string
	for _, m := range messages {
		var parts []string
		for _, p := range m.Parts {
			parts = append(parts, FormatPart(p))
		}
		out = append(out, m.Role[:1]+":"+strings.Join(parts, " "))
	}
	return strings.Join(out, " | ")
}

// FormatPart returns a part as [Parse] reads it.
func FormatPart(p pdk.Part) string {
	switch p.Type {
	case pdk.PartToolCall:
		return p.Name + "#" + p.ID
	case pdk.PartToolResult:
		return "=" + p.Name + "#" + p.ID
	}
	return p.Text
}

// Outline returns the outline of a conversation in which every byte of a part, as
// [Parse] reads it, is a token.
func Outline(messages []pdk.Message) *pdk.Outline {
	o := pdktest.NewOutline(messages, nil)
	o.Encoding, o.Tokens = "bytes", make([]int, len(messages))
	for i, m := range messages {
		for _, p := range m.Parts {
			o.Tokens[i] += len(FormatPart(p))
		}
	}
	return o
}

// Faults counts what a provider would refuse: calls that are not answered before
// the conversation moves on, and results without an open call before them.
func Faults(messages []pdk.Message) int {
	faults := 0
	var open []string
	for _, m := range messages {
		if movesOn(m) {
			faults += len(open)
			open = nil
		}
		for _, p := range m.Parts {
			switch p.Type {
			case pdk.PartToolCall:
				open = append(open, p.ID)
			case pdk.PartToolResult:
				if i := slices.Index(open, p.ID); i >= 0 {
					open = slices.Delete(open, i, i+1)
				} else {
					faults++
				}
			}
		}
	}
	return faults
}

// movesOn reports whether a message can only come when no call is open.
func movesOn(m pdk.Message) bool {
	switch m.Role {
	case pdk.RoleTool:
		return false
	case pdk.RoleAssistant:
		return slices.ContainsFunc(m.Parts, func(p pdk.Part) bool { return p.Type != pdk.PartToolCall })
	}
	return true
}

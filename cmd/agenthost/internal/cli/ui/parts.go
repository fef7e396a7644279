package ui

import (
	"fmt"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/internal/termtext"
)

// PartText returns a part of a message in words for a person.
func PartText(part host.Part) string {
	switch p := part.(type) {
	case *host.Text:
		return termtext.Printable(p.Text)
	case *host.ToolCall:
		return fmt.Sprintf("calls %s %s", termtext.Printable(p.Name), Clip(string(p.Arguments)))
	case *host.ToolResult:
		mark := "→"
		if p.IsError {
			mark = "✗"
		}
		return fmt.Sprintf("%s %s %s", mark, termtext.Printable(p.Name), Clip(string(p.Content)))
	case *host.Reasoning:
		return "thinks: " + Clip(p.Text)
	}
	return "(" + termtext.Printable(part.Type()) + ")"
}

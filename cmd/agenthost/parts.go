package main

import (
	"fmt"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/internal/termtext"
)

func partLine(part host.Part) string {
	switch p := part.(type) {
	case *host.Text:
		return termtext.Printable(p.Text)
	case *host.ToolCall:
		return fmt.Sprintf("calls %s %s", termtext.Printable(p.Name), clip(string(p.Arguments)))
	case *host.ToolResult:
		mark := "→"
		if p.IsError {
			mark = "✗"
		}
		return fmt.Sprintf("%s %s %s", mark, termtext.Printable(p.Name), clip(string(p.Content)))
	case *host.Reasoning:
		return "thinks: " + clip(p.Text)
	}
	return "(" + termtext.Printable(part.Type()) + ")"
}

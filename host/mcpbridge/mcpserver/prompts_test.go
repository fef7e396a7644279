package mcpserver_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/mcpbridge/mcpserver"
)

func TestPromptsAreFilledInAndCompleted(t *testing.T) {
	b := newBench(t, nil)
	b.catalog.set("acme", &mcpserver.Offers{Prompts: []mcpserver.Prompt{{
		Name: "complain", Description: "A letter.", Arguments: []mcpserver.Argument{{Name: "tone", Required: true, Values: []string{"calm", "cross", "angry"}}, {Name: "order"}},
		Messages: func(_ context.Context, caller mcpserver.Caller, arguments map[string]string) ([]*host.Message, error) {
			return []*host.Message{host.UserText(caller.Tenant + " is " + arguments["tone"] + " about " + arguments["order"])}, nil
		},
	}}})
	for _, version := range versions {
		s := b.connect("acme", version, nil)
		got, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "complain", Arguments: map[string]string{"tone": "calm", "order": "7", "other": "x"}})
		must(t, err)
		if c := got.Messages[0].Content.(*mcp.TextContent); c.Text != "acme is calm about 7" || got.Messages[0].Role != "user" {
			t.Errorf("%s: prompt = %+v", version, c)
		}
		if _, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "complain"}); err == nil || !strings.Contains(err.Error(), "tone") {
			t.Errorf("%s: without a required argument: %v", version, err)
		}
		found, err := s.Complete(t.Context(), &mcp.CompleteParams{Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "complain"}, Argument: mcp.CompleteParamsArgument{Name: "tone", Value: "c"}})
		must(t, err)
		if !slices.Equal(found.Completion.Values, []string{"calm", "cross"}) {
			t.Errorf("%s: completions = %q", version, found.Completion.Values)
		}
	}
}

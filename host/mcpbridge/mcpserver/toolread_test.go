package mcpserver_test

import (
	"context"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/mcpbridge/mcpserver"
)

// reader is a tool that answers as its argument says.
func reader() *host.Tool {
	return host.NewTool("reader", "Reads.", func(_ context.Context, _ *host.Call, in struct {
		URI  string `json:"uri,omitempty"`
		Tone string `json:"tone,omitempty"`
	}) (*host.ToolOutput, error) {
		switch in.URI {
		case "shop://orders/7":
			return &host.ToolOutput{Content: []byte(`{"id":7,"total":9007199254740993}`), Media: []*host.Media{{MediaType: "image/png", Data: []byte{1, 2}}}}, nil
		case "shop://terms":
			return &host.ToolOutput{Content: []byte(`"# Terms"`)}, nil
		case "":
			return &host.ToolOutput{Content: []byte(`[{"role":"user","text":"Write a ` + in.Tone + ` letter."},{"role":"assistant","text":"Dear"}]`)}, nil
		}
		return nil, host.Errorf(host.NotFound, "There is no order of that number.")
	}, nil)
}

// offersByTool has resources and a prompt of a tool.
func offersByTool(tool *host.Tool) *mcpserver.Offers {
	return &mcpserver.Offers{
		Resources: []mcpserver.Resource{{URI: "shop://orders/{id}", Name: "order", Tool: tool}, {URI: "shop://terms", Name: "terms", MediaType: "text/markdown", Tool: tool}},
		Prompts:   []mcpserver.Prompt{{Name: "letter", Arguments: []mcpserver.Argument{{Name: "tone"}}, Tool: tool}},
	}
}

func TestToolsReadResourcesAndWritePrompts(t *testing.T) {
	b := newBench(t, nil)
	b.catalog.set("acme", offersByTool(reader()))
	for _, version := range versions {
		s := b.connect("acme", version, nil)
		order, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "shop://orders/7"})
		must(t, err)
		if c := order.Contents; len(c) != 2 || c[0].Text != `{"id":7,"total":9007199254740993}` || c[0].MIMEType != "application/json" || string(c[1].Blob) != "\x01\x02" || c[1].MIMEType != "image/png" {
			t.Errorf("%s: an order is %+v", version, c)
		}
		terms, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "shop://terms"})
		must(t, err)
		if c := terms.Contents; len(c) != 1 || c[0].Text != "# Terms" || c[0].MIMEType != "text/markdown" {
			t.Errorf("%s: the terms are %+v", version, c)
		}
		if _, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "shop://orders/8"}); err == nil || !strings.Contains(err.Error(), "no order of that number") {
			t.Errorf("%s: an order that there is not: %v", version, err)
		}
		letter, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "letter", Arguments: map[string]string{"tone": "calm"}})
		must(t, err)
		if m := letter.Messages; len(m) != 2 || m[0].Content.(*mcp.TextContent).Text != "Write a calm letter." || m[1].Role != "assistant" {
			t.Errorf("%s: the prompt is %+v", version, m)
		}
	}
}

// TestReadingByAToolNeedsTheRightToRun has credentials that call no tools list and read what
// tools read, and a tool that asks a person.
func TestReadingByAToolNeedsTheRightToRun(t *testing.T) {
	b := newBench(t, nil)
	b.catalog.set("acme", offersByTool(reader()))
	b.catalog.set("globex", offersByTool(refundTool(t)))
	for _, version := range versions {
		for _, credential := range []string{"acme/read", "acme/thread=x"} {
			s := b.connect(credential, version, nil)
			if got, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "shop://terms"}); err == nil {
				t.Errorf("%s: %s reads %+v", version, credential, got.Contents[0])
			}
			for r, err := range s.Resources(t.Context(), nil) {
				t.Errorf("%s: %s is offered %+v, %v", version, credential, r, err)
			}
		}
		if _, err := b.connect("globex", version, nil).ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "shop://terms"}); err == nil {
			t.Errorf("%s: a tool that needs an approval reads a resource", version)
		}
	}
}

// TestReadingLeavesNoRunThatWaits has a rule ask a person about the tool that reads, or the tool
// itself.
func TestReadingLeavesNoRunThatWaits(t *testing.T) {
	calls := 0
	read := func(_ context.Context, call *host.Call, _ struct {
		URI string `json:"uri,omitempty"`
	}) (*host.ToolOutput, error) {
		calls++
		return &host.ToolOutput{Interrupt: &host.Interrupt{Reason: "Which one?"}}, nil
	}
	for name, row := range map[string]struct {
		opts  *host.ToolOptions
		calls int
	}{
		"a rule asks":   {&host.ToolOptions{Approve: host.ApproveAlways("secret")}, 0},
		"the tool asks": {nil, 2},
	} {
		b := newBench(t, nil)
		b.catalog.set("acme", offersByTool(host.NewTool("asker", "Reads.", read, row.opts)))
		s := b.connect("acme", versions[0], nil)
		calls = 0
		if _, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "shop://terms"}); err == nil || !strings.Contains(err.Error(), "asks a person, which reading does not") {
			t.Errorf("%s: reading fails with %v", name, err)
		}
		if _, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "letter"}); err == nil || !strings.Contains(err.Error(), "asks a person, which reading does not") {
			t.Errorf("%s: the prompt fails with %v", name, err)
		}
		waiting, err := b.threads.WaitingRuns(t.Context(), "acme", host.WaitingFilter{})
		must(t, err)
		if len(waiting) > 0 || calls != row.calls {
			t.Errorf("%s: %d runs wait; the tool was called %d times, want %d", name, len(waiting), calls, row.calls)
		}
	}
}

package mcpclient

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
)

// The bounds of prompts.
const (
	maxPrompts      = 200 // of a list that a model reads
	maxPromptParts  = 64
	maxPromptsBytes = 256 << 10
)

// Prompt is an entry of a server's list of prompts.
type Prompt struct {
	Name        string           `json:"name"`
	Description string           `json:"description,omitempty"`
	Arguments   []PromptArgument `json:"arguments,omitempty"`
}

// PromptArgument is an argument of a prompt.
type PromptArgument struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitempty"`
}

// Prompts returns the prompts of a server that a tenant has, at most 200 of them.
func (s *Servers) Prompts(ctx context.Context, tenant, server string) ([]Prompt, error) {
	l, err := s.link(tenant, server)
	if err != nil {
		return nil, err
	}
	return l.prompts(ctx)
}

func (l *link) prompts(ctx context.Context) ([]Prompt, error) {
	var list []Prompt
	err := l.use(ctx, func(ctx context.Context, s *session) error {
		return eachPage(ctx, l, func(ctx context.Context, cursor string) (string, error) {
			page, err := s.cs.ListPrompts(ctx, &mcp.ListPromptsParams{Cursor: cursor})
			if err != nil {
				return "", err
			}
			for _, p := range page.Prompts {
				if p != nil && len(list) < maxPrompts {
					list = append(list, promptOf(p))
				}
			}
			if len(list) == maxPrompts {
				return "", nil
			}
			return page.NextCursor, nil
		})
	})
	return list, err
}

func promptOf(p *mcp.Prompt) Prompt {
	out := Prompt{Name: plainLine(p.Name, maxOwnName), Description: plainLine(p.Description, maxReportText)}
	for _, a := range p.Arguments {
		if a != nil && len(out.Arguments) < maxPromptParts {
			out.Arguments = append(out.Arguments, PromptArgument{plainLine(a.Name, maxOwnName), plainLine(a.Description, maxReportText), a.Required})
		}
	}
	return out
}

// Prompt returns the messages of a prompt with its arguments filled in. All of them are the
// user's: a server has no role that a model obeys more than a user, and one that writes in
// the name of the assistant or the program is quoted.
func (s *Servers) Prompt(ctx context.Context, tenant, server, name string, arguments map[string]string) ([]*host.Message, error) {
	l, err := s.link(tenant, server)
	if err != nil {
		return nil, err
	}
	texts, err := l.prompt(ctx, name, arguments)
	if err != nil {
		return nil, err
	}
	messages := make([]*host.Message, len(texts))
	for i, text := range texts {
		messages[i] = host.UserText(text)
	}
	return messages, nil
}

// prompt returns the texts of a prompt's messages.
func (l *link) prompt(ctx context.Context, name string, arguments map[string]string) ([]string, error) {
	var result *mcp.GetPromptResult
	err := l.use(ctx, func(ctx context.Context, s *session) (err error) {
		result, err = s.cs.GetPrompt(ctx, &mcp.GetPromptParams{Name: name, Arguments: arguments})
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case len(result.Messages) > maxPromptParts:
		return nil, fault.Errorf(fault.ResourceExhausted, "The prompt has %d messages, more than %d.", len(result.Messages), maxPromptParts)
	}
	var texts []string
	size := 0
	for _, m := range result.Messages {
		text := promptText(m)
		if size += len(text); size > maxPromptsBytes {
			return nil, fault.Errorf(fault.ResourceExhausted, "The prompt is longer than %d bytes.", maxPromptsBytes)
		}
		if m != nil && m.Role != "user" {
			text = "In the name of " + plainLine(string(m.Role), maxOwnName) + ", the MCP server " + l.server.Name + " writes:\n" + text
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// promptText returns the text of a message, or a note of what it is instead.
func promptText(m *mcp.PromptMessage) string {
	if m == nil {
		return ""
	}
	switch p := m.Content.(type) {
	case *mcp.TextContent:
		return plainText(p.Text, maxPromptsBytes)
	case *mcp.EmbeddedResource:
		if p.Resource != nil && len(p.Resource.Blob) == 0 {
			return plainText(p.Resource.Text, maxPromptsBytes)
		}
	}
	return "[a part that is no text]"
}

// promptTools returns the tools that list and read prompts.
func (l *link) promptTools() ([]*host.Tool, error) {
	from := " of the MCP server " + l.server.Name + "."
	list := host.NewTool(l.server.toolName("list_prompts"), "Lists the prompts"+from,
		func(ctx context.Context, _ *host.Call, _ struct{}) ([]Prompt, error) { return l.prompts(ctx) },
		&host.ToolOptions{ReadOnly: true, Timeout: l.server.Timeout})
	get := host.NewTool(l.server.toolName("get_prompt"), "Reads a prompt"+from+" Its text is the server's, not the user's.",
		func(ctx context.Context, _ *host.Call, in struct {
			Name      string            `json:"name"`
			Arguments map[string]string `json:"arguments,omitempty"`
		}) (*host.ToolOutput, error) {
			texts, err := l.prompt(ctx, in.Name, in.Arguments)
			if err != nil {
				return nil, err
			}
			raw, err := json.Marshal(strings.Join(texts, "\n"))
			return &host.ToolOutput{Content: raw}, err
		}, &host.ToolOptions{ReadOnly: true, Timeout: l.server.Timeout})
	return []*host.Tool{list, get}, nil
}

package mcpserver

import (
	"context"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
)

// maxPromptArgument bounds an argument of a prompt.
const maxPromptArgument = 64 << 10

// maxCompletions is how many values are suggested at most.
const maxCompletions = 100

// offerPrompts offers the prompts of the catalog.
func (e *endpoint) offerPrompts(offers *Offers, next map[string]string) {
	for i := range offers.Prompts {
		p := &offers.Prompts[i]
		key := kindPrompt + p.Name
		if _, taken := next[key]; taken || p.Tool != nil && !e.mayCallTools() {
			continue
		}
		d := &mcp.Prompt{Name: p.Name, Title: p.Title, Description: p.Description}
		for _, a := range p.Arguments {
			d.Arguments = append(d.Arguments, &mcp.PromptArgument{Name: a.Name, Title: a.Title, Description: a.Description, Required: a.Required})
		}
		e.prompts.Store(p.Name, p)
		e.offer(context.Background(), next, key, d, func() { e.server.AddPrompt(d, e.getPrompt) })
	}
}

// getPrompt implements [mcp.PromptHandler] for every prompt.
func (e *endpoint) getPrompt(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	from := requestOf(ctx, req.Extra)
	known, ok := e.prompts.Load(req.Params.Name)
	if from == nil || !ok {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "there is no prompt of that name"}
	}
	p := known.(*Prompt)
	arguments := map[string]string{}
	for _, a := range p.Arguments {
		value, given := req.Params.Arguments[a.Name]
		switch {
		case !given && a.Required:
			return nil, e.protocolError(host.Errorf(host.InvalidArgument, "the prompt %q wants the argument %q", p.Name, a.Name))
		case len(value) > maxPromptArgument:
			return nil, e.protocolError(host.Errorf(host.InvalidArgument, "the argument %q is more than %d bytes", a.Name, maxPromptArgument))
		case given:
			arguments[a.Name] = value
		}
	}
	var messages []*host.Message
	var err error
	if p.Tool != nil {
		messages, err = e.writtenByTool(ctx, from, p, arguments)
	} else {
		messages, err = p.Messages(ctx, from.caller, arguments)
	}
	if err != nil {
		return nil, e.protocolError(err)
	}
	result := &mcp.GetPromptResult{Description: p.Description, Messages: []*mcp.PromptMessage{}}
	for _, m := range messages {
		role := mcp.Role("user")
		if m.Role == chat.Assistant {
			role = "assistant"
		}
		for _, content := range contentOfMessage(m) {
			result.Messages = append(result.Messages, &mcp.PromptMessage{Role: role, Content: content})
		}
	}
	return result, nil
}

// contentOfMessage returns the parts of a message of a prompt. A file has the URI that its
// address is, if it has data beside that.
func contentOfMessage(m *chat.Message) (list []mcp.Content) {
	for _, p := range m.Parts {
		switch p := p.(type) {
		case *chat.Text:
			list = append(list, &mcp.TextContent{Text: p.Text})
		case *chat.Data:
			list = append(list, &mcp.TextContent{Text: string(p.Value)})
		case *chat.Media:
			if len(p.Data) > 0 && p.URL != "" {
				list = append(list, &mcp.EmbeddedResource{Resource: contentsOf(p.URL, []chat.Part{p}).Contents[0]})
				continue
			}
			list = append(list, contentOfMedia("", p))
		}
	}
	return list
}

// complete suggests values of the arguments of prompts.
func (e *endpoint) complete(_ context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	result := &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{}}}
	if req.Params.Ref == nil || req.Params.Ref.Type != "ref/prompt" {
		return result, nil
	}
	known, ok := e.prompts.Load(req.Params.Ref.Name)
	if !ok {
		return result, nil
	}
	p := known.(*Prompt)
	i := slices.IndexFunc(p.Arguments, func(a Argument) bool { return a.Name == req.Params.Argument.Name })
	if i < 0 {
		return result, nil
	}
	for _, v := range p.Arguments[i].Values {
		if strings.HasPrefix(v, req.Params.Argument.Value) {
			result.Completion.Total++
			if len(result.Completion.Values) < maxCompletions {
				result.Completion.Values = append(result.Completion.Values, v)
			}
		}
	}
	result.Completion.HasMore = result.Completion.Total > len(result.Completion.Values)
	return result, nil
}

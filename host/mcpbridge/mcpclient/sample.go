package mcpclient

//lint:file-ignore SA1019 servers of versions before 2026-07-28 ask for samples

import (
	"context"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/instrument"
	"github.com/agenthost/agenthost/host/llm"
)

// The bounds of a question to the model.
const (
	maxSampleBytes    = 256 << 10
	maxSampleMessages = 64
)

// sample asks the run's model a server's question. The question has nothing of the run's
// conversation, and its tokens are the tenant's.
func (c *callAsks) sample(p *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
	req, size, err := c.sampleRequest(p)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.samples++
	n := c.samples
	c.mu.Unlock()
	if n > c.limits.Samples {
		e := fault.Errorf(fault.ResourceExhausted, "one call may ask the model %d times", c.limits.Samples)
		e.Limit = "Samples"
		return nil, e
	}
	model := host.ModelOf(c.ctx)
	if model == nil {
		return nil, fault.Errorf(fault.FailedPrecondition, "the run has no model to ask")
	}
	record := host.UsageOf(c.ctx)
	reserved := &host.ModelCall{Agent: c.call.Scope.Agent, Model: model.Name(), Input: size, MaxOutput: req.MaxOutputTokens}
	if record != nil {
		if err := record.ReserveModel(c.ctx, reserved); err != nil {
			return nil, err
		}
	}
	resp, err := wholeAnswer(c.ctx, model, req)
	used := &host.Usage{InputTokens: size, Estimated: true}
	if resp != nil {
		used = &resp.Usage
	}
	if record != nil {
		record.SettleModel(reserved, used)
	}
	c.mu.Lock()
	c.usage = c.usage.Add(*used)
	c.mu.Unlock()
	if err != nil {
		return nil, fault.Errorf(fault.Unavailable, "the model does not answer: %w", err)
	}
	return sampleResult(model, resp), nil
}

// withoutTools returns a question that comes in the form of those with tools. One with tools
// is refused.
func withoutTools(p *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageParams, error) {
	out := &mcp.CreateMessageParams{MaxTokens: p.MaxTokens, SystemPrompt: p.SystemPrompt}
	for _, m := range p.Messages {
		if m == nil || len(m.Content) != 1 || len(p.Tools) > 0 {
			return nil, fault.Errorf(fault.Unimplemented, "a question to the model has text alone")
		}
		out.Messages = append(out.Messages, &mcp.SamplingMessage{Role: m.Role, Content: m.Content[0]})
	}
	return out, nil
}

// sampleRequest returns the request for a server's question, and an estimate of its tokens.
func (c *callAsks) sampleRequest(p *mcp.CreateMessageParams) (*llm.Request, int, error) {
	if p == nil || len(p.Messages) == 0 || len(p.Messages) > maxSampleMessages {
		return nil, 0, fault.Errorf(fault.InvalidArgument, "a question to the model has 1 to %d messages", maxSampleMessages)
	}
	req := &llm.Request{Whole: true, ToolChoice: host.ToolChoiceNone, Scope: c.call.Scope, MaxOutputTokens: c.limits.SampleTokens}
	if p.MaxTokens > 0 {
		req.MaxOutputTokens = int(min(p.MaxTokens, int64(c.limits.SampleTokens)))
	}
	about := "You answer a request of the MCP server " + c.server.Name + ", which is not the user and not the program that runs you."
	if text := plainText(p.SystemPrompt, maxSampleBytes); text != "" {
		about += " Its instructions:\n" + text
	}
	req.Messages = append(req.Messages, host.NewMessage(host.System, &host.Text{Text: about}))
	size := len(about)
	for _, m := range p.Messages {
		var text *mcp.TextContent
		if m != nil {
			text, _ = m.Content.(*mcp.TextContent)
		}
		if text == nil {
			return nil, 0, fault.Errorf(fault.Unimplemented, "a question to the model has text alone")
		}
		if size += len(text.Text); size > maxSampleBytes {
			return nil, 0, fault.Errorf(fault.ResourceExhausted, "a question to the model is longer than %d bytes", maxSampleBytes)
		}
		role := host.User
		if m.Role == "assistant" {
			role = host.Assistant
		}
		req.Messages = append(req.Messages, host.NewMessage(role, &host.Text{Text: text.Text}))
	}
	return req, size/3 + 1, nil
}

// wholeAnswer asks the model and waits for the whole answer.
func wholeAnswer(ctx context.Context, m host.Model, req *llm.Request) (*llm.Response, error) {
	for chunk, err := range instrument.Generate(ctx, m, req, instrument.ForServer) {
		if err != nil {
			return nil, err
		}
		if chunk.Response != nil {
			return chunk.Response, nil
		}
	}
	return nil, fault.Errorf(fault.Unavailable, "the model ended without an answer")
}

func sampleResult(model host.Model, resp *llm.Response) *mcp.CreateMessageResult {
	var text strings.Builder
	for _, part := range resp.Parts {
		if t, ok := part.(*chat.Text); ok {
			text.WriteString(t.Text)
		}
	}
	result := &mcp.CreateMessageResult{Content: &mcp.TextContent{Text: text.String()}, Model: model.Name(), Role: "assistant", StopReason: "endTurn"}
	if resp.FinishReason == chat.FinishLength {
		result.StopReason = "maxTokens"
	}
	return result
}

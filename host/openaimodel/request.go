package openaimodel

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"strings"

	openai "github.com/sashabaranov/go-openai"

	"github.com/agenthost/agenthost/host"
)

// ErrorPrefix begins the text of a tool result that is an error: the protocol
// has no other place to say so.
const ErrorPrefix = "Error: "

// request writes a question in the protocol's words.
func (m *Model) request(req *host.ModelRequest) (openai.ChatCompletionRequest, error) {
	out := openai.ChatCompletionRequest{Model: m.name, Stream: true, Messages: make([]openai.ChatCompletionMessage, 0, len(req.Messages))}
	for _, msg := range req.Messages {
		var err error
		if out.Messages, err = m.appendMessage(out.Messages, msg); err != nil {
			return out, err
		}
	}
	if len(out.Messages) == 0 {
		return out, host.Errorf(host.InvalidArgument, "request to model %q has no message with content", m.name).WithHint("say something")
	}
	if !m.noUsageAsk.Load() {
		out.StreamOptions = &openai.StreamOptions{IncludeUsage: true}
	}
	out.ResponseFormat = responseFormat(req.Output)
	if req.Temperature != nil {
		out.Temperature = temperature(*req.Temperature)
	}
	if reasons(m.name) {
		out.MaxCompletionTokens = req.MaxOutputTokens
	} else {
		//lint:ignore SA1019 it is all that servers other than OpenAI's are sure to know
		out.MaxTokens = req.MaxOutputTokens
	}
	if len(req.Tools) > 0 {
		out.Tools, out.ToolChoice = tools(req.Tools), toolChoice(req.ToolChoice)
		if req.SerialTools && !oSeries(m.name) {
			out.ParallelToolCalls = false
		}
	}
	return out, nil
}

func responseFormat(o *host.OutputSpec) *openai.ChatCompletionResponseFormat {
	if o == nil {
		return nil
	}
	return &openai.ChatCompletionResponseFormat{
		Type:       openai.ChatCompletionResponseFormatTypeJSONSchema,
		JSONSchema: &openai.ChatCompletionResponseFormatJSONSchema{Name: o.Name, Schema: o.Schema, Strict: o.Strict},
	}
}

// temperature keeps a zero: go-openai leaves a field out that is exactly zero,
// and the server would take its default.
func temperature(t float64) float32 {
	if t == 0 {
		return math.SmallestNonzeroFloat32
	}
	return float32(t)
}

// oSeries reports whether a name is of OpenAI's o-series, which refuses
// parallel_tool_calls.
func oSeries(model string) bool {
	return strings.HasPrefix(model, "o1") || strings.HasPrefix(model, "o3") || strings.HasPrefix(model, "o4")
}

// reasons reports whether a model refuses max_tokens and wants
// max_completion_tokens, which older servers do not know.
func reasons(model string) bool {
	return oSeries(model) || strings.HasPrefix(model, "gpt-5") || strings.HasPrefix(model, "gpt-6")
}

const noParameters = `{"type":"object","properties":{}}`

func tools(specs []host.ToolSpec) []openai.Tool {
	out := make([]openai.Tool, len(specs))
	for i, s := range specs {
		parameters := s.Parameters
		if len(bytes.TrimSpace(parameters)) == 0 {
			parameters = json.RawMessage(noParameters)
		}
		out[i] = openai.Tool{Type: openai.ToolTypeFunction, Function: &openai.FunctionDefinition{
			Name: s.Name, Description: s.Description, Parameters: parameters,
		}}
	}
	return out
}

func toolChoice(c host.ToolChoice) any {
	switch c {
	case "":
		return nil
	case host.ToolChoiceAuto, host.ToolChoiceNone:
		return string(c)
	case host.ToolChoiceAny:
		return "required"
	}
	return openai.ToolChoice{Type: openai.ToolTypeFunction, Function: openai.ToolFunction{Name: string(c)}}
}

// appendMessage appends a message as the protocol has it. A tool's message is
// one for each of its results; a message of which nothing can be sent is left
// out, since servers refuse empty ones.
func (m *Model) appendMessage(dst []openai.ChatCompletionMessage, msg *host.Message) ([]openai.ChatCompletionMessage, error) {
	switch msg.Role {
	case host.ToolRole:
		return appendResults(dst, msg), nil
	case host.Assistant:
		return m.appendAssistant(dst, msg), nil
	case host.System:
		if text := m.textOf(msg); text != "" {
			dst = append(dst, openai.ChatCompletionMessage{Role: openai.ChatMessageRoleSystem, Content: text})
		}
		return dst, nil
	case host.User:
		return m.appendUser(dst, msg)
	}
	return dst, host.Errorf(host.InvalidArgument, "message %q has the role %q, which a model does not know", msg.ID, msg.Role)
}

func appendResults(dst []openai.ChatCompletionMessage, msg *host.Message) []openai.ChatCompletionMessage {
	for _, r := range msg.ToolResults() {
		dst = append(dst, openai.ChatCompletionMessage{Role: openai.ChatMessageRoleTool, ToolCallID: r.ID, Content: resultText(r)})
	}
	return dst
}

// resultText is what a model reads of a result. An empty string goes as JSON:
// go-openai leaves empty content out and servers refuse a result without any.
func resultText(r *host.ToolResult) string {
	text := r.ContentText()
	switch {
	case r.IsError:
		return ErrorPrefix + text
	case text == "" && len(r.Content) == 0:
		return "null"
	case text == "":
		return string(r.Content)
	}
	return text
}

func (m *Model) appendAssistant(dst []openai.ChatCompletionMessage, msg *host.Message) []openai.ChatCompletionMessage {
	out := openai.ChatCompletionMessage{Role: openai.ChatMessageRoleAssistant, Content: m.textOf(msg)}
	for _, c := range msg.ToolCalls() {
		out.ToolCalls = append(out.ToolCalls, openai.ToolCall{
			ID: c.ID, Type: openai.ToolTypeFunction,
			Function: openai.FunctionCall{Name: c.Name, Arguments: argumentsText(c.Arguments)},
		})
	}
	if out.Content == "" && len(out.ToolCalls) == 0 {
		return dst
	}
	return append(dst, out)
}

func argumentsText(raw json.RawMessage) string {
	if len(bytes.TrimSpace(raw)) == 0 {
		return "{}"
	}
	return string(raw)
}

// textOf is a message as text alone: a note stands for media, which the
// protocol takes from users only.
func (m *Model) textOf(msg *host.Message) string {
	if len(msg.Parts) == 1 {
		return m.partText(msg.Parts[0])
	}
	var b strings.Builder
	for _, p := range msg.Parts {
		b.WriteString(m.partText(p))
	}
	return b.String()
}

func (m *Model) partText(p host.Part) string {
	switch p := p.(type) {
	case *host.Text:
		return p.Text
	case *host.Data:
		return string(p.Value)
	case *host.Media:
		return "[" + p.MediaType + " not shown]"
	case *host.Unknown:
		m.server.Logger().Debug("part not sent to model", "model", m.name, "type", p.Kind)
		return ""
	default: // *host.Reasoning is not sent back; calls and results have fields of their own
		return ""
	}
}

func (m *Model) appendUser(dst []openai.ChatCompletionMessage, msg *host.Message) ([]openai.ChatCompletionMessage, error) {
	if !hasMedia(msg) {
		if text := m.textOf(msg); text != "" {
			dst = append(dst, openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser, Content: text})
		}
		return dst, nil
	}
	out := openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser}
	for _, p := range msg.Parts {
		part := openai.ChatMessagePart{Type: openai.ChatMessagePartTypeText}
		if media, ok := p.(*host.Media); ok {
			url, err := imageURL(media)
			if err != nil {
				return dst, err
			}
			part = openai.ChatMessagePart{Type: openai.ChatMessagePartTypeImageURL, ImageURL: &openai.ChatMessageImageURL{URL: url}}
		} else if part.Text = m.partText(p); part.Text == "" {
			continue
		}
		out.MultiContent = append(out.MultiContent, part)
	}
	return append(dst, out), nil
}

func hasMedia(msg *host.Message) bool {
	for _, p := range msg.Parts {
		if _, ok := p.(*host.Media); ok {
			return true
		}
	}
	return false
}

func imageURL(p *host.Media) (string, error) {
	if !strings.HasPrefix(p.MediaType, "image/") && (p.MediaType != "" || len(p.Data) > 0) {
		return "", host.Errorf(host.InvalidArgument, "the user's message holds media of type %q; chat completion servers take images only", p.MediaType).
			WithHint("have a processor or a tool turn it into text first")
	}
	if len(p.Data) == 0 {
		return p.URL, nil
	}
	return "data:" + p.MediaType + ";base64," + base64.StdEncoding.EncodeToString(p.Data), nil
}

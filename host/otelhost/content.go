package otelhost

import (
	"encoding/json"
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/llm"
)

// MaxContentBytes bounds the content of one attribute of a span: a text is cut, and the
// earlier messages of a conversation are left out.
const MaxContentBytes = 32 << 10

// text returns a text as it may be on a span.
func (i *Instrument) text(s string) string {
	s = i.opts.Redact(s)
	if len(s) > MaxContentBytes {
		s = s[:MaxContentBytes]
	}
	return strings.ToValidUTF8(s, "")
}

// message and part have the JSON of the GenAI conventions.
type (
	message struct {
		Role         string `json:"role"`
		Parts        []part `json:"parts"`
		FinishReason string `json:"finish_reason,omitempty"`
	}
	part struct {
		Type      string `json:"type"`
		Content   string `json:"content,omitempty"`
		ID        string `json:"id,omitempty"`
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments,omitempty"`
		Response  string `json:"response,omitempty"`
		MimeType  string `json:"mime_type,omitempty"`
	}
)

// inputContent returns the messages of a request, and its instructions.
func (i *Instrument) inputContent(req *llm.Request) []attribute.KeyValue {
	var list []attribute.KeyValue
	size, from := 0, len(req.Messages)
	for from > 0 && req.Messages[from-1].Role != chat.System {
		n, _ := req.Messages[from-1].Size()
		if size += n; size > MaxContentBytes && from < len(req.Messages) {
			break
		}
		from--
	}
	messages := make([]message, 0, len(req.Messages)-from)
	for _, m := range req.Messages[from:] {
		messages = append(messages, message{Role: string(m.Role), Parts: i.parts(m.Parts)})
	}
	list = append(list, jsonAttribute(keyInputMessages, messages))
	var instructions []part
	for _, m := range req.Messages {
		if m.Role == chat.System {
			instructions = append(instructions, i.parts(m.Parts)...)
		}
	}
	if len(instructions) > 0 {
		list = append(list, jsonAttribute(keySystem, instructions))
	}
	return list
}

// outputContent returns an answer.
func (i *Instrument) outputContent(resp *llm.Response) attribute.KeyValue {
	return jsonAttribute(keyOutputMessages, []message{{Role: string(chat.Assistant), Parts: i.parts(resp.Parts), FinishReason: string(resp.FinishReason)}})
}

func (i *Instrument) parts(parts []chat.Part) []part {
	list := make([]part, 0, len(parts))
	for _, p := range parts {
		switch p := p.(type) {
		case *chat.Text:
			list = append(list, part{Type: "text", Content: i.text(p.Text)})
		case *chat.Reasoning:
			list = append(list, part{Type: "reasoning", Content: i.text(p.Text)})
		case *chat.ToolCall:
			list = append(list, part{Type: "tool_call", ID: p.ID, Name: p.Name, Arguments: i.text(string(p.Arguments))})
		case *chat.ToolResult:
			list = append(list, part{Type: "tool_call_response", ID: p.ID, Name: p.Name, Response: i.text(string(p.Content))})
		case *chat.Media: // its bytes stay out
			list = append(list, part{Type: "blob", MimeType: p.MediaType})
		case *chat.Data:
			list = append(list, part{Type: "data", Content: i.text(string(p.Value))})
		default:
			list = append(list, part{Type: "unknown"})
		}
	}
	return list
}

func jsonAttribute(key string, v any) attribute.KeyValue {
	raw, err := json.Marshal(v)
	if err != nil { // strings always have JSON
		return attribute.String(key, "[]")
	}
	return attribute.String(key, string(raw))
}

package anthropicmodel

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/agenthost/agenthost/host"
)

// wireRequest is a request in the protocol's words.
type wireRequest struct {
	Model       string        `json:"model"`
	MaxTokens   int           `json:"max_tokens"`
	Stream      bool          `json:"stream"`
	System      []any         `json:"system,omitempty"`
	Messages    []wireMessage `json:"messages"`
	Tools       []any         `json:"tools,omitempty"` // wireTool, or one of the provider's as it is declared
	ToolChoice  *wireChoice   `json:"tool_choice,omitempty"`
	Temperature *float64      `json:"temperature,omitempty"`
	Thinking    *wireThinking `json:"thinking,omitempty"`
}

type wireMessage struct {
	Role    string `json:"role"`
	Content []any  `json:"content"` // wireBlock, or a block as it came
}

type wireBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	Thinking  *string         `json:"thinking,omitempty"`
	Signature string          `json:"signature,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   string          `json:"content,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`
	Source    *wireSource     `json:"source,omitempty"`
	Cache     *wireCache      `json:"cache_control,omitempty"`
}

type wireSource struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type,omitempty"`
	Data      string `json:"data,omitempty"`
	URL       string `json:"url,omitempty"`
}

type wireCache struct {
	Type string `json:"type"`
}

type wireTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"`
}

type wireChoice struct {
	Type   string `json:"type"`
	Name   string `json:"name,omitempty"`
	Serial bool   `json:"disable_parallel_tool_use,omitempty"`
}

type wireThinking struct {
	Type   string `json:"type"`
	Budget int    `json:"budget_tokens"`
}

// The protocol's roles.
const (
	roleUser      = "user"
	roleAssistant = "assistant"
)

// continued stands before a conversation that begins with an answer.
const continued = "(The conversation goes on.)"

// request writes a question in the protocol's words.
func (m *Model) request(req *host.ModelRequest) (*wireRequest, error) {
	w := &writer{model: m, out: &wireRequest{Model: m.name, Stream: true, MaxTokens: m.opts.MaxOutputTokens, Temperature: req.Temperature}}
	if req.MaxOutputTokens > 0 {
		w.out.MaxTokens = req.MaxOutputTokens
	}
	if n := m.opts.ThinkingTokens; n > 0 {
		w.out.Thinking = &wireThinking{Type: "enabled", Budget: n}
		w.out.MaxTokens += n
		w.out.Temperature = nil
	}
	for _, msg := range req.Messages {
		if err := w.message(msg); err != nil {
			return nil, err
		}
	}
	if len(w.out.Messages) == 0 {
		return nil, host.Errorf(host.InvalidArgument, "request to model %q has no message with content", m.name).WithHint("say something")
	}
	w.finish(req)
	return w.out, nil
}

// writer makes a request, message by message.
type writer struct {
	model  *Model
	out    *wireRequest
	system strings.Builder
	// results counts the tool results at the beginning of the last message.
	results int
}

func (w *writer) message(msg *host.Message) error {
	switch msg.Role {
	case host.System:
		w.tell(w.model.textOf(msg))
		return nil
	case host.User:
		return w.user(msg)
	case host.Assistant:
		w.add(roleAssistant, w.model.assistantBlocks(msg)...)
		return nil
	case host.ToolRole:
		for _, r := range msg.ToolResults() {
			w.result(r)
		}
		return nil
	}
	return host.Errorf(host.InvalidArgument, "message %q has the role %q, which a model does not know", msg.ID, msg.Role)
}

// tell adds a paragraph to the system prompt.
func (w *writer) tell(text string) {
	if text == "" {
		return
	}
	if w.system.Len() > 0 {
		w.system.WriteString("\n\n")
	}
	w.system.WriteString(text)
}

// add appends blocks to the last message, if it is of the same role, or as a new
// one.
func (w *writer) add(role string, blocks ...any) {
	if len(blocks) == 0 {
		return
	}
	w.open(role)
	last := &w.out.Messages[len(w.out.Messages)-1]
	last.Content = append(last.Content, blocks...)
}

// open makes sure that the last message is of a role.
func (w *writer) open(role string) {
	n := len(w.out.Messages)
	if n > 0 && w.out.Messages[n-1].Role == role {
		return
	}
	if n == 0 && role == roleAssistant {
		w.out.Messages = append(w.out.Messages, wireMessage{Role: roleUser, Content: []any{&wireBlock{Type: "text", Text: continued}}})
	}
	w.out.Messages = append(w.out.Messages, wireMessage{Role: role})
	w.results = 0
}

// result puts a tool's result in front of what a person says in the same
// message, where the provider wants it.
func (w *writer) result(r *host.ToolResult) {
	w.open(roleUser)
	last := &w.out.Messages[len(w.out.Messages)-1]
	block := &wireBlock{Type: "tool_result", ToolUseID: wireID(r.ID), Content: r.ContentText(), IsError: r.IsError}
	last.Content = append(last.Content, nil)
	copy(last.Content[w.results+1:], last.Content[w.results:])
	last.Content[w.results] = block
	w.results++
}

func (w *writer) user(msg *host.Message) error {
	var blocks []any
	for _, p := range msg.Parts {
		if media, ok := p.(*host.Media); ok {
			b, err := mediaBlock(media)
			if err != nil {
				return err
			}
			blocks = append(blocks, b)
		} else if text := w.model.partText(p); text != "" {
			blocks = append(blocks, &wireBlock{Type: "text", Text: text})
		}
	}
	w.add(roleUser, blocks...)
	return nil
}

// mediaBlock is an image or a PDF, which is all that the provider takes.
func mediaBlock(p *host.Media) (*wireBlock, error) {
	b := &wireBlock{Type: "image"}
	switch {
	case p.MediaType == "application/pdf":
		b.Type = "document"
	case !strings.HasPrefix(p.MediaType, "image/") && (p.MediaType != "" || len(p.Data) > 0):
		return nil, host.Errorf(host.InvalidArgument, "the user's message holds media of type %q; the Messages API takes images and PDF only", p.MediaType).
			WithHint("have a processor or a tool turn it into text first")
	}
	if len(p.Data) > 0 {
		b.Source = &wireSource{Type: "base64", MediaType: p.MediaType, Data: base64.StdEncoding.EncodeToString(p.Data)}
	} else {
		b.Source = &wireSource{Type: "url", URL: p.URL}
	}
	return b, nil
}

func (m *Model) assistantBlocks(msg *host.Message) []any {
	var out []any
	for _, p := range msg.Parts {
		switch p := p.(type) {
		case *host.Reasoning:
			if p.Signature != "" {
				out = append(out, &wireBlock{Type: "thinking", Thinking: &p.Text, Signature: p.Signature})
			}
		case *host.ToolCall:
			out = append(out, &wireBlock{Type: "tool_use", ID: wireID(p.ID), Name: p.Name, Input: inputOf(p.Arguments)})
		case *host.Unknown:
			if b := m.foreignBlock(p); b != nil {
				out = append(out, b)
			}
		default:
			if text := m.partText(p); text != "" {
				out = append(out, &wireBlock{Type: "text", Text: text})
			}
		}
	}
	return out
}

// foreignBlock is a block that goes back as it came.
func (m *Model) foreignBlock(p *host.Unknown) json.RawMessage {
	var f foreign
	if p.Kind != foreignType || json.Unmarshal(p.JSON, &f) != nil || len(f.Block) == 0 || f.Block[0] != '{' {
		m.server.Logger().Debug("part not sent to model", "model", m.name, "type", p.Kind)
		return nil
	}
	return f.Block
}

// textOf is a message as text alone.
func (m *Model) textOf(msg *host.Message) string {
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
	}
	return ""
}

// wireID makes an id one that the provider takes. Other providers' have other
// characters; a call and its result stay together.
func wireID(id string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '_'
	}, id)
}

// inputOf is a call's arguments as the object that the provider wants: what a
// model wrote instead of one is put into one.
func inputOf(arguments json.RawMessage) json.RawMessage {
	raw := bytes.TrimSpace(arguments)
	switch {
	case len(raw) == 0:
		return json.RawMessage(`{}`)
	case raw[0] == '{':
		return raw
	}
	wrapped, err := json.Marshal(map[string]json.RawMessage{"value": raw})
	if err != nil {
		return json.RawMessage(`{}`)
	}
	return wrapped
}

// finish adds what stands around the messages.
func (w *writer) finish(req *host.ModelRequest) {
	if o := req.Output; o != nil {
		w.tell("Answer with nothing but JSON of this schema: " + string(o.Schema))
	}
	if w.system.Len() > 0 {
		w.out.System = []any{&wireBlock{Type: "text", Text: w.system.String()}}
	}
	w.trimPrefill()
	w.out.Tools = wireTools(req)
	if len(w.out.Tools) > 0 {
		w.out.ToolChoice = wireToolChoice(req)
	}
	if w.model.opts.Cache {
		w.cache()
	}
}

// trimPrefill cuts white space from the end of a trailing answer: the provider
// refuses it.
func (w *writer) trimPrefill() {
	last := &w.out.Messages[len(w.out.Messages)-1]
	if last.Role != roleAssistant {
		return
	}
	if b, ok := last.Content[len(last.Content)-1].(*wireBlock); ok && b.Type == "text" {
		if b.Text = strings.TrimRight(b.Text, " \t\r\n"); b.Text == "" {
			b.Text = "…"
		}
	}
}

// cache marks how far the prompt can be cached: the system prompt, with the
// tools before it, and the conversation.
func (w *writer) cache() {
	mark := func(blocks []any) {
		if len(blocks) == 0 {
			return
		}
		if b, ok := blocks[len(blocks)-1].(*wireBlock); ok && b.Type != "thinking" {
			b.Cache = &wireCache{Type: "ephemeral"}
		}
	}
	mark(w.out.System)
	mark(w.out.Messages[len(w.out.Messages)-1].Content)
}

const noParameters = `{"type":"object","properties":{}}`

// provider is the name by which agents' provider tools are this provider's.
const provider = "anthropic"

func wireTools(req *host.ModelRequest) []any {
	out := make([]any, 0, len(req.Tools))
	for _, s := range req.Tools {
		t := &wireTool{Name: s.Name, Description: s.Description, InputSchema: s.Parameters}
		if len(bytes.TrimSpace(s.Parameters)) == 0 {
			t.InputSchema = json.RawMessage(noParameters)
		}
		out = append(out, t)
	}
	for _, declared := range req.ProviderToolsOf(provider) {
		out = append(out, declared)
	}
	return out
}

func wireToolChoice(req *host.ModelRequest) *wireChoice {
	out := &wireChoice{Serial: req.SerialTools}
	switch req.ToolChoice {
	case "", host.ToolChoiceAuto:
		if out.Type = "auto"; !out.Serial && req.ToolChoice == "" {
			return nil
		}
	case host.ToolChoiceAny:
		out.Type = "any"
	case host.ToolChoiceNone:
		out.Type, out.Serial = "none", false
	default:
		out.Type, out.Name = "tool", string(req.ToolChoice)
	}
	return out
}

package anthropicmodel

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
)

// The protocol's roles.
const (
	roleUser      = "user"
	roleAssistant = "assistant"
)

// draft is a conversation as the protocol has it: ours, and where its messages
// begin. Ours of one role that follow each other are one message there.
type draft struct {
	form   wireForm
	turns  []turn
	pieces []piece
	system string
	mark   string // of the ends of the cached prompt; "" for none
}

// turn is a message of the protocol, from the end of the one before up to to.
type turn struct {
	role     string
	from, to int // of the pieces
	// results counts the pieces at the beginning that are tools' results: the
	// provider wants them before a person's text in the same message.
	results int
}

// piece is the part of a turn that one of our messages adds.
type piece struct {
	msg    *chat.Message // nil for one of this package's
	blocks []byte
}

// write writes the request. Each message is written once in its life, but for the
// last one.
func (q *question) write() error {
	m, req := q.model, q.req
	cache, parameters, err := req.Parameters.PromptCache()
	if err != nil {
		return err
	}
	format := q.outputFormat()
	inWords := req.Output
	if format != nil {
		inWords = nil
	}
	d, err := m.draft(req, q.form, inWords)
	if err != nil {
		return err
	}
	if len(d.turns) == 0 {
		return m.server.NoContent()
	}
	if d.mark = m.cacheMark(cache); d.mark != "" || d.last().role == roleAssistant {
		err = m.finish(d)
	}
	if err != nil {
		return err
	}
	head, err := modelhttp.AddHeadParameters(q.head(d, format), "messages", parameters, reserved...)
	if err != nil {
		return err
	}
	body := append(make(modelhttp.Body, 0, 2*len(d.pieces)+2*len(d.turns)+2), head)
	for i, t := range d.turns {
		if i > 0 {
			body = append(body, comma)
		}
		body = append(body, opening(t.role))
		for j, p := range d.pieces[t.from:t.to] {
			if j > 0 {
				body = append(body, comma)
			}
			body = append(body, p.blocks)
		}
		body = append(body, turnEnd)
	}
	q.body = append(body, bodyEnd)
	return nil
}

// The text between the pieces, never modified.
var (
	comma          = []byte(",")
	userOpens      = []byte(`{"role":"user","content":[`)
	assistantOpens = []byte(`{"role":"assistant","content":[`)
	turnEnd        = []byte("]}")
	bodyEnd        = []byte("]}")
)

func opening(role string) []byte {
	if role == roleUser {
		return userOpens
	}
	return assistantOpens
}

// outputFormat returns the schema of the output as the provider takes it; nil where there
// is none, or where it must stand in words. The provider takes none with a trailing answer.
func (q *question) outputFormat() []byte {
	o, messages := q.req.Output, q.req.Messages
	if o == nil || q.inWords || q.model.noOutputs.Load() || len(messages) > 0 && messages[len(messages)-1].Role == chat.Assistant {
		return nil
	}
	return q.model.outputs.format(o.Schema)
}

// draft puts messages together as the protocol wants them. The system prompt has the schema
// of the output where inWords is that.
func (m *Model) draft(req *llm.Request, form wireForm, inWords *llm.OutputSpec) (*draft, error) {
	d := &draft{form: form, system: m.server.SystemText(req.Messages, inWords), turns: make([]turn, 0, len(req.Messages)+1), pieces: make([]piece, 0, len(req.Messages)+1)}
	for _, msg := range req.Messages {
		if msg.Role == chat.System {
			continue
		}
		blocks, err := m.blocks(msg, form)
		if err != nil {
			return nil, err
		}
		if len(blocks) > 0 {
			d.add(piece{msg, blocks})
		}
	}
	return d, nil
}

// add adds a message to the last turn, if it is of the same role, or as a new one.
func (d *draft) add(p piece) {
	role := roleUser
	if p.msg.Role == chat.Assistant {
		role = roleAssistant
	}
	if len(d.turns) == 0 && role == roleAssistant {
		w := &blockWriter{}
		w.text(modelhttp.Continued)
		d.pieces = append(d.pieces, piece{nil, w.b})
		d.turns = append(d.turns, turn{role: roleUser, to: 1})
	}
	if n := len(d.turns); n == 0 || d.turns[n-1].role != role {
		d.turns = append(d.turns, turn{role: role, from: len(d.pieces)})
	}
	t := d.last()
	if at := t.from + t.results; p.msg.Role == chat.ToolRole {
		d.pieces = slices.Insert(d.pieces, at, p)
		t.results++
	} else {
		d.pieces = append(d.pieces, p)
	}
	t.to = len(d.pieces)
}

func (d *draft) last() *turn { return &d.turns[len(d.turns)-1] }

// The marks behind which the provider caches the prompt. A request has up to three: behind
// its tools, its system prompt and its last message, so that a system prompt that changes
// leaves the tools in the cache.
const (
	shortMark = `,"cache_control":{"type":"ephemeral"}`
	longMark  = `,"cache_control":{"type":"ephemeral","ttl":"1h"}`
)

// cacheMark returns the mark of a request; "" for none. c is the request's own wish, or nil.
func (m *Model) cacheMark(c *llm.PromptCache) string {
	switch {
	case c == nil && m.opts.Cache || c != nil && !c.Off && !c.Long:
		return shortMark
	case c == nil || c.Off:
		return ""
	}
	return longMark
}

// finish writes the last message again: if the model continues it, or if it carries
// the mark at the end of the cached prompt.
func (m *Model) finish(d *draft) error {
	t, p := d.last(), &d.pieces[len(d.pieces)-1]
	w := &blockWriter{model: m, form: d.form, last: t.role == roleAssistant, mark: d.mark}
	if err := w.message(p.msg); err != nil {
		return err
	}
	p.blocks = w.b
	return nil
}

// reserved are the members that agents' model parameters may not set: those that
// the host writes, those that decide the form of the answer, and the limits that
// the host counts with.
var reserved = []string{"model", "messages", "system", "stream", "tools", "tool_choice", "max_tokens", "thinking", "output_config/format", "output_format"}

// thinking is how many tokens the model may think about a request. The provider
// does not let the model think where it must call a tool, or continues an
// answer.
func (m *Model) thinking(req *llm.Request, d *draft) int {
	switch req.ToolChoice {
	case "", llm.ToolChoiceAuto, llm.ToolChoiceNone:
		if !d.form.bare && d.last().role != roleAssistant {
			return m.opts.ThinkingTokens
		}
	}
	return 0
}

// head writes the request up to its first message; format is the schema of the output, or
// nil.
func (q *question) head(d *draft, format []byte) []byte {
	m, req := q.model, q.req
	system, thinking := d.system, m.thinking(req, d)
	tokens := m.opts.MaxOutputTokens
	if req.MaxOutputTokens > 0 {
		tokens = req.MaxOutputTokens
	}
	b := chat.AppendJSONString([]byte(`{"model":`), m.name)
	b = strconv.AppendInt(append(b, `,"max_tokens":`...), int64(tokens+thinking), 10)
	b = strconv.AppendBool(append(b, `,"stream":`...), !m.server.AnswersWhole(req))
	if system != "" {
		b = chat.AppendJSONString(append(b, `,"system":[{"type":"text","text":`...), system)
		b = append(append(b, d.mark...), '}', ']')
	}
	switch {
	case thinking > 0: // the provider takes no temperature then
		b = strconv.AppendInt(append(b, `,"thinking":{"type":"enabled","budget_tokens":`...), int64(thinking), 10)
		b = append(b, '}')
	case req.Temperature != nil:
		b = strconv.AppendFloat(append(b, `,"temperature":`...), *req.Temperature, 'g', -1, 64)
	}
	if format != nil {
		b = append(append(append(b, `,"output_config":{"format":{"type":"json_schema","schema":`...), format...), "}}"...)
	}
	return append(appendTools(b, req, d.mark), `,"messages":[`...)
}

// provider is the name by which agents' provider tools are this provider's.
const provider = "anthropic"

// appendTools writes the tools that the model may call, with a mark at the last one of the
// host's.
func appendTools(b []byte, req *llm.Request, mark string) []byte {
	declared := req.ProviderToolsOf(provider)
	if len(req.Tools)+len(declared) == 0 {
		return b
	}
	b = append(b, `,"tools":[`...)
	for i, t := range req.Tools {
		if i > 0 {
			b = append(b, ',')
		}
		b = chat.AppendJSONString(append(b, `{"name":`...), t.Name)
		if t.Description != "" {
			b = chat.AppendJSONString(append(b, `,"description":`...), t.Description)
		}
		b = append(append(b, `,"input_schema":`...), modelhttp.ToolSchema(t)...)
		if i == len(req.Tools)-1 {
			b = append(b, mark...)
		}
		b = append(b, '}')
	}
	for i, d := range declared {
		if i+len(req.Tools) > 0 {
			b = append(b, ',')
		}
		b = append(b, d...)
	}
	b = append(b, ']')
	if choice := wireToolChoice(req); choice != nil {
		raw, err := json.Marshal(choice)
		if err != nil {
			return b // strings and a bool have a form
		}
		b = append(append(b, `,"tool_choice":`...), raw...)
	}
	return b
}

type wireChoice struct {
	Type   string `json:"type"`
	Name   string `json:"name,omitempty"`
	Serial bool   `json:"disable_parallel_tool_use,omitempty"`
}

func wireToolChoice(req *llm.Request) *wireChoice {
	out := &wireChoice{Serial: req.SerialTools}
	switch req.ToolChoice {
	case "", llm.ToolChoiceAuto:
		if out.Type = "auto"; !out.Serial && req.ToolChoice == "" {
			return nil
		}
	case llm.ToolChoiceAny:
		out.Type = "any"
	case llm.ToolChoiceNone:
		out.Type, out.Serial = "none", false
	default:
		out.Type, out.Name = "tool", string(req.ToolChoice)
	}
	return out
}

package anthropicmodel

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/modelhttp"
)

// The protocol's roles.
const (
	roleUser      = "user"
	roleAssistant = "assistant"
)

// continued stands before a conversation that begins with an answer.
const continued = "(The conversation goes on.)"

// turn is a message of the protocol: ours of one role that follow each other.
type turn struct {
	role   string
	pieces []piece
	// results counts the pieces at the beginning that are tools' results: the
	// provider wants them before what a person says in the same message.
	results int
}

// piece is what one of our messages adds to a turn.
type piece struct {
	msg    *host.Message // nil for one of this package's
	blocks []byte
}

// request writes a question in the protocol's words. Each message is written
// once in its life, but for the last one.
func (m *Model) request(req *host.ModelRequest) (modelhttp.Body, error) {
	turns, system, err := m.turns(req)
	if err != nil {
		return nil, err
	}
	if len(turns) == 0 {
		return nil, host.Errorf(host.InvalidArgument, "request to model %q has no message with content", m.name).WithHint("say something")
	}
	if err := m.finish(&turns[len(turns)-1]); err != nil {
		return nil, err
	}
	body := modelhttp.Body{m.head(req, system)}
	for i, t := range turns {
		opening := `{"role":"` + t.role + `","content":[`
		if i > 0 {
			opening = "," + opening
		}
		body = append(body, []byte(opening))
		for j, p := range t.pieces {
			if j > 0 {
				body = append(body, comma)
			}
			body = append(body, p.blocks)
		}
		body = append(body, turnEnd)
	}
	return append(body, bodyEnd), nil
}

var (
	comma   = []byte(",")
	turnEnd = []byte("]}")
	bodyEnd = []byte("]}")
)

// turns puts messages together as the protocol wants them, and returns the system
// prompt beside them.
func (m *Model) turns(req *host.ModelRequest) (list []turn, system string, err error) {
	var prompt []string
	for _, msg := range req.Messages {
		if msg.Role == host.System {
			if text := m.textOf(msg); text != "" {
				prompt = append(prompt, text)
			}
			continue
		}
		blocks, err := m.blocks(msg)
		if err != nil {
			return nil, "", err
		}
		if len(blocks) > 0 {
			list = addPiece(list, piece{msg, blocks})
		}
	}
	if o := req.Output; o != nil {
		prompt = append(prompt, "Answer with nothing but JSON of this schema: "+string(o.Schema))
	}
	return list, strings.Join(prompt, "\n\n"), nil
}

// addPiece adds a message to the last turn, if it is of the same role, or as a
// new one.
func addPiece(list []turn, p piece) []turn {
	role := roleUser
	if p.msg.Role == host.Assistant {
		role = roleAssistant
	}
	if len(list) == 0 && role == roleAssistant {
		w := &blockWriter{}
		w.text(continued)
		list = append(list, turn{role: roleUser, pieces: []piece{{nil, w.b}}})
	}
	if n := len(list); n == 0 || list[n-1].role != role {
		list = append(list, turn{role: role})
	}
	t := &list[len(list)-1]
	if p.msg.Role != host.ToolRole {
		t.pieces = append(t.pieces, p)
		return list
	}
	t.pieces = slices.Insert(t.pieces, t.results, p)
	t.results++
	return list
}

// finish writes the last message again, if it is one that the model goes on with,
// or is marked as the end of what is cached.
func (m *Model) finish(t *turn) error {
	p := &t.pieces[len(t.pieces)-1]
	if t.role != roleAssistant && !m.opts.Cache {
		return nil
	}
	w := &blockWriter{model: m, last: t.role == roleAssistant, cached: m.opts.Cache}
	if err := w.message(p.msg); err != nil {
		return err
	}
	p.blocks = w.b
	return nil
}

// head writes what stands around the messages, up to the first of them.
func (m *Model) head(req *host.ModelRequest, system string) []byte {
	tokens := m.opts.MaxOutputTokens
	if req.MaxOutputTokens > 0 {
		tokens = req.MaxOutputTokens
	}
	thinking := m.opts.ThinkingTokens
	b := host.AppendJSONString([]byte(`{"model":`), m.name)
	b = strconv.AppendInt(append(b, `,"max_tokens":`...), int64(tokens+thinking), 10)
	b = append(b, `,"stream":true`...)
	if system != "" {
		b = host.AppendJSONString(append(b, `,"system":[{"type":"text","text":`...), system)
		if m.opts.Cache {
			b = append(b, `,"cache_control":{"type":"ephemeral"}`...)
		}
		b = append(b, '}', ']')
	}
	switch {
	case thinking > 0: // the provider takes no temperature then
		b = strconv.AppendInt(append(b, `,"thinking":{"type":"enabled","budget_tokens":`...), int64(thinking), 10)
		b = append(b, '}')
	case req.Temperature != nil:
		b = strconv.AppendFloat(append(b, `,"temperature":`...), *req.Temperature, 'g', -1, 64)
	}
	return append(appendTools(b, req), `,"messages":[`...)
}

const noParameters = `{"type":"object","properties":{}}`

// provider is the name by which agents' provider tools are this provider's.
const provider = "anthropic"

// appendTools writes what the model may call.
func appendTools(b []byte, req *host.ModelRequest) []byte {
	declared := req.ProviderToolsOf(provider)
	if len(req.Tools)+len(declared) == 0 {
		return b
	}
	b = append(b, `,"tools":[`...)
	for i, t := range req.Tools {
		if i > 0 {
			b = append(b, ',')
		}
		b = host.AppendJSONString(append(b, `{"name":`...), t.Name)
		if t.Description != "" {
			b = host.AppendJSONString(append(b, `,"description":`...), t.Description)
		}
		parameters := bytes.TrimSpace(t.Parameters)
		if len(parameters) == 0 {
			parameters = []byte(noParameters)
		}
		b = append(append(append(b, `,"input_schema":`...), parameters...), '}')
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

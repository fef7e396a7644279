package modelhttp

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/llm"
)

// TextOf returns a message's parts as text, one after the other, for a place of a
// protocol that takes nothing else.
func (s *Server) TextOf(m *chat.Message) string {
	if len(m.Parts) == 1 {
		return s.PartText(m.Parts[0])
	}
	var b strings.Builder
	for _, p := range m.Parts {
		b.WriteString(s.PartText(p))
	}
	return b.String()
}

// SystemText returns the text of the system messages, for protocols that have a place of
// its own for it. Where the schema of the output must stand in words, output is that of the
// request; nil otherwise.
func (s *Server) SystemText(messages []*chat.Message, output *llm.OutputSpec) string {
	var list []string
	for _, m := range messages {
		if m.Role != chat.System {
			continue
		}
		if text := s.TextOf(m); text != "" {
			list = append(list, text)
		}
	}
	if output != nil {
		list = append(list, "Answer with nothing but JSON of this schema: "+string(output.Schema))
	}
	return strings.Join(list, "\n\n")
}

// PartText returns a part as text. Media is named and not shown. Reasoning,
// calls and results are "", as protocols have fields of their own for them, and
// so are parts of unknown types, which the log names.
func (s *Server) PartText(p chat.Part) string {
	switch p := p.(type) {
	case *chat.Text:
		return p.Text
	case *chat.Data:
		return string(p.Value)
	case *chat.Media:
		return NotShown(p)
	case *chat.Unknown:
		s.Logger().Debug("part not sent to model", "model", s.model, "type", p.Kind)
	}
	return ""
}

// Continued is the text of a user that stands before a conversation which begins with an
// answer, for services that refuse one.
const Continued = "(The conversation goes on.)"

// NoContent is the error of a request without a message that can be sent.
func (s *Server) NoContent() error {
	return fault.Errorf(fault.InvalidArgument, "request to model %q has no message with content", s.model).WithHint("say something")
}

// UnknownRole is the error of a message whose role no protocol has.
func UnknownRole(m *chat.Message) error {
	return fault.Errorf(fault.InvalidArgument, "message %q has the role %q, which a model does not know", m.ID, m.Role)
}

// ToolSchema returns the schema of a tool's arguments, for services that demand one of each
// tool.
func ToolSchema(t llm.ToolSpec) json.RawMessage {
	if schema := bytes.TrimSpace(t.Parameters); len(schema) > 0 {
		return schema
	}
	return json.RawMessage(`{"type":"object","properties":{}}`)
}

// maxToolName is how long a tool's name may be: every provider takes that.
const maxToolName = 64

// ToolName returns the name of a call in a form that every provider accepts:
// another name, made up by a model or used by another provider's model, would
// make each later request fail. Tools' own names stay unchanged.
func ToolName(name string) string {
	if len(name) > maxToolName {
		name = strings.ToValidUTF8(name[:maxToolName], "")
	}
	if name == "" {
		return "_"
	}
	return plainName(name)
}

// ToolID returns the id of a call as providers take it that take letters, digits,
// _ and - alone. A call and its result stay together.
func ToolID(id string) string {
	if id == "" {
		return "_"
	}
	return plainName(id)
}

func plainName(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '_'
	}, name)
}

// ArgumentsText returns a call's arguments as JSON text, for protocols that have them in a
// string.
func ArgumentsText(arguments json.RawMessage) string {
	if len(bytes.TrimSpace(arguments)) == 0 {
		return "{}"
	}
	return string(arguments)
}

// ArgumentsObject returns a call's arguments as the object that some protocols
// demand: another value that the model wrote is put into one.
func ArgumentsObject(arguments json.RawMessage) []byte {
	raw := bytes.TrimSpace(arguments)
	valid := json.Valid(raw)
	switch {
	case len(raw) == 0:
		return []byte(`{}`)
	case valid && raw[0] == '{':
		return raw
	case valid:
		return append(append([]byte(`{"value":`), raw...), '}')
	}
	return append(chat.AppendJSONString([]byte(`{"value":`), string(raw)), '}')
}

package modelhttp

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/agenthost/agenthost/host/chat"
)

// TextOf returns a message's parts as text, one after the other, for a model of
// the given name and a place of its protocol that takes nothing else.
func (s *Server) TextOf(model string, m *chat.Message) string {
	if len(m.Parts) == 1 {
		return s.PartText(model, m.Parts[0])
	}
	var b strings.Builder
	for _, p := range m.Parts {
		b.WriteString(s.PartText(model, p))
	}
	return b.String()
}

// PartText returns a part as text. Media is named and not shown. Reasoning,
// calls and results are "", as protocols have fields of their own for them, and
// so are parts of unknown types, which the log names.
func (s *Server) PartText(model string, p chat.Part) string {
	switch p := p.(type) {
	case *chat.Text:
		return p.Text
	case *chat.Data:
		return string(p.Value)
	case *chat.Media:
		return NotShown(p)
	case *chat.Unknown:
		s.Logger().Debug("part not sent to model", "model", model, "type", p.Kind)
	}
	return ""
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

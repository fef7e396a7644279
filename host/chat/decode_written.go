package chat

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// writtenReader reads messages in the form in which [AppendMessagesJSON] writes them, which
// most messages have that a host reads: those that it has stored. It checks JSON while
// it reads, once, and accepts part of what the general decoder accepts, with the same
// results.
type writtenReader struct {
	json []byte
	text string // json, which the texts of the messages are parts of
	at   int
}

// textMessage is the memory of a message whose first part is a text.
type textMessage struct {
	message Message
	text    Text
	parts   [1]Part
}

// The beginnings of what AppendMessagesJSON writes.
const (
	writtenMessage    = `{"id":`
	writtenText       = `{"type":"text","text":`
	writtenReasoning  = `{"type":"reasoning","text":`
	writtenToolCall   = `{"type":"tool_call","id":`
	writtenToolResult = `{"type":"tool_result","id":`
)

// maxWrittenOpen is how many objects and arrays a raw value may open: encoding/json
// accepts 10,000 within each other, and counts those around the value too.
const maxWrittenOpen = 9_000

// decodeWritten returns the messages of an array in the written form. It returns false for
// any other bytes, right or wrong, and for messages with members or parts that are rare:
// media, data and unknown ones.
func decodeWritten(b []byte) (messages []*Message, ok bool) {
	if !bytes.HasPrefix(b, []byte("["+writtenMessage)) || !utf8.Valid(b) {
		return nil, false
	}
	r := writtenReader{json: b, text: string(b), at: 1}
	for {
		m, ok := r.readMessage()
		if !ok {
			return nil, false
		}
		messages = append(messages, m)
		if !r.skip(",") {
			return messages, r.skip("]") && r.at == len(b)
		}
	}
}

func (r *writtenReader) readMessage() (m *Message, ok bool) {
	var id, role, agent string
	ok = r.skip(writtenMessage) && r.readText(&id) && r.skip(`,"role":`) && r.readText(&role) && Role(role).Valid() &&
		(!r.skip(`,"agent":`) || r.readText(&agent)) && r.skip(`,"parts":[`)
	if !ok {
		return nil, false
	}
	var text *Text
	if strings.HasPrefix(r.text[r.at:], writtenText) {
		t := &textMessage{}
		m, text = &t.message, &t.text
		m.Parts = t.parts[:0]
	} else {
		m = &Message{}
	}
	m.ID, m.Role, m.Agent = id, Role(role), agent
	for !r.skip("]") {
		if len(m.Parts) > 0 && !r.skip(",") {
			return nil, false
		}
		p, ok := r.readPart(text)
		if !ok {
			return nil, false
		}
		m.Parts, text = append(m.Parts, p), nil
	}
	if r.skip(`,"created_at":`) {
		var s string
		if !r.readText(&s) || parseTime("created_at", s, &m.CreatedAt) != nil {
			return nil, false
		}
	}
	if r.skip(`,"metadata":`) {
		raw, ok := r.readRaw()
		if !ok || metadataValue("metadata", raw, &m.Metadata) != nil {
			return nil, false
		}
	}
	return m, r.skip("}")
}

// readPart reads a part; a text into the memory given, if it is not nil.
func (r *writtenReader) readPart(text *Text) (p Part, ok bool) {
	switch {
	case r.skip(writtenText):
		if text == nil {
			text = &Text{}
		}
		return text, r.readText(&text.Text) && r.skip("}")
	case r.skip(writtenReasoning):
		p := &Reasoning{}
		return p, r.readText(&p.Text) && (!r.skip(`,"signature":`) || r.readText(&p.Signature)) && r.skip("}")
	case r.skip(writtenToolCall):
		p := &ToolCall{}
		ok = r.readIDName(&p.ID, &p.Name) && r.skip(`,"arguments":`) && r.readOwnRaw(&p.Arguments)
		return p, ok && r.skip("}")
	case r.skip(writtenToolResult):
		p := &ToolResult{}
		ok = r.readIDName(&p.ID, &p.Name) && r.skip(`,"content":`) && r.readOwnRaw(&p.Content)
		p.IsError = r.skip(`,"is_error":true`)
		return p, ok && r.skip("}")
	}
	return nil, false
}

func (r *writtenReader) readIDName(id, name *string) bool {
	return r.readText(id) && r.skip(`,"name":`) && r.readText(name) && *id != "" && *name != ""
}

// skip passes over next, if it comes next.
func (r *writtenReader) skip(next string) bool {
	if !strings.HasPrefix(r.text[r.at:], next) {
		return false
	}
	r.at += len(next)
	return true
}

// readText reads a JSON string.
func (r *writtenReader) readText(into *string) bool {
	if !r.skip(`"`) {
		return false
	}
	rest := r.text[r.at:]
	for i := range len(rest) {
		switch c := rest[i]; {
		case c == '"':
			*into = rest[:i]
			r.at += i + 1
			return true
		case c == '\\':
			return r.readEscaped(into, i)
		case c < ' ':
			return false
		}
	}
	return false
}

// readEscaped reads the string that it stands in, at the beginning; the first escape is at
// index first.
func (r *writtenReader) readEscaped(into *string, first int) bool {
	rest := r.text[r.at:]
	var out strings.Builder
	out.Grow(max(jsondoc.StringEnd(r.json, r.at-1)-r.at, 0))
	copied := 0
	for i := first; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == '"':
			out.WriteString(rest[copied:i])
			*into = out.String()
			r.at += i + 1
			return true
		case c < ' ':
			return false
		case c == '\\':
			out.WriteString(rest[copied:i])
			i++
			switch escape := rest[i:min(i+1, len(rest))]; escape {
			case `"`, `\`, "/":
				out.WriteString(escape)
			case "n":
				out.WriteByte('\n')
			case "r":
				out.WriteByte('\r')
			case "t":
				out.WriteByte('\t')
			case "b":
				out.WriteByte('\b')
			case "f":
				out.WriteByte('\f')
			case "u":
				return r.readUnicode(into)
			default:
				return false
			}
			copied = i + 1
		}
	}
	return false
}

// readUnicode reads the string that it stands in, at the beginning, with any escapes.
func (r *writtenReader) readUnicode(into *string) bool {
	end := jsondoc.StringEnd(r.json, r.at-1) + 1
	var s string // into itself stays on the stack of the caller
	if json.Unmarshal(r.json[r.at-1:end], &s) != nil {
		return false
	}
	*into, r.at = s, end
	return true
}

// readRaw reads any JSON value, which aliases r.json.
func (r *writtenReader) readRaw() (raw []byte, ok bool) {
	raw = r.json[r.at:]
	raw = raw[:jsondoc.ValueEnd(raw)]
	r.at += len(raw)
	open := bytes.Count(raw, []byte{'{'}) + bytes.Count(raw, []byte{'['})
	return raw, open <= maxWrittenOpen && json.Valid(raw)
}

// readOwnRaw reads any JSON value and copies it.
func (r *writtenReader) readOwnRaw(into *json.RawMessage) bool {
	raw, ok := r.readRaw()
	*into = bytes.Clone(raw)
	return ok
}

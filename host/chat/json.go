package chat

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// AppendJSON appends m's JSON to dst. Raw members (arguments, contents, unknown
// fields) are written verbatim and must be valid JSON, which every way into a
// Message checks.
func (m *Message) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"id":`...)
	dst = jsondoc.AppendString(dst, m.ID)
	dst = append(dst, `,"role":`...)
	dst = jsondoc.AppendString(dst, string(m.Role))
	if m.Agent != "" {
		dst = append(dst, `,"agent":`...)
		dst = jsondoc.AppendString(dst, m.Agent)
	}
	dst = append(dst, `,"parts":`...)
	dst = appendParts(dst, m.Parts)
	if !m.CreatedAt.IsZero() {
		dst = append(dst, `,"created_at":"`...)
		dst = m.CreatedAt.UTC().AppendFormat(dst, time.RFC3339Nano)
		dst = append(dst, '"')
	}
	if m.Metadata != nil {
		dst = append(dst, `,"metadata":`...)
		dst = jsondoc.AppendMembers(dst, m.Metadata)
	}
	return append(appendExtra(dst, m.Extra), '}')
}

func appendParts(dst []byte, parts []Part) []byte {
	dst = append(dst, '[')
	for i, p := range parts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendPartJSON(dst, p)
	}
	return append(dst, ']')
}

// AppendJSONString appends s to dst as a JSON string. It escapes only the characters
// that JSON requires to be escaped.
func AppendJSONString(dst []byte, s string) []byte { return jsondoc.AppendString(dst, s) }

// MarshalJSON writes m as the plugin contract has it.
func (m *Message) MarshalJSON() ([]byte, error) {
	return m.AppendJSON(make([]byte, 0, 256)), nil
}

// AppendMessagesJSON appends a JSON array of messages to dst.
func AppendMessagesJSON(dst []byte, messages []*Message) []byte {
	dst = append(dst, '[')
	for i, m := range messages {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = m.AppendJSON(dst)
	}
	return append(dst, ']')
}

// UnmarshalJSON reads a message. It refuses, with code invalid_argument: bytes that
// are not JSON or not UTF-8, an unknown role, a part without a type, a call or
// result without an id or a name, and a known field given twice. An absent id or
// created_at stays empty: the host fills it.
func (m *Message) UnmarshalJSON(b []byte) error {
	if err := jsondoc.Check(b); err != nil {
		return fault.Errorf(fault.InvalidArgument, "read message: %w", err)
	}
	out, err := decodeMessage(bytes.Clone(b))
	if err != nil {
		return fault.Errorf(fault.InvalidArgument, "read message: %w", err)
	}
	m.ID, m.Role, m.Agent, m.Parts = out.ID, out.Role, out.Agent, out.Parts
	m.CreatedAt, m.Metadata, m.Extra = out.CreatedAt, out.Metadata, out.Extra
	m.size.Store(nil)
	m.encoded.Store(nil)
	return nil
}

// DecodeMessages reads a JSON array of messages, with the checks of
// [Message.UnmarshalJSON]. The messages do not alias b.
func DecodeMessages(b []byte) ([]*Message, error) {
	if messages, ok := decodeWritten(b); ok {
		return messages, nil
	}
	if err := jsondoc.Check(b); err != nil {
		return nil, fault.Errorf(fault.InvalidArgument, "read messages: %w", err)
	}
	var out []*Message
	err := jsondoc.EachElement(bytes.Clone(b), func(i int, v []byte) error {
		m, err := decodeMessage(v)
		if err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		out = append(out, m)
		return nil
	})
	if err != nil {
		return nil, fault.Errorf(fault.InvalidArgument, "read messages: %w", err)
	}
	return out, nil
}

// Validate returns an error of code invalid_argument if m cannot be written as
// JSON: a text or a name that is not UTF-8, which JSON has no way to say, or
// arguments, contents or unknown fields that are not JSON. A message read from JSON
// is valid; one that a program made is validated before it is stored.
func (m *Message) Validate() error {
	if err := m.CheckUTF8(); err != nil {
		return err
	}
	if err := jsondoc.Check(m.AppendJSON(nil)); err != nil {
		return fault.Errorf(fault.InvalidArgument, "message: %w", err)
	}
	return nil
}

// CheckUTF8 returns an error of code invalid_argument if a string of m is not UTF-8:
// AppendJSON would write U+FFFD in its place. A part that is nil has that code too.
func (m *Message) CheckUTF8() error {
	if !utf8.ValidString(m.ID) || !utf8.ValidString(string(m.Role)) || !utf8.ValidString(m.Agent) || !validNames(m.Extra) {
		return errNotUTF8("a name of the message")
	}
	for name := range m.Metadata {
		if !utf8.ValidString(name) {
			return errNotUTF8("a name in the metadata of the message")
		}
	}
	for i, p := range m.Parts {
		if p == nil {
			return fault.Errorf(fault.InvalidArgument, "part %d of the message is nil", i)
		}
		for _, s := range partStrings(p) {
			if !utf8.ValidString(s) {
				return errNotUTF8("the " + p.Type() + " of the message")
			}
		}
		if !validNames(p.extra()) {
			return errNotUTF8("a name in a part of the message")
		}
	}
	return nil
}

func errNotUTF8(what string) *fault.Error {
	return fault.Errorf(fault.InvalidArgument, "%s is not UTF-8", what).WithHint("convert it to UTF-8, as with: iconv -f latin1 -t utf-8")
}

func validNames(extra Extra) bool {
	for _, m := range extra {
		if !utf8.ValidString(m.Name) {
			return false
		}
	}
	return true
}

// partStrings returns the texts of a part that become JSON strings.
func partStrings(p Part) []string {
	switch p := p.(type) {
	case *Text:
		return []string{p.Text}
	case *Reasoning:
		return []string{p.Text, p.Signature}
	case *ToolCall:
		return []string{p.ID, p.Name}
	case *ToolResult:
		list := []string{p.ID, p.Name}
		for _, m := range p.Media {
			list = append(list, partStrings(m)...)
		}
		return list
	case *Media:
		return []string{p.MediaType, p.URL}
	}
	return nil // *Data and *Unknown are JSON
}

// decodeMessage reads valid JSON that it may keep.
func decodeMessage(b []byte) (*Message, error) {
	m := &Message{}
	var seen jsondoc.MemberSet
	err := jsondoc.EachMember(b, func(name string, v []byte) error {
		if err := seen.Add(name, "id", "role", "agent", "parts", "created_at", "metadata"); err != nil {
			return err
		}
		switch name {
		case "id":
			return jsondoc.DecodeString(name, v, &m.ID)
		case "role":
			return jsondoc.DecodeString(name, v, (*string)(&m.Role))
		case "agent":
			return jsondoc.DecodeString(name, v, &m.Agent)
		case "parts":
			return decodeParts(v, &m.Parts)
		case "created_at":
			return timeValue(name, v, &m.CreatedAt)
		case "metadata":
			return metadataValue(name, v, &m.Metadata)
		}
		m.Extra = append(m.Extra, Member{name, v})
		return nil
	})
	if err == nil && !m.Role.Valid() {
		err = fmt.Errorf("role is %q, not system, user, assistant or tool", m.Role)
	}
	return m, err
}

func decodeParts(b []byte, parts *[]Part) error {
	return jsondoc.EachElement(b, func(i int, v []byte) error {
		p, err := decodePart(v)
		if err != nil {
			return fmt.Errorf("part %d: %w", i, err)
		}
		*parts = append(*parts, p)
		return nil
	})
}

func decodePart(b []byte) (Part, error) {
	var kind string
	var seen jsondoc.MemberSet
	err := jsondoc.EachMember(b, func(name string, v []byte) error {
		if name != "type" {
			return nil
		}
		return cmp.Or(seen.Add(name, "type"), jsondoc.DecodeString(name, v, &kind))
	})
	if err != nil {
		return nil, err
	}
	switch kind {
	case "":
		return nil, fmt.Errorf("no type")
	case "text":
		p := &Text{}
		return p, decodeFields(b, &p.Extra, field{"text", &p.Text})
	case "reasoning":
		p := &Reasoning{}
		return p, decodeFields(b, &p.Extra, field{"text", &p.Text}, field{"signature", &p.Signature})
	case "tool_call":
		p := &ToolCall{}
		err := decodeFields(b, &p.Extra, field{"id", &p.ID}, field{"name", &p.Name}, field{"arguments", &p.Arguments})
		return p, cmp.Or(err, needed(kind, p.ID, p.Name))
	case "tool_result":
		p := &ToolResult{}
		err := decodeFields(b, &p.Extra, field{"id", &p.ID}, field{"name", &p.Name}, field{"content", &p.Content}, field{"is_error", &p.IsError}, field{"media", &p.Media})
		return p, cmp.Or(err, needed(kind, p.ID, p.Name))
	case "media":
		p := &Media{}
		return p, decodeFields(b, &p.Extra, field{"media_type", &p.MediaType}, field{"url", &p.URL}, field{"data", &p.Data})
	case "data":
		p := &Data{}
		return p, decodeFields(b, &p.Extra, field{"value", &p.Value})
	}
	return &Unknown{Kind: kind, JSON: b}, nil
}

func needed(kind, id, name string) error {
	if id == "" || name == "" {
		return fmt.Errorf("a %s needs an id and a name", kind)
	}
	return nil
}

// field binds one JSON member to where it goes: *string, *bool, *[]byte
// (base64), *[]*Media or *json.RawMessage.
type field struct {
	name string
	into any
}

// decodeFields reads an object's members into fields and the rest into extra.
func decodeFields(b []byte, extra *Extra, fields ...field) error {
	var seen [8]bool
	return jsondoc.EachMember(b, func(name string, v []byte) error {
		if name == "type" {
			return nil
		}
		for i, f := range fields {
			if f.name != name {
				continue
			}
			if seen[i] {
				return fmt.Errorf("%s is given twice", name)
			}
			seen[i] = true
			return f.set(v)
		}
		*extra = append(*extra, Member{name, v})
		return nil
	})
}

func (f field) set(v []byte) error {
	switch into := f.into.(type) {
	case *string:
		return jsondoc.DecodeString(f.name, v, into)
	case *json.RawMessage:
		*into = v
		return nil
	case *[]*Media:
		return decodeMedia(v, into)
	default: // *bool, *[]byte
		if err := json.Unmarshal(v, into); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		return nil
	}
}

// decodeMedia reads a list of media parts.
func decodeMedia(b []byte, into *[]*Media) error {
	var parts []Part
	if err := decodeParts(b, &parts); err != nil {
		return fmt.Errorf("media: %w", err)
	}
	for _, p := range parts {
		m, ok := p.(*Media)
		if !ok {
			return fmt.Errorf("media: a part of type %q", p.Type())
		}
		*into = append(*into, m)
	}
	return nil
}

// The parts write themselves as the plugin contract has them, with their type, so
// that encoding/json writes a []Part that [DecodeParts] reads.

// MarshalJSON implements [json.Marshaler].
func (p *Text) MarshalJSON() ([]byte, error) { return AppendPartJSON(nil, p), nil }

// MarshalJSON implements [json.Marshaler].
func (p *Reasoning) MarshalJSON() ([]byte, error) { return AppendPartJSON(nil, p), nil }

// MarshalJSON implements [json.Marshaler].
func (p *ToolCall) MarshalJSON() ([]byte, error) { return AppendPartJSON(nil, p), nil }

// MarshalJSON implements [json.Marshaler].
func (p *ToolResult) MarshalJSON() ([]byte, error) { return AppendPartJSON(nil, p), nil }

// MarshalJSON implements [json.Marshaler].
func (p *Media) MarshalJSON() ([]byte, error) { return AppendPartJSON(nil, p), nil }

// MarshalJSON implements [json.Marshaler].
func (p *Data) MarshalJSON() ([]byte, error) { return AppendPartJSON(nil, p), nil }

// MarshalJSON implements [json.Marshaler].
func (p *Unknown) MarshalJSON() ([]byte, error) { return AppendPartJSON(nil, p), nil }

// DecodeParts reads a JSON array of parts, with the checks of
// [Message.UnmarshalJSON]. The parts do not alias b.
func DecodeParts(b []byte) ([]Part, error) {
	if err := jsondoc.Check(b); err != nil {
		return nil, fault.Errorf(fault.InvalidArgument, "read parts: %w", err)
	}
	var parts []Part
	if err := decodeParts(bytes.Clone(b), &parts); err != nil {
		return nil, fault.Errorf(fault.InvalidArgument, "read parts: %w", err)
	}
	return parts, nil
}

// AppendPartJSON appends a part's JSON to dst.
func AppendPartJSON(dst []byte, p Part) []byte {
	switch p := p.(type) {
	case *Text:
		dst = append(dst, `{"type":"text","text":`...)
		dst = jsondoc.AppendString(dst, p.Text)
	case *Reasoning:
		dst = append(dst, `{"type":"reasoning","text":`...)
		dst = jsondoc.AppendString(dst, p.Text)
		if p.Signature != "" {
			dst = append(dst, `,"signature":`...)
			dst = jsondoc.AppendString(dst, p.Signature)
		}
	case *ToolCall:
		dst = append(dst, `{"type":"tool_call"`...)
		dst = appendIDName(dst, p.ID, p.Name)
		dst = append(dst, `,"arguments":`...)
		dst = jsondoc.AppendRaw(dst, p.Arguments)
	case *ToolResult:
		dst = append(dst, `{"type":"tool_result"`...)
		dst = appendIDName(dst, p.ID, p.Name)
		dst = append(dst, `,"content":`...)
		dst = jsondoc.AppendRaw(dst, p.Content)
		if p.IsError {
			dst = append(dst, `,"is_error":true`...)
		}
		for i, m := range p.Media {
			if i == 0 {
				dst = append(dst, `,"media":[`...)
			} else {
				dst = append(dst, ',')
			}
			dst = AppendPartJSON(dst, m)
		}
		if len(p.Media) > 0 {
			dst = append(dst, ']')
		}
	case *Media:
		dst = appendMedia(dst, p)
	case *Data:
		dst = append(dst, `{"type":"data","value":`...)
		dst = jsondoc.AppendRaw(dst, p.Value)
	case *Unknown:
		return jsondoc.AppendRaw(dst, p.JSON)
	default:
		panic(fmt.Sprintf("chat: message part of unknown Go type %T", p))
	}
	return append(appendExtra(dst, p.extra()), '}')
}

func appendIDName(dst []byte, id, name string) []byte {
	dst = append(dst, `,"id":`...)
	dst = jsondoc.AppendString(dst, id)
	dst = append(dst, `,"name":`...)
	return jsondoc.AppendString(dst, name)
}

func appendMedia(dst []byte, p *Media) []byte {
	dst = append(dst, `{"type":"media","media_type":`...)
	dst = jsondoc.AppendString(dst, p.MediaType)
	if p.URL != "" {
		dst = append(dst, `,"url":`...)
		dst = jsondoc.AppendString(dst, p.URL)
	}
	if p.Data != nil {
		dst = append(dst, `,"data":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, p.Data)
		dst = append(dst, '"')
	}
	return dst
}

func appendExtra(dst []byte, extra Extra) []byte {
	for _, m := range extra {
		dst = append(dst, ',')
		dst = jsondoc.AppendString(dst, m.Name)
		dst = append(dst, ':')
		dst = append(dst, m.Value...)
	}
	return dst
}

func metadataValue(name string, v []byte, into *map[string]json.RawMessage) error {
	if err := json.Unmarshal(v, into); err != nil {
		return fmt.Errorf("%s is not an object", name)
	}
	return nil
}

func timeValue(name string, v []byte, into *time.Time) error {
	var s string
	if err := jsondoc.DecodeString(name, v, &s); err != nil {
		return err
	}
	return parseTime(name, s, into)
}

// parseTime parses a time of a year that can be written.
func parseTime(name, s string, into *time.Time) error {
	t, err := time.Parse(time.RFC3339Nano, s)
	t = t.UTC()
	if err != nil || t.Year() < 0 || t.Year() > 9999 { // a zone can push it out of the years that can be written
		return fmt.Errorf("%s is %.40q, not an RFC 3339 time", name, s)
	}
	*into = t
	return nil
}

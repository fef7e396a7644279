package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/agenthost/agenthost/host/fault"
)

// Role is the kind of speaker of a message.
type Role string

// The roles.
const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
	ToolRole  Role = "tool"
)

// Valid reports whether r is one of the roles above.
func (r Role) Valid() bool {
	return r == System || r == User || r == Assistant || r == ToolRole
}

// Message is one entry of a conversation: its speaker, and its parts in order.
//
// Its JSON is the plugin contract's:
//
//	{"id","role","agent"?,"parts":[...],"created_at"?,"metadata"?}
//
// A message read from JSON keeps the fields it does not know and writes them
// back. Messages are shared between goroutines once they are part of a history:
// treat one as immutable then and use [Message.Clone] to change it.
type Message struct {
	ID        string // made by the client, or a UUIDv7
	Role      Role
	Agent     string // who spoke, for an assistant's or tool's message
	Parts     []Part
	CreatedAt time.Time
	Metadata  map[string]json.RawMessage
	Extra     Extra // fields of its JSON that this version does not know

	size    atomic.Pointer[size]    // of the counted text, after its first use
	trimmed atomic.Pointer[Message] // the message without the parts last dropped
	encoded atomic.Pointer[encoded] // for protocols that it was sent in
}

// Extra holds JSON object members that this version does not know, in their order,
// so that they survive a round trip.
type Extra []Member

// Member is one member of a JSON object.
type Member struct {
	Name  string
	Value json.RawMessage
}

// Part is a piece of a message. The set is closed: [Text], [Reasoning],
// [ToolCall], [ToolResult], [Media], [Data], and [Unknown] for a part type that
// this version does not know. Every member is a pointer type, so that a switch
// over a part reads case *chat.Text.
type Part interface {
	// Type returns the part's "type" in JSON.
	Type() string
	extra() Extra
}

type (
	// Text is text in a message.
	Text struct {
		Text  string
		Extra Extra
	}

	// Reasoning is a model's reasoning before its answer. Signature is the
	// provider's, and must go back to it unchanged.
	Reasoning struct {
		Text      string
		Signature string
		Extra     Extra
	}

	// ToolCall is a model's wish to have a tool run. Arguments is JSON,
	// normally an object, exactly as the model wrote it.
	ToolCall struct {
		ID        string
		Name      string
		Arguments json.RawMessage
		Extra     Extra
	}

	// ToolResult answers the call with the same ID. Content is any JSON; with
	// IsError it is a sentence for the model. Media is shown beside it to models
	// that take it; the others read a sentence in its place.
	ToolResult struct {
		ID      string
		Name    string
		Content json.RawMessage
		IsError bool
		Media   []*Media
		Extra   Extra
	}

	// Media is an image, a sound or a file, by URL or as bytes (base64 in JSON).
	Media struct {
		MediaType string
		URL       string
		Data      []byte
		Extra     Extra
	}

	// Data is any JSON value.
	Data struct {
		Value json.RawMessage
		Extra Extra
	}

	// Unknown is a part of a type that this version does not know. JSON is the
	// whole object, carried through untouched.
	Unknown struct {
		Kind string
		JSON json.RawMessage
	}
)

// Type returns "text".
func (*Text) Type() string { return "text" }

// Type returns "reasoning".
func (*Reasoning) Type() string { return "reasoning" }

// Type returns "tool_call".
func (*ToolCall) Type() string { return "tool_call" }

// Type returns "tool_result".
func (*ToolResult) Type() string { return "tool_result" }

// Type returns "media".
func (*Media) Type() string { return "media" }

// Type returns "data".
func (*Data) Type() string { return "data" }

// Type returns the type in the part's JSON.
func (p *Unknown) Type() string { return p.Kind }

func (p *Text) extra() Extra       { return p.Extra }
func (p *Reasoning) extra() Extra  { return p.Extra }
func (p *ToolCall) extra() Extra   { return p.Extra }
func (p *ToolResult) extra() Extra { return p.Extra }
func (p *Media) extra() Extra      { return p.Extra }
func (p *Data) extra() Extra       { return p.Extra }
func (p *Unknown) extra() Extra    { return nil }

// ExtraOf returns the members of a part's JSON that this version does not know.
func ExtraOf(p Part) Extra { return p.extra() }

// NewMessage returns a message with a fresh id and the current time.
func NewMessage(role Role, parts ...Part) *Message {
	return &Message{ID: NewID(), Role: role, Parts: parts, CreatedAt: time.Now().UTC()}
}

// UserText returns a user's message with one text part.
func UserText(text string) *Message { return NewMessage(User, &Text{Text: text}) }

// AssistantText returns an assistant's message with one text part.
func AssistantText(text string) *Message { return NewMessage(Assistant, &Text{Text: text}) }

// SameContent reports whether m and other have one role and the same parts: then one
// may be the other, sent again. Ids, times and metadata are not compared.
func (m *Message) SameContent(other *Message) bool {
	return m.Role == other.Role && slices.EqualFunc(m.Parts, other.Parts, func(a, b Part) bool {
		return bytes.Equal(AppendPartJSON(nil, a), AppendPartJSON(nil, b))
	})
}

// Text returns the message's text parts, joined.
func (m *Message) Text() string {
	var first string
	n := 0
	for _, p := range m.Parts {
		if t, ok := p.(*Text); ok {
			if n++; n == 1 {
				first = t.Text
			}
		}
	}
	if n <= 1 {
		return first
	}
	var b strings.Builder
	for _, p := range m.Parts {
		if t, ok := p.(*Text); ok {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}

// ToolCalls returns the message's tool calls in order.
func (m *Message) ToolCalls() []*ToolCall { return partsOf[*ToolCall](m) }

// ToolResults returns the message's tool results in order.
func (m *Message) ToolResults() []*ToolResult { return partsOf[*ToolResult](m) }

func partsOf[P Part](m *Message) []P {
	var out []P
	for _, p := range m.Parts {
		if q, ok := p.(P); ok {
			out = append(out, q)
		}
	}
	return out
}

// WithIdentity returns m, or a copy of it with a fresh id and the current time where
// those are absent.
func (m *Message) WithIdentity() *Message {
	if m.ID != "" && !m.CreatedAt.IsZero() {
		return m
	}
	return withIdentity(m, NewMessage(m.Role))
}

// AppendCountedText appends to dst the text of m that a tokenizer counts: its text
// and data, the JSON of its calls, its results' content. Roles, agents, metadata,
// reasoning and media are not counted.
func (m *Message) AppendCountedText(dst []byte) []byte {
	for _, p := range m.Parts {
		dst = appendCounted(dst, p)
	}
	return dst
}

func appendCounted(dst []byte, p Part) []byte {
	switch p := p.(type) {
	case *Text:
		return append(dst, p.Text...)
	case *ToolCall:
		return AppendPartJSON(dst, p)
	case *ToolResult:
		return appendContentText(dst, p.Content)
	case *Data:
		return append(dst, p.Value...)
	default: // *Reasoning, *Media, *Unknown: not sent as text
		return dst
	}
}

// appendContentText appends a result's content as the model sees it: a string
// verbatim, anything else as JSON.
func appendContentText(dst []byte, content json.RawMessage) []byte {
	if len(content) > 1 && content[0] == '"' {
		var s string
		if json.Unmarshal(content, &s) == nil {
			return append(dst, s...)
		}
	}
	return append(dst, content...)
}

// ContentText returns the result's content as a model sees it: a string
// verbatim, anything else as JSON.
func (p *ToolResult) ContentText() string { return string(appendContentText(nil, p.Content)) }

// JoinResults returns one message of two messages with results of tools: the first, nil
// for none yet, with the parts of both. Neither is changed.
func JoinResults(first, next *Message) *Message {
	if first == nil {
		return next
	}
	m := first.Clone()
	m.Parts = append(m.Parts, next.Parts...)
	return m
}

// CheckForm returns an error that names the first message that is nil, has no known role
// or has a part that is nil.
func CheckForm(messages []*Message) error {
	for i, m := range messages {
		if m == nil || !m.Role.Valid() {
			return fmt.Errorf("message %d is nil or has no known role", i)
		}
		if slices.Contains(m.Parts, nil) {
			return fmt.Errorf("message %d has a part that is nil", i)
		}
	}
	return nil
}

// MediaBytes returns how many bytes the media of a tool's result has. Code
// invalid_argument for media without a type, without data and address, or that is nil.
func MediaBytes(list []*Media) (n int, err error) {
	for i, m := range list {
		if m == nil || m.MediaType == "" || len(m.Data) == 0 && m.URL == "" {
			return 0, fault.Errorf(fault.InvalidArgument, "media %d has no type, or neither data nor an address", i)
		}
		n += len(m.MediaType) + len(m.URL) + len(m.Data)
	}
	return n, nil
}

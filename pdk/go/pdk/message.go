package pdk

// Roles of messages.
const (
	RoleSystem    = "system"
	RoleUser      = "user"
	RoleAssistant = "assistant"
	RoleTool      = "tool"
)

// Types of parts that the contract knows. A part may have any other type; it is
// carried through untouched.
const (
	PartText       = "text"
	PartReasoning  = "reasoning"
	PartToolCall   = "tool_call"
	PartToolResult = "tool_result"
	PartMedia      = "media"
	PartData       = "data"
)

// A Message is one entry of a conversation. Fields that the package does not
// know are kept and written back.
type Message struct {
	ID        string // unique in the conversation; the host fills an empty one
	Role      string // one of the Role constants
	Agent     string // the agent that wrote it, if one did
	Parts     []Part
	CreatedAt string // RFC 3339; the host fills an empty one
	Metadata  Raw    // any JSON value, "" if absent

	extra Raw // members of the object that are not fields above
}

// NewMessage returns a message with the given role and parts. The host gives it
// an id and a time.
func NewMessage(role string, parts ...Part) Message {
	return Message{Role: role, Parts: parts}
}

// ParseMessages reads a JSON array of messages. They are valid as long as r is.
func ParseMessages(r Raw) ([]Message, error) {
	in := reader{scan: scanner{src: string(r)}}
	var slab []Part
	messages := in.messages(nil, &slab)
	if err := in.finish("read messages"); err != nil {
		return nil, err
	}
	return messages, nil
}

// Raw returns the message as JSON.
func (m *Message) Raw() Raw {
	var w Writer
	w.message(m)
	return borrowed(&w)
}

// Text returns the message's text parts, joined.
func (m *Message) Text() string {
	text := ""
	for i := range m.Parts {
		if m.Parts[i].Type == PartText {
			text += m.Parts[i].Text
		}
	}
	return text
}

// A Part is one piece of a message. Type says which of the fields mean
// something; the constructors [TextPart], [ReasoningPart], [ToolCallPart],
// [ToolResultPart], [MediaPart] and [DataPart] set them. A part of a type that
// the package does not know has only Type; [Part.Raw] gives the rest.
type Part struct {
	Type string

	Text      string // text, reasoning
	Signature string // reasoning: the provider's proof of origin, if any

	ID        string // tool_call, tool_result: the call's id
	Name      string // tool_call, tool_result: the tool's name
	Arguments Raw    // tool_call: any JSON value
	Content   Raw    // tool_result: any JSON value
	IsError   bool   // tool_result: the tool failed

	MediaType string // media: MIME type
	URL       string // media: where it is, or
	Data      string // media: what it is, in base64

	Value Raw // data: any JSON value

	extra Raw // members that are not fields above; the whole object if Type is unknown
}

// TextPart returns a text part.
func TextPart(text string) Part { return Part{Type: PartText, Text: text} }

// ReasoningPart returns a reasoning part; signature may be empty.
func ReasoningPart(text, signature string) Part {
	return Part{Type: PartReasoning, Text: text, Signature: signature}
}

// ToolCallPart returns a call of a tool. Empty arguments stand for {}.
func ToolCallPart(id, name string, arguments Raw) Part {
	return Part{Type: PartToolCall, ID: id, Name: name, Arguments: arguments}
}

// ToolResultPart returns the result of the call with the given id. Empty content
// stands for null.
func ToolResultPart(id, name string, content Raw) Part {
	return Part{Type: PartToolResult, ID: id, Name: name, Content: content}
}

// MediaPart returns a media part that is fetched from url.
func MediaPart(mediaType, url string) Part {
	return Part{Type: PartMedia, MediaType: mediaType, URL: url}
}

// MediaDataPart returns a media part that carries its bytes, in base64.
func MediaDataPart(mediaType, base64 string) Part {
	return Part{Type: PartMedia, MediaType: mediaType, Data: base64}
}

// DataPart returns a part that carries a JSON value.
func DataPart(value Raw) Part { return Part{Type: PartData, Value: value} }

// RawPart returns the part that a JSON object describes, of a type that the
// package need not know. An object without a string "type" gives a part without
// a type, which the host refuses.
func RawPart(object Raw) Part {
	var p Part
	in := reader{scan: scanner{src: string(object)}}
	if in.part(&p); !in.scan.end() {
		return Part{}
	}
	return p
}

// Raw returns the part as JSON.
func (p *Part) Raw() Raw {
	if !p.known() && p.extra != "" {
		return p.extra
	}
	var w Writer
	w.part(p)
	return borrowed(&w)
}

// known reports whether the package knows the part's type.
func (p *Part) known() bool {
	switch p.Type {
	case PartText, PartReasoning, PartToolCall, PartToolResult, PartMedia, PartData:
		return true
	}
	return false
}

package transfer

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
)

// A message with members of OpenAI's chat API that this package has no place for is
// kept whole, in its original form, under metadataOpenAI; parts of types that it does
// not know stand in the message as parts whose type begins with unknownOpenAI.
const (
	metadataOpenAI = "openai"
	unknownOpenAI  = "openai."
)

// maxOpenCalls is how many calls may wait for their results in a file: their
// tools' names are held until then.
const maxOpenCalls = 10_000

// readOpenAI reads {"messages":[...]} or [...].
func readOpenAI(d *document) error {
	o := openAIReader{d: d, names: map[string]string{}}
	begin, err := d.in.Peek(peekBytes)
	if err != nil && len(begin) == 0 && err != io.EOF {
		return readFailed(err)
	}
	if b := bytes.TrimLeft(begin, " \t\r\n"); len(b) > 0 && b[0] == '[' {
		if err := d.elements(o.message); err != nil {
			return err
		}
		return d.end()
	}
	found := false
	err = d.members(func(name string) error {
		if name != "messages" {
			_, err := d.value() // of a request: not of the conversation
			return err
		}
		if found {
			return d.wrong("%q is given twice", name)
		}
		found = true
		return d.elements(o.message)
	})
	if err != nil {
		return err
	}
	if !found {
		return d.wrong(`there is no "messages"`)
	}
	return d.end()
}

// readOpenAILines reads a message on each line.
func readOpenAILines(d *document) error {
	o := openAIReader{d: d, names: map[string]string{}}
	for i := 0; ; i++ {
		var raw json.RawMessage
		switch err := d.dec.Decode(&raw); err {
		case nil:
		case io.EOF:
			return nil
		default:
			return d.failed(err)
		}
		if err := o.message(i, raw); err != nil {
			return err
		}
	}
}

type openAIReader struct {
	d     *document
	names map[string]string // of the tools of calls without a result yet
}

func (o *openAIReader) message(i int, raw json.RawMessage) error {
	m, err := readOpenAIMessage(raw, o.names)
	if err != nil {
		return o.d.wrong("message %d: %w", i, err)
	}
	for _, c := range m.ToolCalls() {
		if len(o.names) == maxOpenCalls {
			return o.d.wrong("message %d: more than %d calls have no result", i, maxOpenCalls)
		}
		o.names[c.ID] = c.Name
	}
	for _, r := range m.ToolResults() {
		delete(o.names, r.ID)
	}
	return o.d.emit(Item{Message: m})
}

// readOpenAIMessage returns a message of OpenAI's form, with the original beside
// it if toOpenAI would not give that back. names are of the tools that were called.
func readOpenAIMessage(raw json.RawMessage, names map[string]string) (*host.Message, error) {
	plain, err := canonical(raw)
	if err != nil {
		return nil, err
	}
	m, err := fromOpenAI(plain, names)
	if err != nil {
		return nil, err
	}
	if again := toOpenAI(m); len(again) == 1 {
		if b, err := marshal(again[0]); err == nil {
			if b, err = canonical(b); err == nil && bytes.Equal(b, plain) {
				return m, nil
			}
		}
	}
	m.Metadata = map[string]json.RawMessage{metadataOpenAI: plain}
	return m, nil
}

// originalOpenAI returns the original of an imported message whose content has not
// changed; nil otherwise.
func originalOpenAI(m *host.Message) json.RawMessage {
	raw := m.Metadata[metadataOpenAI]
	if raw == nil {
		return nil
	}
	names := map[string]string{}
	for _, r := range m.ToolResults() {
		names[r.ID] = r.Name
	}
	was, err := fromOpenAI(raw, names)
	if err != nil || was.Role != m.Role || was.Agent != m.Agent || !bytes.Equal(partsJSON(was), partsJSON(m)) {
		return nil
	}
	return raw
}

func partsJSON(m *host.Message) []byte {
	var b []byte
	for _, p := range m.Parts {
		b = chat.AppendPartJSON(b, p)
	}
	return b
}

// canonical returns JSON with its members in order and without white space; the
// digits of numbers stay unchanged.
func canonical(raw json.RawMessage) (json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	return marshal(v)
}

// openAIInput is a message of OpenAI's form, in any of its variants.
type openAIInput struct {
	Role         string            `json:"role"`
	Name         string            `json:"name"`
	Content      json.RawMessage   `json:"content"`
	ToolCalls    []json.RawMessage `json:"tool_calls"`
	ToolCallID   string            `json:"tool_call_id"`
	FunctionCall *openAIFunction   `json:"function_call"` // the form that tool calls replaced
}

func fromOpenAI(raw json.RawMessage, names map[string]string) (*host.Message, error) {
	var in openAIInput
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, err
	}
	m := &host.Message{}
	var err error
	switch in.Role {
	case "user", "system", "assistant":
		m.Role = host.Role(in.Role)
		m.Parts, err = openAIParts(in.Content)
	case "developer":
		m.Role = host.System
		m.Parts, err = openAIParts(in.Content)
	case "tool", "function":
		m.Role = host.ToolRole
		err = in.result(m, names)
	default:
		err = fmt.Errorf("role is %.40q, not system, developer, user, assistant or tool", in.Role)
	}
	if err == nil && m.Role == host.Assistant {
		m.Agent = openAIName(in.Name)
		err = in.calls(m)
	}
	return m, err
}

// result makes a message of a tool out of one of OpenAI's. Its text is the
// content, be it JSON or not.
func (in *openAIInput) result(m *host.Message, names map[string]string) error {
	id := in.ToolCallID
	if in.Role == "function" {
		id = in.Name
	}
	if id == "" {
		return fmt.Errorf("a %s's message does not say which call it answers", in.Role)
	}
	name := names[id]
	if name == "" {
		name = in.Name
	}
	if name == "" {
		name = "tool"
	}
	parts, err := openAIParts(in.Content)
	if err != nil {
		return err
	}
	text := (&host.Message{Parts: parts}).Text()
	m.Parts = []host.Part{&host.ToolResult{ID: id, Name: name, Content: chat.AppendJSONString(nil, text)}}
	return nil
}

func (in *openAIInput) calls(m *host.Message) error {
	for i, raw := range in.ToolCalls {
		var c openAICall
		if err := json.Unmarshal(raw, &c); err != nil {
			return fmt.Errorf("call %d: %w", i, err)
		}
		if c.Type != "function" && c.Type != "" {
			m.Parts = append(m.Parts, unknownPart("tool_call."+c.Type))
			continue
		}
		if err := addCall(m, c.ID, c.Function); err != nil {
			return fmt.Errorf("call %d: %w", i, err)
		}
	}
	if f := in.FunctionCall; f != nil {
		return addCall(m, f.Name, *f)
	}
	return nil
}

func addCall(m *host.Message, id string, f openAIFunction) error {
	if id == "" || f.Name == "" {
		return fmt.Errorf("it needs an id and a name")
	}
	arguments := json.RawMessage(f.Arguments)
	if !json.Valid(arguments) || isString(arguments) {
		arguments = chat.AppendJSONString(nil, f.Arguments) // a model's text need not be JSON
	}
	m.Parts = append(m.Parts, &host.ToolCall{ID: id, Name: f.Name, Arguments: arguments})
	return nil
}

func isString(raw json.RawMessage) bool {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	return len(raw) > 0 && raw[0] == '"'
}

// openAIParts reads a content: a string, a list of parts, or nothing.
func openAIParts(raw json.RawMessage) ([]host.Part, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if isString(raw) {
		var text string
		if err := json.Unmarshal(raw, &text); err != nil || text == "" {
			return nil, err
		}
		return []host.Part{&host.Text{Text: text}}, nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("content is neither a string nor a list of parts")
	}
	parts := make([]host.Part, 0, len(list))
	for i, raw := range list {
		p, err := openAIPartOf(raw)
		if err != nil {
			return nil, fmt.Errorf("content: part %d: %w", i, err)
		}
		parts = append(parts, p)
	}
	return parts, nil
}

func openAIPartOf(raw json.RawMessage) (host.Part, error) {
	var in struct {
		openAIPart
		Refusal string `json:"refusal"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, err
	}
	switch {
	case in.Type == "":
		return nil, fmt.Errorf("it has no type")
	case in.Type == "text":
		return &host.Text{Text: in.Text}, nil
	case in.Type == "refusal":
		return &host.Text{Text: in.Refusal}, nil
	case in.Type == "image_url" && in.ImageURL != nil:
		return mediaOf(in.ImageURL.URL), nil
	case in.Type == "file" && in.File != nil && strings.HasPrefix(in.File.FileData, "data:"):
		return mediaOf(in.File.FileData), nil
	case in.Type == "input_audio" && in.Audio != nil:
		if data, err := base64.StdEncoding.DecodeString(in.Audio.Data); err == nil {
			return &host.Media{MediaType: "audio/" + subtypeOf(in.Audio.Format), Data: data}, nil
		}
	}
	return unknownPart(in.Type), nil
}

// unknownPart stands for a part that only the original has.
func unknownPart(kind string) host.Part {
	kind = unknownOpenAI + kind
	raw := append([]byte(`{"type":`), chat.AppendJSONString(nil, kind)...)
	return &chat.Unknown{Kind: kind, JSON: append(raw, '}')}
}

// subtypeOf undoes audioFormat.
func subtypeOf(format string) string {
	if format == "mp3" {
		return "mpeg"
	}
	return format
}

// mediaOf returns the media that a URL names or holds. An image that is named
// does not say of which type it is.
func mediaOf(url string) *host.Media {
	rest, isData := strings.CutPrefix(url, "data:")
	kind, encoded, hasData := strings.Cut(rest, ";base64,")
	if !isData || !hasData {
		return &host.Media{URL: url}
	}
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return &host.Media{URL: url}
	}
	return &host.Media{MediaType: kind, Data: data}
}

package transfer

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/agenthost/agenthost/host"
)

// openAIMessage is a message as OpenAI's chat API has it. Content is a string, a
// list of openAIPart, or nil beside tool calls.
type openAIMessage struct {
	Role       string       `json:"role"`
	Name       string       `json:"name,omitempty"`
	Content    any          `json:"content"`
	ToolCalls  []openAICall `json:"tool_calls,omitempty"`
	ToolCallID string       `json:"tool_call_id,omitempty"`
}

type openAICall struct {
	ID       string         `json:"id"`
	Type     string         `json:"type"`
	Function openAIFunction `json:"function"`
}

type openAIFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type openAIPart struct {
	Type     string       `json:"type"`
	Text     string       `json:"text,omitempty"`
	ImageURL *openAIImage `json:"image_url,omitempty"`
	Audio    *openAIAudio `json:"input_audio,omitempty"`
	File     *openAIFile  `json:"file,omitempty"`
}

type openAIImage struct {
	URL string `json:"url"`
}

type openAIAudio struct {
	Data   string `json:"data"`
	Format string `json:"format"`
}

type openAIFile struct {
	FileData string `json:"file_data"`
}

// toOpenAI returns a message in OpenAI's form: results become a message each, as
// that API wants them, in front of the rest. Reasoning, parts of unknown types
// and media other than a user's have no place there and are left out, as are
// ids, times and metadata.
func toOpenAI(m *host.Message) []openAIMessage {
	var out []openAIMessage
	for _, r := range m.ToolResults() {
		out = append(out, openAIMessage{Role: "tool", ToolCallID: r.ID, Content: r.ContentText()})
	}
	if m.Role == host.ToolRole || len(out) == len(m.Parts) && len(out) > 0 {
		return out
	}
	switch m.Role {
	case host.User:
		return append(out, openAIMessage{Role: "user", Content: openAIContent(m)})
	case host.Assistant:
		return append(out, openAIAssistant(m))
	default:
		return append(out, openAIMessage{Role: string(m.Role), Content: plainText(m)})
	}
}

func openAIAssistant(m *host.Message) openAIMessage {
	out := openAIMessage{Role: "assistant", Name: openAIName(m.Agent)}
	for _, c := range m.ToolCalls() {
		out.ToolCalls = append(out.ToolCalls, openAICall{
			ID: c.ID, Type: "function", Function: openAIFunction{Name: c.Name, Arguments: argumentText(c.Arguments)},
		})
	}
	if text := plainText(m); text != "" || len(out.ToolCalls) == 0 {
		out.Content = text
	}
	return out
}

// argumentText is a call's arguments as a string that holds JSON, or any other
// text that the model wrote.
func argumentText(raw json.RawMessage) string {
	var text string
	switch {
	case len(raw) == 0:
		return "{}"
	case isString(raw) && json.Unmarshal(raw, &text) == nil:
		return text
	}
	return string(raw)
}

// openAIName is an agent's name if that API takes it as one.
func openAIName(agent string) string {
	const longest = 64
	ok := len(agent) <= longest && strings.IndexFunc(agent, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) < 0
	if !ok {
		return ""
	}
	return agent
}

// plainText is a message's text, and its data as JSON.
func plainText(m *host.Message) string {
	var b strings.Builder
	for _, p := range m.Parts {
		switch p := p.(type) {
		case *host.Text:
			b.WriteString(p.Text)
		case *host.Data:
			b.Write(p.Value)
		}
	}
	return b.String()
}

// openAIContent is a string, or a list of parts if there is media.
func openAIContent(m *host.Message) any {
	var parts []openAIPart
	media := false
	for _, p := range m.Parts {
		switch p := p.(type) {
		case *host.Text:
			if p.Text != "" {
				parts = append(parts, openAIPart{Type: "text", Text: p.Text})
			}
		case *host.Data:
			parts = append(parts, openAIPart{Type: "text", Text: string(p.Value)})
		case *host.Media:
			media = true
			parts = append(parts, openAIMedia(p))
		}
	}
	if !media {
		return plainText(m)
	}
	return parts
}

// openAIMedia is a user's media. That API takes an address of an image only;
// of other media the address goes as text.
func openAIMedia(p *host.Media) openAIPart {
	kind, format, _ := strings.Cut(p.MediaType, "/")
	switch {
	case kind == "image" || p.MediaType == "" && p.Data == nil:
		return openAIPart{Type: "image_url", ImageURL: &openAIImage{URL: mediaURL(p)}}
	case p.Data == nil:
		return openAIPart{Type: "text", Text: p.URL}
	case kind == "audio":
		return openAIPart{Type: "input_audio", Audio: &openAIAudio{Data: base64.StdEncoding.EncodeToString(p.Data), Format: audioFormat(format)}}
	default:
		return openAIPart{Type: "file", File: &openAIFile{FileData: mediaURL(p)}}
	}
}

// audioFormat is that API's name for the subtype of an audio media type.
func audioFormat(subtype string) string {
	if subtype == "mpeg" {
		return "mp3"
	}
	return strings.TrimPrefix(subtype, "x-")
}

// mediaURL is where media lies, or a data URL that holds it.
func mediaURL(p *host.Media) string {
	if p.Data == nil {
		return p.URL
	}
	return "data:" + p.MediaType + ";base64," + base64.StdEncoding.EncodeToString(p.Data)
}

func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

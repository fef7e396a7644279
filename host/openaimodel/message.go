package openaimodel

import (
	"strings"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/modelhttp"
)

// ErrorPrefix begins the text of a tool result that is an error: the protocol
// has no other place to say so.
const ErrorPrefix = "Error: "

// messageOverhead is about the length of the protocol's text around a part.
const messageOverhead = 64

// encoding is a form of messages and the function that writes it. A model has one of
// each form: made for each message they would be two allocations.
type encoding struct {
	form  any // a wireForm
	write func(*chat.Message) ([]byte, error)
}

// encodings are the forms in which a model is sent messages.
type encodings struct {
	plain    encoding
	noMedia  encoding // plain without tools' media
	own      encoding // plain with the unknown members of the model's calls
	thoughts encoding // own with the model's reasoning
}

func (m *Model) newEncodings() encodings {
	of := func(form wireForm) encoding {
		return encoding{form, func(msg *chat.Message) ([]byte, error) { return m.write(msg, form) }}
	}
	return encodings{plain: of(wireForm{}), noMedia: of(wireForm{noMedia: true}), own: of(wireForm{model: m.name}), thoughts: of(wireForm{model: m.name, thoughts: true})}
}

// write writes a message as the protocol has it, in a form. A tool's message is one
// for each of its results, separated by commas. A message without content that
// can be sent writes nothing.
func (m *Model) write(msg *chat.Message, form wireForm) ([]byte, error) {
	dst := make([]byte, 0, roomFor(msg))
	switch msg.Role {
	case chat.ToolRole:
		return appendResults(dst, msg, form), nil
	case chat.Assistant:
		return m.appendAssistant(dst, msg, form), nil
	case chat.System:
		if text := m.server.TextOf(msg); text != "" {
			dst = append(appendContent(append(dst, `{"role":"system"`...), text), '}')
		}
		return dst, nil
	case chat.User:
		return m.appendUser(dst, msg)
	}
	return nil, modelhttp.UnknownRole(msg)
}

// roomFor guesses how long a message is, to spare its growing.
func roomFor(msg *chat.Message) int {
	n := 0
	for _, p := range msg.Parts {
		n += messageOverhead
		switch p := p.(type) {
		case *chat.Text:
			n += len(p.Text) + len(p.Text)/16 // for escapes
		case *chat.ToolCall:
			n += len(p.Arguments) + len(p.Arguments)/4
		case *chat.ToolResult:
			n += len(p.Content)
		}
	}
	return n
}

func appendContent(dst []byte, text string) []byte {
	return chat.AppendJSONString(append(dst, `,"content":`...), text)
}

func appendResults(dst []byte, msg *chat.Message, form wireForm) []byte {
	for i, r := range msg.ToolResults() {
		if i > 0 {
			dst = append(dst, ',')
		}
		_, rest := modelhttp.SplitMedia(r, shows(form))
		dst = appendContent(append(dst, `{"role":"tool"`...), resultText(r)+rest)
		dst = chat.AppendJSONString(append(dst, `,"tool_call_id":`...), r.ID)
		dst = append(dst, '}')
	}
	return dst
}

// shows reports whether media of a tool's result is shown in a form.
func shows(form wireForm) func(*chat.Media) bool {
	return func(m *chat.Media) bool { return !form.noMedia && modelhttp.IsRasterImage(m) }
}

// toolMedia writes the images that tools have returned as a message of the user's, for
// the protocol has no place for them in results; nil if there are none. It stands behind
// all results of an answer's calls, which servers want next to each other.
func (m *Model) toolMedia(results []*chat.Message, form wireForm) ([]byte, error) {
	var dst []byte
	for _, msg := range results {
		for _, r := range msg.ToolResults() {
			shown, _ := modelhttp.SplitMedia(r, shows(form))
			if len(shown) == 0 {
				continue
			}
			if dst == nil {
				dst = append(dst, `{"role":"user","content":[`...)
			} else {
				dst = append(dst, ',')
			}
			dst = chat.AppendJSONString(append(dst, `{"type":"text","text":`...), "Returned by the tool "+modelhttp.ToolName(r.Name)+" (call "+r.ID+"), not written by the user:")
			dst = append(dst, '}')
			for _, media := range shown {
				part, err := m.userPart(media)
				if err != nil {
					return nil, err
				}
				dst = append(append(dst, ','), part...)
			}
		}
	}
	if dst != nil {
		dst = append(dst, ']', '}')
	}
	return dst, nil
}

// resultText is the text of a result for the model. An empty string goes as
// JSON: servers refuse a result without any content.
func resultText(r *chat.ToolResult) string {
	text := r.ContentText()
	switch {
	case r.IsError:
		return ErrorPrefix + text
	case text == "" && len(r.Content) == 0:
		return "null"
	case text == "":
		return string(r.Content)
	}
	return text
}

func (m *Model) appendAssistant(dst []byte, msg *chat.Message, form wireForm) []byte {
	text, calls := m.server.TextOf(msg), msg.ToolCalls()
	if text == "" && len(calls) == 0 {
		return dst
	}
	dst = append(dst, `{"role":"assistant"`...)
	if text != "" {
		dst = appendContent(dst, text)
	}
	if form.thoughts {
		dst = appendReasoning(dst, msg, form.model)
	}
	for i, c := range calls {
		if i == 0 {
			dst = append(dst, `,"tool_calls":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = appendCall(dst, c, form.model)
	}
	if len(calls) > 0 {
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

func appendCall(dst []byte, c *chat.ToolCall, model string) []byte {
	dst = chat.AppendJSONString(append(dst, `{"id":`...), c.ID)
	dst = chat.AppendJSONString(append(dst, `,"type":"function","function":{"name":`...), modelhttp.ToolName(c.Name))
	dst = chat.AppendJSONString(append(dst, `,"arguments":`...), modelhttp.ArgumentsText(c.Arguments))
	return append(appendUnknown(append(dst, '}'), c, model), '}')
}

func (m *Model) appendUser(dst []byte, msg *chat.Message) ([]byte, error) {
	if !hasMedia(msg) {
		if text := m.server.TextOf(msg); text != "" {
			dst = append(appendContent(append(dst, `{"role":"user"`...), text), '}')
		}
		return dst, nil
	}
	dst = append(dst, `{"role":"user","content":[`...)
	for _, p := range msg.Parts {
		part, err := m.userPart(p)
		if err != nil {
			return nil, err
		}
		if len(part) == 0 {
			continue
		}
		if dst[len(dst)-1] != '[' {
			dst = append(dst, ',')
		}
		dst = append(dst, part...)
	}
	return append(dst, ']', '}'), nil
}

// userPart writes a part of a message with media; nothing for one without text.
func (m *Model) userPart(p chat.Part) ([]byte, error) {
	if media, ok := p.(*chat.Media); ok {
		url, err := imageURL(media)
		if err != nil {
			return nil, err
		}
		b := chat.AppendJSONString([]byte(`{"type":"image_url","image_url":{"url":`), url)
		return append(b, '}', '}'), nil
	}
	text := m.server.PartText(p)
	if text == "" {
		return nil, nil
	}
	return append(chat.AppendJSONString([]byte(`{"type":"text","text":`), text), '}'), nil
}

func hasMedia(msg *chat.Message) bool {
	for _, p := range msg.Parts {
		if _, ok := p.(*chat.Media); ok {
			return true
		}
	}
	return false
}

func imageURL(p *chat.Media) (string, error) {
	if !strings.HasPrefix(p.MediaType, "image/") && (p.MediaType != "" || len(p.Data) > 0) {
		return "", fault.Errorf(fault.InvalidArgument, "the user's message holds media of type %q; chat completion servers take images only", p.MediaType).
			WithHint("have a processor or a tool turn it into text first")
	}
	return modelhttp.MediaURL(p), nil
}

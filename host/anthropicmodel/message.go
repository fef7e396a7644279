package anthropicmodel

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/modelhttp"
)

// wireForm is the key of the encodings that messages cache. An encoding must
// depend only on the message and its wireForm.
type wireForm struct {
	bare    bool // without earlier thinking; the model does not think about the request either
	noMedia bool // sentences in the place of tools' media
}

// blockWriter writes the content blocks of one message, separated by commas. The
// last one of a request is written in a way of its own, and not kept.
type blockWriter struct {
	b       []byte
	model   *Model
	form    wireForm
	last    bool   // the message ends an answer that the model continues
	mark    string // of the end of the cached prompt, if that is here
	canMark bool   // the block that is being written can carry it
}

// blocks returns a message's content blocks; none for a message without content
// that can be sent.
func (m *Model) blocks(msg *chat.Message, form wireForm) ([]byte, error) {
	return msg.Encoded(form, func(msg *chat.Message) ([]byte, error) {
		w := &blockWriter{model: m, form: form}
		err := w.message(msg)
		return w.b, err
	})
}

func (w *blockWriter) message(msg *chat.Message) error {
	if err := w.content(msg); err != nil {
		return err
	}
	if w.mark != "" && w.canMark {
		w.b = append(append(bytes.TrimSuffix(w.b, []byte("}")), w.mark...), '}')
	}
	return nil
}

func (w *blockWriter) content(msg *chat.Message) error {
	switch msg.Role {
	case chat.User:
		return w.user(msg)
	case chat.Assistant:
		w.assistant(msg)
	case chat.ToolRole:
		for _, r := range msg.ToolResults() {
			if err := w.result(r); err != nil {
				return err
			}
		}
	default:
		return modelhttp.UnknownRole(msg)
	}
	return nil
}

// result writes a tool's result: a text, or blocks where media is shown.
func (w *blockWriter) result(r *chat.ToolResult) error {
	w.begin("tool_result")
	w.member("tool_use_id", modelhttp.ToolID(r.ID))
	shown, rest := modelhttp.SplitMedia(r, w.shows)
	text := r.ContentText() + rest
	if r.IsError { // the provider takes nothing but text in one
		w.b = append(w.b, `,"is_error":true`...)
	}
	if len(shown) == 0 {
		if text != "" {
			w.member("content", text)
		}
		w.end()
		return nil
	}
	blocks := &blockWriter{model: w.model, form: w.form}
	if text != "" {
		blocks.text(text)
	}
	for _, m := range shown {
		if err := blocks.media(m); err != nil {
			return err
		}
	}
	w.b = append(append(append(w.b, `,"content":[`...), blocks.b...), ']')
	w.end()
	return nil
}

// shows reports whether media of a tool's result is shown.
func (w *blockWriter) shows(m *chat.Media) bool {
	return !w.form.noMedia && (modelhttp.IsRasterImage(m) || modelhttp.IsPDF(m))
}

func (w *blockWriter) next() {
	if len(w.b) > 0 {
		w.b = append(w.b, ',')
	}
}

func (w *blockWriter) begin(kind string) {
	w.next()
	w.b = chat.AppendJSONString(append(w.b, `{"type":`...), kind)
	w.canMark = true
}

func (w *blockWriter) member(name, value string) {
	w.b = chat.AppendJSONString(append(w.b, ','), name)
	w.b = chat.AppendJSONString(append(w.b, ':'), value)
}

func (w *blockWriter) end() { w.b = append(w.b, '}') }

func (w *blockWriter) text(text string) {
	w.begin("text")
	w.member("text", text)
	w.end()
}

func (w *blockWriter) user(msg *chat.Message) error {
	for _, p := range msg.Parts {
		if media, ok := p.(*chat.Media); ok {
			if err := w.media(media); err != nil {
				return err
			}
		} else if text := w.model.server.PartText(p); text != "" {
			w.text(text)
		}
	}
	return nil
}

// media writes an image or a PDF, which is all that the provider takes.
func (w *blockWriter) media(p *chat.Media) error {
	kind := "image"
	switch {
	case p.MediaType == "application/pdf":
		kind = "document"
	case !strings.HasPrefix(p.MediaType, "image/") && (p.MediaType != "" || len(p.Data) > 0):
		return fault.Errorf(fault.InvalidArgument, "the user's message holds media of type %q; the Messages API takes images and PDF only", p.MediaType).
			WithHint("have a processor or a tool turn it into text first")
	}
	w.begin(kind)
	if len(p.Data) > 0 {
		w.b = append(w.b, `,"source":{"type":"base64"`...)
		w.member("media_type", p.MediaType)
		w.member("data", base64.StdEncoding.EncodeToString(p.Data))
	} else {
		w.b = append(w.b, `,"source":{"type":"url"`...)
		w.member("url", p.URL)
	}
	w.end()
	w.end()
	return nil
}

func (w *blockWriter) assistant(msg *chat.Message) {
	last := -1
	if w.last {
		last = w.lastSent(msg)
	}
	for i, p := range msg.Parts {
		switch p := p.(type) {
		case *chat.Reasoning:
			if p.Signature != "" && !w.form.bare {
				w.begin("thinking")
				w.member("thinking", p.Text)
				w.member("signature", p.Signature)
				w.end()
				w.canMark = false
			}
		case *chat.ToolCall:
			w.begin("tool_use")
			w.member("id", modelhttp.ToolID(p.ID))
			w.member("name", modelhttp.ToolName(p.Name))
			w.b = append(append(w.b, `,"input":`...), modelhttp.ArgumentsObject(p.Arguments)...)
			w.end()
		case *chat.Unknown:
			if block := w.model.foreignBlock(p); block != nil && !(w.form.bare && isThought(block)) {
				w.next()
				w.b = append(w.b, block...)
				w.canMark = false
			}
		default:
			if text := w.model.server.PartText(p); text != "" {
				if i == last {
					text = trimmed(text)
				}
				w.text(text)
			}
		}
	}
}

// trimmed cuts white space from the end of a trailing answer: the provider
// refuses it.
func trimmed(text string) string {
	if text = strings.TrimRight(text, " \t\r\n"); text == "" {
		return "…"
	}
	return text
}

// lastSent is the index of the last of an assistant's parts that is sent.
func (w *blockWriter) lastSent(msg *chat.Message) int {
	for i := len(msg.Parts) - 1; i >= 0; i-- {
		one := &blockWriter{model: w.model, form: w.form}
		one.assistant(&chat.Message{Parts: msg.Parts[i : i+1]})
		if len(one.b) > 0 {
			return i
		}
	}
	return -1
}

// notForeign are the types of blocks that do not go back: those with parts of
// their own, and those that no answer contains, which show a model data that the
// provider keeps (any of the account's files). A client that keeps the
// conversation could have made them up.
var notForeign = map[string]bool{
	"": true, "text": true, "thinking": true, "tool_use": true, "tool_result": true,
	"image": true, "document": true, "search_result": true, "container_upload": true,
}

// foreignBlock is a block that goes back unchanged except for its cache mark: the
// provider refuses more than a few marks. The block is written again from its
// checked members, because the provider may read a duplicate member differently.
func (m *Model) foreignBlock(p *chat.Unknown) json.RawMessage {
	var f foreign
	var members map[string]json.RawMessage
	var kind string
	if p.Kind == foreignType && json.Unmarshal(p.JSON, &f) == nil && json.Unmarshal(f.Block, &members) == nil {
		_ = json.Unmarshal(members["type"], &kind) // one without a type is refused below
	}
	if notForeign[kind] {
		m.server.Logger().Debug("part not sent to model", "model", m.name, "type", p.Kind, "block", kind)
		return nil
	}
	delete(members, "cache_control")
	block, err := json.Marshal(members)
	if err != nil {
		return nil
	}
	return block
}

// isThought reports whether a block is redacted thinking.
func isThought(block json.RawMessage) bool {
	var b struct {
		Type string `json:"type"`
	}
	return json.Unmarshal(block, &b) == nil && b.Type == "redacted_thinking"
}

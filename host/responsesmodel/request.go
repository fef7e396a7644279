package responsesmodel

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
)

// ErrorPrefix begins the text of a tool result that is an error: the protocol
// has no other place to say so.
const ErrorPrefix = "Error: "

// conversationPrefix begins the ids of the service's conversations; other ids are
// of responses.
const conversationPrefix = "conv_"

// itemMember is the type of a part that holds an original item, and the member
// of a reasoning part that does.
const itemMember = "openai_item"

var comma = []byte{','}

// write writes the request: the head again each time, and each message once in
// its life.
func (q *question) write() error {
	m, req := q.model, q.req
	q.encrypted = !m.opts.Store && m.reasons() && !m.noEncrypted.Load()
	items := make([][]byte, 0, len(req.Messages))
	for _, msg := range req.Messages {
		if msg.Role == chat.System {
			continue
		}
		form := wireForm{stored: m.opts.Store, bare: q.bare, noMedia: q.noMedia}
		b, err := msg.Encoded(form, func(msg *chat.Message) ([]byte, error) { return m.writeMessage(msg, form) })
		if err != nil {
			return err
		}
		if len(b) > 0 {
			items = append(items, b)
		}
	}
	if len(items) == 0 && req.Conversation == "" {
		return m.server.NoContent()
	}
	parameters, err := modelhttp.OpenAICache(req.Parameters)
	if err != nil {
		return err
	}
	head, err := modelhttp.AddHeadParameters(append(q.head(), `,"input":[`...), "input", parameters, reserved...)
	if err != nil {
		return err
	}
	q.body = append(q.body[:0:0], head)
	for i, b := range items {
		if i > 0 {
			q.body = append(q.body, comma)
		}
		q.body = append(q.body, b)
	}
	q.body = append(q.body, []byte{']', '}'})
	return nil
}

// wireForm is the key of the encodings that messages cache. An encoding must
// depend only on the message and its wireForm.
type wireForm struct {
	stored bool // the service keeps its items, and a request can refer to them
	bare   bool // without reasoning

	noMedia bool // sentences in the place of tools' media
}

// reserved are the members that agents' model parameters may not set: those that
// the host writes, those that decide the form of the answer, and the limits that
// the host counts with.
var reserved = []string{"model", "input", "instructions", "stream", "store", "background", "include", "conversation", "previous_response_id",
	"tools", "tool_choice", "text/format", "max_output_tokens"}

// head writes the request but for its input and its last brace.
func (q *question) head() []byte {
	m, req := q.model, q.req
	b := chat.AppendJSONString([]byte(`{"model":`), m.name)
	b = strconv.AppendBool(append(b, `,"stream":`...), !m.server.AnswersWhole(req))
	b = strconv.AppendBool(append(b, `,"store":`...), m.opts.Store)
	if instructions := m.server.SystemText(req.Messages, nil); instructions != "" {
		b = chat.AppendJSONString(append(b, `,"instructions":`...), instructions)
	}
	switch id := req.Conversation; {
	case strings.HasPrefix(id, conversationPrefix):
		b = chat.AppendJSONString(append(b, `,"conversation":`...), id)
	case id != "":
		b = chat.AppendJSONString(append(b, `,"previous_response_id":`...), id)
	}
	if q.encrypted {
		b = append(b, `,"include":["reasoning.encrypted_content"]`...)
	}
	if m.opts.Effort != "" || m.opts.Summary != "" {
		b = append(append(b, `,"reasoning":`...), reasoning(m.opts.Effort, m.opts.Summary)...)
	}
	if t := req.Temperature; t != nil {
		b = strconv.AppendFloat(append(b, `,"temperature":`...), *t, 'g', -1, 64)
	}
	if n := req.MaxOutputTokens; n > 0 {
		b = strconv.AppendInt(append(b, `,"max_output_tokens":`...), int64(n), 10)
	}
	if o := req.Output; o != nil && !q.noFormat {
		b = chat.AppendJSONString(append(b, `,"text":{"format":{"type":"json_schema","name":`...), o.Name)
		b = append(append(b, `,"schema":`...), o.Schema...)
		b = append(strconv.AppendBool(append(b, `,"strict":`...), o.Strict), '}', '}')
	}
	return appendTools(b, req)
}

func reasoning(effort, summary string) []byte {
	b := []byte{'{'}
	for _, f := range []struct{ name, value string }{{"effort", effort}, {"summary", summary}} {
		if f.value == "" {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = chat.AppendJSONString(append(chat.AppendJSONString(b, f.name), ':'), f.value)
	}
	return append(b, '}')
}

// provider is the name by which agents' provider tools are this service's.
const provider = "responses"

// appendTools writes the tools that the model may call. The service treats
// schemas as strict unless the request says that they are not.
func appendTools(b []byte, req *llm.Request) []byte {
	declared := req.ProviderToolsOf(provider)
	if len(req.Tools)+len(declared) == 0 {
		return b
	}
	b = append(b, `,"tools":[`...)
	for i, t := range req.Tools {
		if i > 0 {
			b = append(b, ',')
		}
		b = chat.AppendJSONString(append(b, `{"type":"function","name":`...), t.Name)
		if t.Description != "" {
			b = chat.AppendJSONString(append(b, `,"description":`...), t.Description)
		}
		b = append(append(append(b, `,"parameters":`...), modelhttp.ToolSchema(t)...), `,"strict":false}`...)
	}
	for i, d := range declared {
		if i+len(req.Tools) > 0 {
			b = append(b, ',')
		}
		b = append(b, d...)
	}
	b = append(b, ']')
	switch c := req.ToolChoice; c {
	case "":
	case llm.ToolChoiceAuto, llm.ToolChoiceNone:
		b = chat.AppendJSONString(append(b, `,"tool_choice":`...), string(c))
	case llm.ToolChoiceAny:
		b = append(b, `,"tool_choice":"required"`...)
	default:
		b = append(chat.AppendJSONString(append(b, `,"tool_choice":{"type":"function","name":`...), string(c)), '}')
	}
	if req.SerialTools {
		b = append(b, `,"parallel_tool_calls":false`...)
	}
	return b
}

// writeMessage writes a message as items, separated by commas. A message
// without content that can be sent writes nothing.
func (m *Model) writeMessage(msg *chat.Message, form wireForm) ([]byte, error) {
	w := itemWriter{form: form}
	switch msg.Role {
	case chat.User:
		return m.userItem(msg)
	case chat.Assistant:
		for _, p := range msg.Parts {
			m.writePart(&w, p)
		}
		return w.b, nil
	case chat.ToolRole:
		for _, r := range msg.ToolResults() {
			if err := m.writeResult(&w, r); err != nil {
				return nil, err
			}
		}
		return w.b, nil
	}
	return nil, modelhttp.UnknownRole(msg)
}

// writeResult writes a tool's result as an item: its text, or parts where media is shown.
func (m *Model) writeResult(w *itemWriter, r *chat.ToolResult) error {
	shown, rest := modelhttp.SplitMedia(r, func(media *chat.Media) bool {
		return !w.form.noMedia && (modelhttp.IsRasterImage(media) || modelhttp.IsPDF(media))
	})
	text := resultText(r) + rest
	w.begin(itemResult)
	w.member("call_id", r.ID)
	if len(shown) == 0 {
		w.member("output", text)
		w.end()
		return nil
	}
	w.b = append(chat.AppendJSONString(append(w.b, `,"output":[{"type":"input_text","text":`...), text), '}')
	for _, media := range shown {
		part, err := m.inputPart(media)
		if err != nil {
			return err
		}
		w.b = append(append(w.b, ','), part...)
	}
	w.b = append(w.b, ']', '}')
	return nil
}

// itemWriter writes items, separated by commas.
type itemWriter struct {
	b    []byte
	form wireForm
}

func (w *itemWriter) next() {
	if len(w.b) > 0 {
		w.b = append(w.b, ',')
	}
}

func (w *itemWriter) begin(kind string) {
	w.next()
	w.b = chat.AppendJSONString(append(w.b, `{"type":`...), kind)
}

func (w *itemWriter) member(name, value string) {
	w.b = chat.AppendJSONString(append(w.b, ','), name)
	w.b = chat.AppendJSONString(append(w.b, ':'), value)
}

func (w *itemWriter) end() { w.b = append(w.b, '}') }

// whole writes an item unchanged.
func (w *itemWriter) whole(item json.RawMessage) {
	w.next()
	w.b = append(w.b, item...)
}

// writePart writes a part of the assistant's as an item.
func (m *Model) writePart(w *itemWriter, p chat.Part) {
	switch p := p.(type) {
	case *chat.Reasoning:
		if item := reasoningItem(p); item != nil && !w.form.bare && (w.form.stored || hasEncrypted(item)) {
			w.whole(item)
		}
	case *chat.ToolCall:
		w.begin(itemCall)
		w.member("call_id", p.ID)
		w.member("name", modelhttp.ToolName(p.Name))
		w.member("arguments", modelhttp.ArgumentsText(p.Arguments))
		w.end()
	case *chat.Unknown:
		if item := foreignItem(p); item != nil {
			w.whole(item)
			return
		}
		m.server.Logger().Debug("part not sent to model", "model", m.name, "type", p.Kind)
	default:
		text := m.server.PartText(p)
		if text == "" {
			return
		}
		w.begin("message")
		w.b = append(w.b, `,"role":"assistant","content":[{"type":"output_text"`...)
		w.member("text", text)
		w.b = append(w.b, '}', ']', '}')
	}
}

// resultText is the text of a result for the model.
func resultText(r *chat.ToolResult) string {
	if r.IsError {
		return ErrorPrefix + r.ContentText()
	}
	if len(r.Content) == 0 {
		return "null"
	}
	return r.ContentText()
}

// reasoningItem is the item that a reasoning part came as, nil for another's.
func reasoningItem(p *chat.Reasoning) json.RawMessage {
	for _, m := range p.Extra {
		if m.Name != itemMember {
			continue
		}
		if item, kind := readItem(m.Value); kind == itemReasoning {
			return item
		}
	}
	return nil
}

// neverSaid are the types of items that the service receives and never sends:
// the results among them can show a model any files that the service keeps,
// other users' included.
var neverSaid = map[string]bool{
	"item_reference": true, "mcp_approval_response": true, "computer_call_output": true,
	"custom_tool_call_output": true, "local_shell_call_output": true, "apply_patch_call_output": true,
}

// readItem returns an item that may go back and its type, nothing for one that
// may not. A client that keeps the conversation can add items that the service
// never sent: it must not speak as the system, give consent that no person was
// asked for, or point at data that the service keeps for others. The item is
// written again from its checked members, because the service may read a
// duplicate member differently.
func readItem(raw json.RawMessage) (item json.RawMessage, kind string) {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || json.Unmarshal(members["type"], &kind) != nil || kind == "" {
		return nil, ""
	}
	if _, speaks := members["role"]; speaks || neverSaid[kind] {
		return nil, ""
	}
	item, err := json.Marshal(members)
	if err != nil {
		return nil, ""
	}
	return item, kind
}

func hasEncrypted(item json.RawMessage) bool {
	var v struct {
		Encrypted string `json:"encrypted_content"`
	}
	return json.Unmarshal(item, &v) == nil && v.Encrypted != ""
}

// foreignItem is an unknown item that goes back unchanged.
func foreignItem(p *chat.Unknown) json.RawMessage {
	var v struct {
		Item json.RawMessage `json:"item"`
	}
	if p.Kind != itemMember || json.Unmarshal(p.JSON, &v) != nil {
		return nil
	}
	item, kind := readItem(v.Item)
	switch kind {
	case itemMessage, itemCall, itemReasoning, itemResult:
		return nil // there are parts for these
	}
	return item
}

// userItem writes a user's message.
func (m *Model) userItem(msg *chat.Message) ([]byte, error) {
	var content []byte
	for _, p := range msg.Parts {
		part, err := m.inputPart(p)
		if err != nil {
			return nil, err
		}
		if len(part) == 0 {
			continue
		}
		if len(content) > 0 {
			content = append(content, ',')
		}
		content = append(content, part...)
	}
	if len(content) == 0 {
		return nil, nil
	}
	b := append([]byte(`{"type":"message","role":"user","content":[`), content...)
	return append(b, ']', '}'), nil
}

// inputPart writes a part of a user's message; nothing for one without content.
func (m *Model) inputPart(p chat.Part) ([]byte, error) {
	media, ok := p.(*chat.Media)
	if !ok {
		text := m.server.PartText(p)
		if text == "" {
			return nil, nil
		}
		return append(chat.AppendJSONString([]byte(`{"type":"input_text","text":`), text), '}'), nil
	}
	switch {
	case media.MediaType == "application/pdf" && len(media.Data) > 0:
		return append(chat.AppendJSONString([]byte(`{"type":"input_file","filename":"file.pdf","file_data":`), modelhttp.MediaURL(media)), '}'), nil
	case media.MediaType == "application/pdf":
		return append(chat.AppendJSONString([]byte(`{"type":"input_file","file_url":`), media.URL), '}'), nil
	case strings.HasPrefix(media.MediaType, "image/") || media.MediaType == "" && len(media.Data) == 0:
		return append(chat.AppendJSONString([]byte(`{"type":"input_image","image_url":`), modelhttp.MediaURL(media)), '}'), nil
	}
	return nil, fault.Errorf(fault.InvalidArgument, "the user's message holds media of type %q; the Responses API takes images and PDF only", media.MediaType).
		WithHint("have a processor or a tool turn it into text first")
}

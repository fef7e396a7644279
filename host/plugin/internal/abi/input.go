package abi

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
)

// ToolInput is the envelope of a call of the tool of that name in the manifest, with the
// state if the plugin may read it.
func ToolInput(tool string, call *host.Call, provider string, config json.RawMessage, withState bool) []byte {
	state, revision := json.RawMessage(nil), int64(0)
	if withState {
		state, revision = call.State.Snapshot()
	}
	o := NewObject(EnvelopeSize + len(call.Arguments) + len(state) + len(config))
	o.Text("tool", tool)
	if provider != "" {
		o.Text("provider", provider)
	}
	o.Text("call_id", call.ID)
	o.Text("idempotency_key", call.IdempotencyKey)
	o.Int("attempt", int64(call.Attempt))
	o.Raw("arguments", call.Arguments)
	o.scope(call.Scope)
	if state != nil {
		o.Raw("state", state)
		o.Int("state_revision", revision)
	}
	o.Raw("config", config)
	if len(call.Resumed) > 0 {
		o.Raw("resumed", resumed(call.Resumed))
	}
	return o.End()
}

// resumed writes answers as the contract has them.
func resumed(answers []host.Resumption) json.RawMessage {
	raw, err := json.Marshal(answers)
	if err != nil {
		return json.RawMessage("[]") // an answer that is no JSON, which no host passes on
	}
	return raw
}

// ProcessInput is the envelope of a call of a processor, with the messages of the view or,
// if the manifest says so, their outline.
func ProcessInput(ctx context.Context, info *ProcessorInfo, config json.RawMessage, view *host.View) ([]byte, error) {
	size := EnvelopeSize + len(config)
	if info.Input == "outline" {
		size += 32 * len(view.Messages)
	} else {
		for _, m := range view.Messages {
			n, _ := m.Size()
			size += n + n/8 + 192
		}
	}
	o := NewObject(size)
	o.Text("processor", info.Name)
	o.Raw("config", config)
	o.scope(view.Scope)
	o.Text("model", view.Model)
	if err := o.addHistory(ctx, info, config, view); err != nil {
		return nil, err
	}
	return o.End(), nil
}

// addHistory writes the messages or, if the manifest says so, their outline.
func (o *Object) addHistory(ctx context.Context, info *ProcessorInfo, config json.RawMessage, view *host.View) error {
	if info.Input != "outline" {
		o.messages("messages", view.Messages)
		o.ownFrom(view)
		return nil
	}
	return o.Outline(ctx, view, outlineEncoding(info, config, view))
}

// defaultEncoding is the encoding for a processor whose configuration may choose one
// and does not.
const defaultEncoding = "o200k_base"

// outlineEncoding returns the encoding that counts the outline's tokens; "" counts none.
// A configuration may name a custom tokenizer under "tokenizer", and say
// "model" for the model's own tables: if those are not known, nothing is
// counted and the processor estimates.
func outlineEncoding(info *ProcessorInfo, config json.RawMessage, view *host.View) string {
	own, exact := view.Encoding()
	if info.Tokens == nil || own == "" {
		return ""
	}
	encoding := info.Tokens.Encoding
	if info.Tokens.ConfigKey != "" {
		encoding = configuredEncoding(config, info.Tokens.ConfigKey)
	}
	if info.Tokens.Model || encoding == "model" {
		if !exact {
			return ""
		}
		return own
	}
	return encoding
}

func configuredEncoding(raw json.RawMessage, key string) string {
	var config map[string]any
	_ = json.Unmarshal(raw, &config) // a bare number chooses nothing
	for _, k := range []string{"tokenizer", key} {
		if s, _ := config[k].(string); s != "" {
			return s
		}
	}
	return defaultEncoding
}

// RouteInput is the envelope of a call of a router, with the state and an outline of the
// conversation if the plugin may read them.
func RouteInput(ctx context.Context, router string, config json.RawMessage, req *host.RouteRequest, withState, withMessages bool) ([]byte, error) {
	o := NewObject(EnvelopeSize)
	o.Text("router", router)
	o.Raw("config", config)
	o.scope(req.Scope)
	o.Message("input", req.Input)
	o.Int("call_count", int64(req.CallCount))
	o.texts("stack", req.Stack)
	o.Key("agents")
	o.B = append(o.B, '[')
	for i, a := range req.Agents {
		if i > 0 {
			o.B = append(o.B, ',')
		}
		o.B = append(o.B, '{')
		o.Text("name", a.Name)
		o.Text("description", a.Description)
		o.B = append(o.B, '}')
	}
	o.B = append(o.B, ']')
	if withState {
		o.Raw("state", req.State.JSON())
	}
	if req.Last != nil {
		o.last(req.Last)
	}
	if withMessages {
		if err := o.Outline(ctx, req.View(), ""); err != nil {
			return nil, err
		}
	}
	return o.End(), nil
}

func (o *Object) last(res *host.Result) {
	o.Key("last")
	o.B = append(o.B, '{')
	o.Text("agent", res.Agent)
	o.messages("messages", res.Messages)
	o.Key("tool_results")
	o.B = append(o.B, '[')
	for i, part := range res.ToolResults() {
		if i > 0 {
			o.B = append(o.B, ',')
		}
		o.B = chat.AppendPartJSON(o.B, part)
	}
	o.B = append(o.B, ']')
	o.Text("finish_reason", string(res.FinishReason))
	o.B = append(o.B, '}')
}

// ProvideInput is the envelope of a call of a provider.
func ProvideInput(provider string, config json.RawMessage, req *host.ProvideRequest) []byte {
	return provideObject(provider, config, req).End()
}

func provideObject(provider string, config json.RawMessage, req *host.ProvideRequest) *Object {
	o := NewObject(EnvelopeSize)
	o.Text("provider", provider)
	o.Raw("config", config)
	o.scope(req.Scope)
	o.messages("messages", req.Messages)
	return o
}

// ObserveInput is the envelope of a call that lets a provider observe a run.
func ObserveInput(provider string, config json.RawMessage, req *host.ObserveRequest) []byte {
	o := provideObject(provider, config, &req.ProvideRequest)
	if req.Err != nil {
		o.Raw("error", ErrorObject(req.Err))
	} else {
		o.messages("responses", req.Responses)
	}
	return o.End()
}

// AddConversation adds the conversation to the input of a processor or a router that has
// none: what the manifest asks for, as in a run. Any other input is unchanged.
func AddConversation(ctx context.Context, e Export, m *Manifest, input []byte, view *host.View) ([]byte, error) {
	var in struct {
		Processor string
		Config    json.RawMessage
		Messages  json.RawMessage
		Outline   json.RawMessage
	}
	var b bytes.Buffer
	if json.Unmarshal(input, &in) != nil || json.Compact(&b, input) != nil || b.Bytes()[0] != '{' || in.Messages != nil || in.Outline != nil {
		return input, nil
	}
	out := &Object{bytes.TrimSuffix(b.Bytes(), []byte("}"))}
	if e == Route {
		if err := out.Outline(ctx, view, ""); err != nil {
			return nil, err
		}
		return out.End(), nil
	}
	info := m.Processor(in.Processor)
	if info == nil {
		return input, nil
	}
	if in.Processor == "" {
		out.Text("processor", info.Name)
	}
	if err := out.addHistory(ctx, info, in.Config, view); err != nil {
		return nil, err
	}
	return out.End(), nil
}

func (o *Object) texts(name string, list []string) {
	o.Key(name)
	o.B = append(o.B, '[')
	for i, s := range list {
		if i > 0 {
			o.B = append(o.B, ',')
		}
		o.B = chat.AppendJSONString(o.B, s)
	}
	o.B = append(o.B, ']')
}

func (o *Object) ints(name string, list []int) {
	o.Key(name)
	o.B = append(o.B, '[')
	for i, n := range list {
		if i > 0 {
			o.B = append(o.B, ',')
		}
		o.B = strconv.AppendInt(o.B, int64(n), 10)
	}
	o.B = append(o.B, ']')
}

// Message writes a member that is a message; nil is left out.
func (o *Object) Message(name string, m *host.Message) {
	if m == nil {
		return
	}
	o.Key(name)
	o.B = m.AppendJSON(o.B)
}

func (o *Object) messages(name string, list []*host.Message) {
	o.Key(name)
	o.B = chat.AppendMessagesJSON(o.B, list)
}

func (o *Object) scope(s host.Scope) {
	o.Key("scope")
	o.B = append(o.B, '{')
	for _, f := range []struct{ name, v string }{
		{"tenant", s.Tenant}, {"thread", s.Thread}, {"run", s.Run}, {"network", s.Network}, {"agent", s.Agent},
	} {
		if f.v != "" {
			o.Text(f.name, f.v)
		}
	}
	o.B = append(o.B, '}')
}

// Outline writes a view in columns: everything but the content, and the messages' token
// counts by an encoding, if it is not "".
func (o *Object) Outline(ctx context.Context, view *host.View, encoding string) error {
	o.Key("outline")
	o.B = append(o.B, '{')
	n := len(view.Messages)
	o.Int("count", int64(n))
	roles := make([]byte, n)
	sizes, chars, parts := make([]int, n), make([]int, n), make([]int, n)
	for i, m := range view.Messages {
		roles[i] = roleLetter(m.Role)
		sizes[i], chars[i] = m.Size()
		parts[i] = len(m.Parts)
	}
	o.Text("roles", string(roles))
	o.ints("bytes", sizes)
	o.ints("chars", chars)
	if encoding != "" {
		counts, err := view.Tokens(ctx, encoding)
		if err != nil {
			return err
		}
		o.ints("tokens", counts)
		o.Text("encoding", encoding)
	}
	o.ints("parts", parts)
	if i := slices.IndexFunc(view.Messages, func(m *host.Message) bool { return m.ID == view.Input }); i >= 0 && view.Input != "" {
		o.ints("keep", []int{i})
	}
	o.ownFrom(view)
	o.toolRows(view.Messages)
	o.B = append(o.B, '}')
	return nil
}

// ownFrom writes where the own rounds of the agent begin, if it has made any.
func (o *Object) ownFrom(view *host.View) {
	if view.Own > 0 {
		o.Int("own_from", int64(len(view.Messages)-view.Own))
	}
}

func (o *Object) toolRows(messages []*host.Message) {
	o.Key("tools")
	o.B = append(o.B, '[')
	first := true
	row := func(i, j int, kind, id, name string) {
		if !first {
			o.B = append(o.B, ',')
		}
		first = false
		o.B = append(o.B, '[')
		o.B = append(strconv.AppendInt(o.B, int64(i), 10), ',')
		o.B = append(strconv.AppendInt(o.B, int64(j), 10), ',')
		o.B = append(append(o.B, kind...), ',')
		o.B = append(chat.AppendJSONString(o.B, id), ',')
		o.B = append(chat.AppendJSONString(o.B, name), ']')
	}
	for i, m := range messages {
		for j, part := range m.Parts {
			switch part := part.(type) {
			case *host.ToolCall:
				row(i, j, `"call"`, part.ID, part.Name)
			case *host.ToolResult:
				row(i, j, `"result"`, part.ID, part.Name)
			}
		}
	}
	o.B = append(o.B, ']')
}

func roleLetter(r host.Role) byte {
	switch r {
	case host.System:
		return 's'
	case host.User:
		return 'u'
	case host.Assistant:
		return 'a'
	}
	return 't'
}

package plugin

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/strictjson"
)

// The envelopes of the ABI: a guest's input, written straight into one buffer, and
// its answers.

// object writes a JSON object.
type object struct {
	b []byte
}

func newObject(size int) *object { return &object{append(make([]byte, 0, size), '{')} }

func (o *object) key(name string) {
	if n := len(o.b); o.b[n-1] != '{' {
		o.b = append(o.b, ',')
	}
	o.b = append(o.b, '"')
	o.b = append(o.b, name...)
	o.b = append(o.b, '"', ':')
}

func (o *object) str(name, v string) {
	o.key(name)
	o.b = host.AppendJSONString(o.b, v)
}

func (o *object) int(name string, v int64) {
	o.key(name)
	o.b = strconv.AppendInt(o.b, v, 10)
}

// raw writes JSON; empty is left out.
func (o *object) raw(name string, v json.RawMessage) {
	if len(v) == 0 {
		return
	}
	o.key(name)
	o.b = append(o.b, v...)
}

func (o *object) strs(name string, list []string) {
	o.key(name)
	o.b = append(o.b, '[')
	for i, s := range list {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = host.AppendJSONString(o.b, s)
	}
	o.b = append(o.b, ']')
}

func (o *object) ints(name string, list []int) {
	o.key(name)
	o.b = append(o.b, '[')
	for i, n := range list {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = strconv.AppendInt(o.b, int64(n), 10)
	}
	o.b = append(o.b, ']')
}

func (o *object) message(name string, m *host.Message) {
	if m == nil {
		return
	}
	o.key(name)
	o.b = m.AppendJSON(o.b)
}

func (o *object) messages(name string, list []*host.Message) {
	o.key(name)
	o.b = host.AppendMessagesJSON(o.b, list)
}

func (o *object) scope(s host.Scope) {
	o.key("scope")
	o.b = append(o.b, '{')
	for _, f := range []struct{ name, v string }{
		{"tenant", s.Tenant}, {"thread", s.Thread}, {"run", s.Run}, {"network", s.Network}, {"agent", s.Agent},
	} {
		if f.v != "" {
			o.str(f.name, f.v)
		}
	}
	o.b = append(o.b, '}')
}

func (o *object) end() []byte {
	o.b = append(o.b, '}')
	return o.b
}

const envelopeSize = 512 // room for the small members

// toolInput is the envelope of a call of the tool of that name in the manifest.
func (b *binding) toolInput(tool string, call *host.Call, provider string, config json.RawMessage) []byte {
	state, revision := json.RawMessage(nil), int64(0)
	if b.rights().granted.State.Allows(Read) {
		state, revision = call.State.Snapshot()
	}
	o := newObject(envelopeSize + len(call.Arguments) + len(state) + len(config))
	o.str("tool", tool)
	if provider != "" {
		o.str("provider", provider)
	}
	o.str("call_id", call.ID)
	o.str("idempotency_key", call.IdempotencyKey)
	o.int("attempt", int64(call.Attempt))
	o.raw("arguments", call.Arguments)
	o.scope(call.Scope)
	if state != nil {
		o.raw("state", state)
		o.int("state_revision", revision)
	}
	o.raw("config", config)
	if len(call.Resumed) > 0 {
		o.raw("resumed", resumed(call.Resumed))
	}
	return o.end()
}

// resumed writes answers as the contract has them.
func resumed(answers []host.Resumption) json.RawMessage {
	raw, err := json.Marshal(answers)
	if err != nil {
		return json.RawMessage("[]") // an answer that is no JSON, which no host passes on
	}
	return raw
}

// toolOutput is a tool's answer.
type toolOutput struct {
	Content   json.RawMessage `json:"content"`
	State     []host.PatchOp  `json:"state"`
	Artifacts json.RawMessage `json:"artifacts"` // read when its size is known
	Schedule  []string        `json:"schedule"`
	Interrupt *host.Interrupt `json:"interrupt"`
}

func (a answers) decode(ctx context.Context, e export, raw []byte, into any) error {
	return a.broken(e, strictjson.UnmarshalContext(ctx, raw, into))
}

// broken is the error of an export whose output can not be read.
func (a answers) broken(e export, err error) error {
	if err == nil {
		return nil
	}
	return host.Errorf(host.Internal, "plugin %q: the output of %s is not what the ABI says: %v", a.plugin, e, err).
		WithHint("the plugin is broken; see pdk/ABI.md")
}

// outline writes a view in columns: everything but the content.
func (o *object) outline(ctx context.Context, view *host.View, encoding string) error {
	o.key("outline")
	o.b = append(o.b, '{')
	n := len(view.Messages)
	o.int("count", int64(n))
	roles := make([]byte, n)
	bytes, chars, parts := make([]int, n), make([]int, n), make([]int, n)
	for i, m := range view.Messages {
		roles[i] = roleLetter(m.Role)
		bytes[i], chars[i] = m.Size()
		parts[i] = len(m.Parts)
	}
	o.str("roles", string(roles))
	o.ints("bytes", bytes)
	o.ints("chars", chars)
	if encoding != "" {
		counts, err := view.Tokens(ctx, encoding)
		if err != nil {
			return err
		}
		o.ints("tokens", counts)
		o.str("encoding", encoding)
	}
	o.ints("parts", parts)
	if i := slices.IndexFunc(view.Messages, func(m *host.Message) bool { return m.ID == view.Input }); i >= 0 && view.Input != "" {
		o.ints("keep", []int{i})
	}
	o.ownFrom(view)
	o.toolRows(view.Messages)
	o.b = append(o.b, '}')
	return nil
}

// ownFrom writes where the own rounds of the agent begin, if it has made any.
func (o *object) ownFrom(view *host.View) {
	if view.Own > 0 {
		o.int("own_from", int64(len(view.Messages)-view.Own))
	}
}

func (o *object) toolRows(messages []*host.Message) {
	o.key("tools")
	o.b = append(o.b, '[')
	first := true
	row := func(i, j int, kind, id, name string) {
		if !first {
			o.b = append(o.b, ',')
		}
		first = false
		o.b = append(o.b, '[')
		o.b = append(strconv.AppendInt(o.b, int64(i), 10), ',')
		o.b = append(strconv.AppendInt(o.b, int64(j), 10), ',')
		o.b = append(append(o.b, kind...), ',')
		o.b = append(host.AppendJSONString(o.b, id), ',')
		o.b = append(host.AppendJSONString(o.b, name), ']')
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
	o.b = append(o.b, ']')
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

package openaimodel

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host"
)

// ReasoningUse says whether a model is sent what it thought before.
type ReasoningUse string

// The uses of reasoning.
const (
	// ReasoningAuto sends back, to the model that it came from and under the field
	// that it came in, what was thought since the user's last message: models that
	// think between tool calls lose the thread without it, and no known server
	// wants older thoughts. A server that refuses the field is not sent it again.
	ReasoningAuto ReasoningUse = ""
	// ReasoningAlways sends back what was thought in the whole conversation.
	ReasoningAlways ReasoningUse = "always"
	// ReasoningNever sends nothing back.
	ReasoningNever ReasoningUse = "never"
)

// vendorMember is the member of a part's JSON that holds what is this protocol's
// alone: origin in a reasoning part, and in a call what the server sent with it
// beyond what is known here.
const vendorMember = "openai"

// origin is where a reasoning part came from.
type origin struct {
	Model   string          `json:"model"`
	Field   string          `json:"field,omitempty"`
	Details json.RawMessage `json:"details,omitempty"` // reasoning_details, all of it
}

// The fields that servers put reasoning into. reasoning_details is an array of
// objects, which go back as they came.
const (
	fieldReasoningContent = "reasoning_content"
	fieldReasoning        = "reasoning"
	fieldDetails          = "reasoning_details"
)

// vendor returns a part's member of this protocol.
func vendor(extra host.Extra) json.RawMessage {
	for _, m := range extra {
		if m.Name == vendorMember {
			return m.Value
		}
	}
	return nil
}

func vendorExtra(v any) host.Extra {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil // what a server sent was read as JSON
	}
	return host.Extra{{Name: vendorMember, Value: raw}}
}

// thoughts returns what a message's reasoning came as, if model thought it.
func thoughts(msg *host.Message, model string) (list []origin, texts []string) {
	for _, p := range msg.Parts {
		r, ok := p.(*host.Reasoning)
		if !ok {
			continue
		}
		var o origin
		if raw := vendor(r.Extra); raw == nil || json.Unmarshal(raw, &o) != nil || o.Model != model {
			continue
		}
		list, texts = append(list, o), append(texts, r.Text)
	}
	return list, texts
}

// appendReasoning writes what model thought as members of its message.
func appendReasoning(dst []byte, msg *host.Message, model string) []byte {
	list, texts := thoughts(msg, model)
	var text, field string
	for i, o := range list {
		if len(o.Details) > 0 && o.Details[0] == '[' && json.Valid(o.Details) {
			return append(append(dst, `,"`+fieldDetails+`":`...), o.Details...)
		}
		if o.Field == fieldReasoning || o.Field == fieldReasoningContent {
			field = o.Field
			text += texts[i]
		}
	}
	if text == "" {
		return dst
	}
	return host.AppendJSONString(append(dst, `,"`+field+`":`...), text)
}

// sendsReasoning reports whether the reasoning of message i is sent back.
func (m *Model) sendsReasoning(messages []*host.Message, i, lastUser int) bool {
	if m.reasoning == ReasoningNever || m.reasoning == ReasoningAuto && i < lastUser || m.noReasoning.Load() {
		return false
	}
	msg := messages[i]
	return msg.Role == host.Assistant && slices.ContainsFunc(msg.Parts, func(p host.Part) bool {
		r, ok := p.(*host.Reasoning)
		return ok && len(r.Extra) > 0
	})
}

// lastUser is the index of the user's last message, -1 if there is none.
func lastUser(messages []*host.Message) int {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == host.User {
			return i
		}
	}
	return -1
}

// detail is one of reasoning_details on its way.
type detail map[string]json.RawMessage

// textMembers are the members of a detail that come in pieces.
var textMembers = []string{"text", "summary", "data"}

// addDetails puts the pieces of reasoning_details together: those of one index
// and type that follow each other are one.
func addDetails(list []detail, raw json.RawMessage) []detail {
	var pieces []detail
	if json.Unmarshal(raw, &pieces) != nil {
		return list
	}
	for _, p := range pieces {
		n := len(list)
		if n > 0 && string(p["index"]) != "" && string(list[n-1]["index"]) == string(p["index"]) && string(list[n-1]["type"]) == string(p["type"]) {
			list[n-1].grow(p)
		} else if len(p) > 0 {
			list = append(list, maps.Clone(p))
		}
	}
	return list
}

func (d detail) grow(p detail) {
	for name, v := range p {
		if slices.Contains(textMembers, name) {
			v = joined(d[name], v)
		}
		if string(v) != "null" || d[name] == nil {
			d[name] = v
		}
	}
}

// joined is two JSON strings as one; what is no string is nothing.
func joined(a, b json.RawMessage) json.RawMessage {
	var s, t string
	if json.Unmarshal(a, &s) != nil && a != nil || json.Unmarshal(b, &t) != nil {
		return b
	}
	return host.AppendJSONString(nil, s+t)
}

// reasoningPart is what an answer thought, nil for nothing.
func (a *answer) reasoningPart(model string) host.Part {
	if a.reasoning.Len() == 0 && len(a.details) == 0 {
		return nil
	}
	o := origin{Model: model, Field: a.reasoningField}
	if len(a.details) > 0 {
		o.Details, _ = json.Marshal(a.details) // they were read as JSON
	}
	return &host.Reasoning{Text: a.reasoning.String(), Extra: vendorExtra(o)}
}

// callMembers are the members of a call that the protocol knows.
var callMembers = []string{"index", "id", "type", "function"}

func isCallMember(name string) bool {
	return slices.ContainsFunc(callMembers, func(known string) bool { return strings.EqualFold(known, name) })
}

// appendUnknown writes what a server sent with a call beyond what is known here:
// some need it back, such as the signature of a thought.
func appendUnknown(dst []byte, c *host.ToolCall) []byte {
	var members map[string]json.RawMessage
	if raw := vendor(c.Extra); raw == nil || json.Unmarshal(raw, &members) != nil {
		return dst
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !isCallMember(name) {
			dst = append(host.AppendJSONString(append(dst, ','), name), ':')
			dst = append(dst, members[name]...)
		}
	}
	return dst
}

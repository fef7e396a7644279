package openaimodel

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/modelhttp"
)

// ReasoningUse says whether a model receives its earlier reasoning.
type ReasoningUse string

// The uses of reasoning.
const (
	// ReasoningAuto sends back the reasoning since the user's last message, to the
	// model and under the field that it came from: models that think between tool
	// calls lose the thread without it, and no known server wants older reasoning.
	// A server that refuses the field does not receive it again.
	ReasoningAuto ReasoningUse = ""
	// ReasoningAlways sends back the reasoning of the whole conversation.
	ReasoningAlways ReasoningUse = "always"
	// ReasoningNever sends nothing back.
	ReasoningNever ReasoningUse = "never"
)

// vendorMember is the member of a part's JSON that holds the data of this
// protocol alone: origin in a reasoning part, and in a call the unknown members
// that the server sent with it.
const vendorMember = "openai"

// origin is where a reasoning part came from.
type origin struct {
	Model   string          `json:"model"`
	Field   string          `json:"field,omitempty"`
	Details json.RawMessage `json:"details,omitempty"` // reasoning_details, all of it
}

// The fields that servers put reasoning into. reasoning_details is an array of
// objects, which go back unchanged.
const (
	fieldReasoningContent = "reasoning_content"
	fieldReasoning        = "reasoning"
	fieldDetails          = "reasoning_details"
)

// vendor returns a part's member of this protocol.
func vendor(extra chat.Extra) json.RawMessage {
	for _, m := range extra {
		if m.Name == vendorMember {
			return m.Value
		}
	}
	return nil
}

func vendorExtra(v any) chat.Extra {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil // cannot happen: the server's data was read as JSON
	}
	return chat.Extra{{Name: vendorMember, Value: raw}}
}

// thoughts returns the origins and texts of a message's reasoning, if it is
// model's.
func thoughts(msg *chat.Message, model string) (list []origin, texts []string) {
	for _, p := range msg.Parts {
		r, ok := p.(*chat.Reasoning)
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

// appendReasoning writes model's reasoning as members of its message.
func appendReasoning(dst []byte, msg *chat.Message, model string) []byte {
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
	return chat.AppendJSONString(append(dst, `,"`+field+`":`...), text)
}

// sendsReasoning reports whether the reasoning of message i is sent back.
func (m *Model) sendsReasoning(messages []*chat.Message, i, lastUser int) bool {
	if m.reasoning == ReasoningNever || m.reasoning == ReasoningAuto && i < lastUser || m.noReasoning.Load() {
		return false
	}
	msg := messages[i]
	return msg.Role == chat.Assistant && slices.ContainsFunc(msg.Parts, func(p chat.Part) bool {
		r, ok := p.(*chat.Reasoning)
		return ok && len(r.Extra) > 0
	})
}

// lastUser is the index of the user's last message, or -1.
func lastUser(messages []*chat.Message) int {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == chat.User {
			return i
		}
	}
	return -1
}

// detail is one of reasoning_details on its way. Text that comes in pieces is put
// together when all are there: servers send it word by word.
type detail struct {
	members map[string]json.RawMessage
	texts   map[string]*strings.Builder // of the members that came as strings
}

// textMembers are the members of a detail that come in pieces.
var textMembers = []string{"text", "summary", "data"}

// addDetails puts the pieces of reasoning_details together: those of one index
// and type that follow each other are one. A value that is no list of objects is
// ignored.
func (a *answer) addDetails(raw json.RawMessage) error {
	pieces, err := detailPieces(raw)
	if err != nil {
		return err
	}
	for _, p := range pieces {
		if len(p) == 0 {
			continue
		}
		if n := len(a.details); n == 0 || !a.details[n-1].continuedBy(p) {
			if n == maxDetails {
				return &modelhttp.TooLong{What: fmt.Sprintf("an answer of more than %d reasoning details", maxDetails)}
			}
			a.details = append(a.details, newDetail())
		}
		a.details[len(a.details)-1].grow(p)
	}
	return nil
}

// detailPieces reads the objects of reasoning_details, none if one is no object. The
// members of all together are bounded as the details are: one takes a hundred bytes.
func detailPieces(raw json.RawMessage) ([]map[string]json.RawMessage, error) {
	if err := modelhttp.CheckLength(raw, maxDetails, "reasoning details"); err != nil {
		return nil, err
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return nil, nil
	}
	pieces, members := make([]map[string]json.RawMessage, len(list)), 0
	for i, raw := range list {
		if err := modelhttp.CheckLength(raw, maxMembers, "members in a reasoning detail"); err != nil {
			return nil, err
		}
		if json.Unmarshal(raw, &pieces[i]) != nil {
			return nil, nil
		}
		if members += len(pieces[i]); members > maxDetailMembers {
			return nil, &modelhttp.TooLong{What: fmt.Sprintf("a chunk with more than %d members in reasoning details", maxDetailMembers)}
		}
	}
	return pieces, nil
}

func newDetail() *detail {
	return &detail{map[string]json.RawMessage{}, map[string]*strings.Builder{}}
}

// continuedBy reports whether a piece is more of the same.
func (d *detail) continuedBy(p map[string]json.RawMessage) bool {
	return len(p["index"]) > 0 && string(d.members["index"]) == string(p["index"]) && string(d.members["type"]) == string(p["type"])
}

func (d *detail) grow(p map[string]json.RawMessage) {
	for name, v := range p {
		if slices.Contains(textMembers, name) && d.growText(name, v) {
			continue
		}
		if string(v) != "null" || d.members[name] == nil {
			d.members[name] = v
		}
	}
}

// growText adds a piece to a member that is a string. A value of another type,
// except null, replaces the earlier pieces.
func (d *detail) growText(name string, v json.RawMessage) bool {
	var piece string
	if v[0] != '"' || json.Unmarshal(v, &piece) != nil {
		if string(v) != "null" {
			delete(d.texts, name)
		}
		return false
	}
	text := d.texts[name]
	if text == nil {
		text = &strings.Builder{}
		d.texts[name] = text
	}
	text.WriteString(piece)
	return true
}

// MarshalJSON writes the detail as if it had come at once.
func (d *detail) MarshalJSON() ([]byte, error) {
	whole := maps.Clone(d.members)
	for name, text := range d.texts {
		whole[name] = chat.AppendJSONString(nil, text.String())
	}
	return json.Marshal(whole)
}

// reasoningPart is the reasoning of an answer, or nil.
func (a *answer) reasoningPart(model string) chat.Part {
	if a.reasoning.Len() == 0 && len(a.details) == 0 {
		return nil
	}
	o := origin{Model: model, Field: a.reasoningField}
	if len(a.details) > 0 {
		o.Details, _ = json.Marshal(a.details) // they were read as JSON
	}
	return &chat.Reasoning{Text: a.reasoning.String(), Extra: vendorExtra(o)}
}

// modelMember is the member of a call's JSON that says which model's it was, if it
// has a member of this protocol's.
const modelMember = "openai_model"

// callExtra holds the unknown members that a server sent with a call, and the
// model's name.
func callExtra(unknown any, model string) chat.Extra {
	extra := vendorExtra(unknown)
	return append(extra, chat.Member{Name: modelMember, Value: chat.AppendJSONString(nil, model)})
}

// isCallOf reports whether a call is that of a model. One that does not say may be.
func isCallOf(c *chat.ToolCall, model string) bool {
	for _, m := range c.Extra {
		var of string
		if m.Name == modelMember && json.Unmarshal(m.Value, &of) == nil {
			return of == model
		}
	}
	return true
}

// hasVendorCall reports whether a message has a call that came with more than is
// known.
func hasVendorCall(msg *chat.Message) bool {
	return msg.Role == chat.Assistant && slices.ContainsFunc(msg.Parts, func(p chat.Part) bool {
		c, ok := p.(*chat.ToolCall)
		return ok && len(c.Extra) > 0
	})
}

// callMembers are the members of a call that the protocol knows.
var callMembers = []string{"index", "id", "type", "function"}

func isCallMember(name string) bool {
	return slices.ContainsFunc(callMembers, func(known string) bool { return strings.EqualFold(known, name) })
}

// appendUnknown writes the unknown members that a server sent with a call: some
// servers need them back, such as the signature of a thought. They go only to the
// model that they came from: other servers may refuse unknown members.
func appendUnknown(dst []byte, c *chat.ToolCall, model string) []byte {
	var members map[string]json.RawMessage
	if raw := vendor(c.Extra); raw == nil || !isCallOf(c, model) || json.Unmarshal(raw, &members) != nil {
		return dst
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !isCallMember(name) {
			dst = append(chat.AppendJSONString(append(dst, ','), name), ':')
			dst = append(dst, members[name]...)
		}
	}
	return dst
}

package chat

import (
	"encoding/json"
	"slices"
)

// Clone returns a copy of m whose Parts slice and Metadata map may be changed.
// The parts themselves are shared: replace a part, do not write into it.
func (m *Message) Clone() *Message {
	c := &Message{ID: m.ID, Role: m.Role, Agent: m.Agent, CreatedAt: m.CreatedAt, Extra: m.Extra}
	c.Parts = append([]Part(nil), m.Parts...)
	if m.Metadata != nil {
		c.Metadata = make(map[string]json.RawMessage, len(m.Metadata))
		for k, v := range m.Metadata {
			c.Metadata[k] = v
		}
	}
	return c
}

// DeepClone returns a copy of m that shares no bytes with it.
func (m *Message) DeepClone() *Message {
	c := m.Clone()
	c.Parts = DeepCloneParts(c.Parts)
	for k, v := range c.Metadata {
		c.Metadata[k] = slices.Clone(v)
	}
	c.Extra = c.Extra.clone()
	return c
}

// DeepCloneParts returns copies of parts that share no bytes with them.
func DeepCloneParts(parts []Part) []Part {
	out := make([]Part, len(parts))
	for i, p := range parts {
		out[i] = deepClonePart(p)
	}
	return out
}

func deepClonePart(p Part) Part {
	switch p := p.(type) {
	case *Text:
		return &Text{Text: p.Text, Extra: p.Extra.clone()}
	case *Reasoning:
		return &Reasoning{Text: p.Text, Signature: p.Signature, Extra: p.Extra.clone()}
	case *ToolCall:
		return &ToolCall{ID: p.ID, Name: p.Name, Arguments: slices.Clone(p.Arguments), Extra: p.Extra.clone()}
	case *ToolResult:
		return &ToolResult{ID: p.ID, Name: p.Name, Content: slices.Clone(p.Content), IsError: p.IsError, Media: deepCloneMedia(p.Media), Extra: p.Extra.clone()}
	case *Media:
		return &Media{MediaType: p.MediaType, URL: p.URL, Data: slices.Clone(p.Data), Extra: p.Extra.clone()}
	case *Data:
		return &Data{Value: slices.Clone(p.Value), Extra: p.Extra.clone()}
	case *Unknown:
		return &Unknown{Kind: p.Kind, JSON: slices.Clone(p.JSON)}
	}
	return p // the set is closed
}

func deepCloneMedia(list []*Media) []*Media {
	out := slices.Clone(list)
	for i, m := range list {
		out[i] = deepClonePart(m).(*Media)
	}
	return out
}

func (e Extra) clone() Extra {
	c := slices.Clone(e)
	for i := range c {
		c[i].Value = slices.Clone(c[i].Value)
	}
	return c
}

package chat

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// Lent are copies of messages, for code that may write to the messages it is given: the
// messages of a history are shared by the runs that use it.
type Lent struct {
	Copies    []*Message
	originals []*Message
}

// Lend returns deep copies of messages.
func Lend(messages []*Message) *Lent {
	return &Lent{DeepCloneMessages(messages), messages}
}

// Return returns the messages that stand for those of the code: the original of each copy
// that is unchanged, and a copy of each that the code wrote to, which the code may write
// to further. Messages of the code's own stay, nil ones among them.
func (l *Lent) Return(messages []*Message) []*Message {
	of := make(map[*Message]*Message, len(l.Copies))
	for i, c := range l.Copies {
		of[c] = l.originals[i]
	}
	out := slices.Clone(messages)
	for i, m := range out {
		switch original := of[m]; {
		case original == nil:
		case original.equal(m):
			out[i] = original
		default:
			out[i] = m.DeepClone()
		}
	}
	return out
}

// DeepCloneMessages returns copies of messages that share no bytes with them.
func DeepCloneMessages(messages []*Message) []*Message {
	if messages == nil {
		return nil
	}
	out := make([]*Message, len(messages))
	for i, m := range messages {
		if m != nil {
			out[i] = m.DeepClone()
		}
	}
	return out
}

// equal reports whether nothing differs in two messages.
func (m *Message) equal(other *Message) bool {
	sameMember := func(a, b Member) bool { return a.Name == b.Name && bytes.Equal(a.Value, b.Value) }
	return m.ID == other.ID && m.Role == other.Role && m.Agent == other.Agent && m.CreatedAt.Equal(other.CreatedAt) &&
		len(m.Parts) == len(other.Parts) && !slices.Contains(other.Parts, nil) && slices.EqualFunc(m.Parts, other.Parts, samePart) &&
		maps.EqualFunc(m.Metadata, other.Metadata, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) &&
		slices.EqualFunc(m.Extra, other.Extra, sameMember)
}

func samePart(a, b Part) bool {
	if t, ok := a.(*Text); ok && t.Extra == nil {
		u, ok := b.(*Text)
		return ok && u != nil && u.Extra == nil && t.Text == u.Text
	}
	return a.Type() == b.Type() && bytes.Equal(AppendPartJSON(nil, a), AppendPartJSON(nil, b))
}

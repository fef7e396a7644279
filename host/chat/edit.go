package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// Edit is one change to a view of history, against the indices of the view that
// a processor was given. The set is closed: [Drop], [DropPart], [Insert],
// [Replace].
type Edit interface{ isEdit() }

type (
	// Drop removes the messages From up to, not including, To.
	Drop struct{ From, To int }

	// DropPart removes one part of a message. A message that has lost all its
	// parts goes as well.
	DropPart struct{ Message, Part int }

	// Insert puts a message before the one at At; At may be the number of
	// messages, which appends. Inserts at one index keep their order. An empty
	// id or time is filled in.
	Insert struct {
		At      int
		Message *Message
	}

	// Replace puts a message in the place of the one at At. An empty id or time
	// is the replaced message's.
	Replace struct {
		At      int
		Message *Message
	}
)

func (Drop) isEdit()     {}
func (DropPart) isEdit() {}
func (Insert) isEdit()   {}
func (Replace) isEdit()  {}

// DecodeEdits reads the edits of the plugin contract: an array of objects with
// exactly one of the members drop, drop_part, insert and replace. Anything else
// is an error of code invalid_argument: a redaction must not fail open.
func DecodeEdits(raw json.RawMessage) ([]Edit, error) {
	if err := jsondoc.Check(raw); err != nil {
		return nil, fault.Errorf(fault.InvalidArgument, "read edits: %w", err)
	}
	var edits []Edit
	err := jsondoc.EachElement(slices.Clone(raw), func(i int, v []byte) error {
		e, err := decodeEdit(v)
		if err != nil {
			return fmt.Errorf("edit %d: %w", i, err)
		}
		edits = append(edits, e)
		return nil
	})
	if err != nil {
		return nil, fault.Errorf(fault.InvalidArgument, "read edits: %w", err)
	}
	return edits, nil
}

func decodeEdit(b []byte) (e Edit, err error) {
	n := 0
	err = jsondoc.EachMember(b, func(name string, v []byte) error {
		n++
		switch name {
		case "drop":
			from, to, err := intPair(v)
			e = Drop{from, to}
			return err
		case "drop_part":
			m, part, err := intPair(v)
			e = DropPart{m, part}
			return err
		case "insert":
			at, m, err := placedMessage(v)
			e = Insert{at, m}
			return err
		case "replace":
			at, m, err := placedMessage(v)
			e = Replace{at, m}
			return err
		}
		return fmt.Errorf("there is no edit %q; use drop, drop_part, insert or replace", name)
	})
	if err == nil && n != 1 {
		err = fmt.Errorf("has %d members, not one", n)
	}
	return e, err
}

func intPair(v []byte) (int, int, error) {
	if a, b, ok := plainPair(v); ok {
		return a, b, nil
	}
	var p []*int // a null would be a silent 0 in an int
	if err := json.Unmarshal(v, &p); err != nil || len(p) != 2 || p[0] == nil || p[1] == nil {
		return 0, 0, fmt.Errorf("%.40s is not a pair of numbers", v)
	}
	return *p[0], *p[1], nil
}

// plainPair reads [a,b] as kits write it; ok is false for any other spelling. A
// processor may answer with thousands, and encoding/json takes ten times as long.
func plainPair(v []byte) (a, b int, ok bool) {
	if len(v) < len("[0,0]") || v[0] != '[' || v[len(v)-1] != ']' {
		return 0, 0, false
	}
	first, second, ok := bytes.Cut(v[1:len(v)-1], []byte(","))
	if !ok {
		return 0, 0, false
	}
	if a, ok = plainInt(first); ok {
		b, ok = plainInt(second)
	}
	return a, b, ok
}

// plainInt reads a number of up to nine digits.
func plainInt(v []byte) (n int, ok bool) {
	if len(v) == 0 || len(v) > 9 || v[0] == '0' && len(v) > 1 {
		return 0, false
	}
	for _, c := range v {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, true
}

func placedMessage(v []byte) (at int, m *Message, err error) {
	at = -1
	var seen jsondoc.MemberSet
	err = jsondoc.EachMember(v, func(name string, v []byte) error {
		if err := seen.Add(name, "at", "message"); err != nil {
			return err
		}
		switch name {
		case "at":
			if json.Unmarshal(v, &at) != nil {
				return fmt.Errorf("at is %.40s, not a number", v)
			}
			return nil
		case "message":
			m, err = decodeMessage(v)
			return err
		}
		return fmt.Errorf("unknown member %q", name)
	})
	if err == nil && (m == nil || at < 0) {
		err = fmt.Errorf("needs at and message")
	}
	return at, m, err
}

// EncodeEdits is the inverse of [DecodeEdits].
func EncodeEdits(edits []Edit) json.RawMessage {
	b := []byte{'['}
	for i, e := range edits {
		if i > 0 {
			b = append(b, ',')
		}
		switch e := e.(type) {
		case Drop:
			b = fmt.Appendf(b, `{"drop":[%d,%d]}`, e.From, e.To)
		case DropPart:
			b = fmt.Appendf(b, `{"drop_part":[%d,%d]}`, e.Message, e.Part)
		case Insert:
			b = e.Message.AppendJSON(fmt.Appendf(b, `{"insert":{"at":%d,"message":`, e.At))
			b = append(b, "}}"...)
		case Replace:
			b = e.Message.AppendJSON(fmt.Appendf(b, `{"replace":{"at":%d,"message":`, e.At))
			b = append(b, "}}"...)
		default:
			panic(fmt.Sprintf("chat: edit of unknown Go type %T", e))
		}
	}
	return append(b, ']')
}

// ApplyEdits returns the messages that edits lead to; messages is not changed.
// The result may share messages with it. An edit that is out of range, or
// touches what another drops or replaces, is an error of code invalid_argument.
func ApplyEdits(messages []*Message, edits []Edit) ([]*Message, error) {
	if len(edits) == 0 {
		return messages, nil
	}
	p := editPlan{in: messages, fate: make([]fate, len(messages))}
	for i, e := range edits {
		if err := p.add(e); err != nil {
			return nil, fault.Errorf(fault.InvalidArgument, "edit %d: %w", i, err)
		}
	}
	return p.result(), nil
}

type fate uint8

const (
	kept fate = iota
	dropped
	replaced
	trimmed
)

// editPlan collects the edits of each message before any message is built.
type editPlan struct {
	in       []*Message
	fate     []fate
	replaces map[int]*Message
	parts    map[DropPart]bool
	inserts  map[int][]*Message
	added    int
}

func (p *editPlan) add(e Edit) error {
	switch e := e.(type) {
	case Drop:
		if e.From < 0 || e.To > len(p.in) || e.From >= e.To {
			return fmt.Errorf("drop [%d,%d) of %d messages", e.From, e.To, len(p.in))
		}
		for i := e.From; i < e.To; i++ {
			if err := p.claim(i, dropped); err != nil {
				return err
			}
		}
	case Replace:
		if e.Message == nil {
			return fmt.Errorf("replace without a message")
		}
		if err := p.claim(e.At, replaced); err != nil {
			return err
		}
		put(&p.replaces, e.At, e.Message)
	case DropPart:
		return p.dropPart(e)
	case Insert:
		if e.At < 0 || e.At > len(p.in) || e.Message == nil {
			return fmt.Errorf("insert at %d of %d messages", e.At, len(p.in))
		}
		put(&p.inserts, e.At, append(p.inserts[e.At], e.Message))
		p.added++
	default:
		return fmt.Errorf("unknown edit %T", e)
	}
	return nil
}

func put[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[k] = v
}

func (p *editPlan) claim(i int, f fate) error {
	if i < 0 || i >= len(p.in) {
		return fmt.Errorf("index %d of %d messages", i, len(p.in))
	}
	if p.fate[i] != kept {
		return fmt.Errorf("message %d is already dropped, replaced or trimmed", i)
	}
	p.fate[i] = f
	return nil
}

func (p *editPlan) dropPart(e DropPart) error {
	if e.Message < 0 || e.Message >= len(p.in) || e.Part < 0 || e.Part >= len(p.in[e.Message].Parts) {
		return fmt.Errorf("there is no part %d of message %d", e.Part, e.Message)
	}
	if p.fate[e.Message] != trimmed {
		if err := p.claim(e.Message, trimmed); err != nil {
			return err
		}
	}
	if p.parts[e] {
		return fmt.Errorf("part %d of message %d is already dropped", e.Part, e.Message)
	}
	put(&p.parts, e, true)
	return nil
}

func (p *editPlan) result() []*Message {
	out := make([]*Message, 0, len(p.in)+p.added)
	for i := 0; i <= len(p.in); i++ {
		for _, m := range p.inserts[i] {
			out = append(out, m.WithIdentity())
		}
		if i == len(p.in) {
			break
		}
		switch p.fate[i] {
		case kept:
			out = append(out, p.in[i])
		case replaced:
			out = append(out, withIdentity(p.replaces[i], p.in[i]))
		case trimmed:
			if m := p.trim(i); len(m.Parts) > 0 {
				out = append(out, m)
			}
		}
	}
	return out
}

// trim returns message i without the parts that are dropped. A processor drops the
// same ones each time that it sees a message, so the result is kept with it: its
// text is not measured and counted again.
func (p *editPlan) trim(i int) *Message {
	m := p.in[i]
	var left [8]Part
	parts := left[:0]
	for j, part := range m.Parts {
		if !p.parts[DropPart{i, j}] {
			parts = append(parts, part)
		}
	}
	if last := m.trimmed.Load(); last != nil && slices.Equal(last.Parts, parts) {
		return last
	}
	t := m.Clone()
	t.Parts = append(t.Parts[:0], parts...)
	m.trimmed.Store(t)
	return t
}

// withIdentity returns m with an absent id and time filled in from old.
func withIdentity(m, old *Message) *Message {
	if m.ID != "" && !m.CreatedAt.IsZero() {
		return m
	}
	m = m.Clone()
	if m.ID == "" {
		m.ID = old.ID
	}
	if m.CreatedAt.IsZero() {
		m.CreatedAt = old.CreatedAt
	}
	return m
}

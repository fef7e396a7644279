package chat

import (
	"fmt"
	"slices"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// Providers refuse a conversation in which a tool call has no result, or a
// result no call. This file finds such faults of a conversation and repairs them.

// Check returns the first fault of a conversation: see [Faults].
func Check(messages []*Message) error {
	_, first := Faults(messages)
	return first
}

// Faults counts the faults of a conversation and returns the first: messages that are
// nil, unknown roles, ids that occur twice, calls that are not answered (one still open
// at the very end is not a fault), results without a call.
func Faults(messages []*Message) (n int, first error) {
	fault := func(format string, args ...any) {
		if n++; first == nil {
			first = fmt.Errorf(format, args...)
		}
	}
	ids := make(map[string]struct{}, len(messages))
	var pairs pairing
	for i, m := range messages {
		if m == nil {
			fault("message %d is nil", i)
			continue
		}
		if !m.Role.Valid() {
			fault("message %d has role %q", i, m.Role)
		}
		if _, twice := ids[m.ID]; twice && m.ID != "" {
			fault("two messages have the id %q", m.ID)
		}
		ids[m.ID] = struct{}{}
		if movesOn(m) {
			for _, c := range pairs.close() {
				fault("call %q of %s is not answered before message %d", c.ID, c.Name, i)
			}
		}
		for _, r := range pairs.read(m) {
			fault("message %d: result %q of %s has no open call before it", i, r.ID, r.Name)
		}
	}
	return n, first
}

// pairing follows which tool calls are open while a history is read. An id may
// be used again once its call is answered.
type pairing struct{ open []*ToolCall }

// read takes a message's calls and results and returns the results that answer
// nothing.
func (p *pairing) read(m *Message) (orphans []*ToolResult) {
	for _, part := range m.Parts {
		switch part := part.(type) {
		case *ToolCall:
			p.open = append(p.open, part)
		case *ToolResult:
			if !p.answer(part.ID) {
				orphans = append(orphans, part)
			}
		}
	}
	return orphans
}

func (p *pairing) answer(id string) bool {
	for i, c := range p.open {
		if c.ID == id {
			p.open = slices.Delete(p.open, i, i+1)
			return true
		}
	}
	return false
}

// close returns the calls that are open and forgets them. The returned value is
// valid until the next message is read.
func (p *pairing) close() []*ToolCall {
	open := p.open
	p.open = p.open[:0]
	return open
}

// movesOn reports whether m is possible only when no call is open. More calls of
// the same answer are possible: some providers give each a message.
func movesOn(m *Message) bool {
	switch m.Role {
	case User, System:
		return true
	case Assistant:
		return slices.ContainsFunc(m.Parts, func(p Part) bool {
			_, call := p.(*ToolCall)
			return !call
		})
	}
	return false
}

// CloseCalls returns messages with an error result for each call that has none, at the
// place where providers want it. Calls at the very end stay open unless atEnd is set.
func CloseCalls(messages []*Message, atEnd bool) []*Message {
	var pairs pairing
	var out []*Message // nil until something must be added
	closeAt := func(i int) {
		open := pairs.close()
		if len(open) > 0 && out == nil {
			out = append(make([]*Message, 0, len(messages)+len(open)), messages[:i]...)
		}
		for n, c := range open {
			out = append(out, closingResult(messages[i-1], n, c))
		}
	}
	for i, m := range messages {
		if movesOn(m) {
			closeAt(i)
		}
		pairs.read(m) // an orphan result is for a processor to judge, see WithoutOrphans
		if out != nil {
			out = append(out, m)
		}
	}
	if atEnd {
		closeAt(len(messages))
	}
	if out == nil {
		return messages
	}
	return out
}

// WithoutOrphans returns messages without the tool results that have no open call
// before them, and the number of those results. Providers refuse them, and a model would
// take such a result for one of a call that it has made.
func WithoutOrphans(messages []*Message) (out []*Message, dropped int) {
	var pairs pairing
	for i, m := range messages {
		if movesOn(m) {
			pairs.close()
		}
		orphans := pairs.read(m)
		if len(orphans) > 0 && dropped == 0 {
			out = append(make([]*Message, 0, len(messages)), messages[:i]...)
		}
		dropped += len(orphans)
		switch {
		case dropped == 0:
		case len(orphans) == 0:
			out = append(out, m)
		case len(orphans) < len(m.Parts):
			kept := m.Clone()
			kept.Parts = slices.DeleteFunc(kept.Parts, func(p Part) bool {
				r, ok := p.(*ToolResult)
				return ok && slices.Contains(orphans, r)
			})
			out = append(out, kept)
		}
	}
	if dropped == 0 {
		return messages, 0
	}
	return out, dropped
}

const lostResult = "There is no result: the run ended before this tool had answered."

// closingResult answers a call after the message last. Its id is the same each
// time, for each run makes the message again and none stores it.
func closingResult(last *Message, n int, c *ToolCall) *Message {
	return &Message{
		ID: fmt.Sprintf("%s/closed/%d", last.ID, n), Role: ToolRole, Agent: last.Agent, CreatedAt: last.CreatedAt,
		Parts: []Part{&ToolResult{ID: c.ID, Name: c.Name, Content: jsondoc.Quote(lostResult), IsError: true}},
	}
}

package processorscmd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/llm"
)

// tryResult is the output of processors try --json.
type tryResult struct {
	Model      string          `json:"model"`
	Encoding   string          `json:"encoding"`
	Exact      bool            `json:"exact"` // false: tokens are estimated
	History    viewSize        `json:"history"`
	Processors []tryStep       `json:"processors"`
	Result     viewSize        `json:"result"`
	Messages   json.RawMessage `json:"messages"` // the messages that the model would get
}

// viewSize is the size of a view; bytes count the text that its tokens are counted of.
type viewSize struct {
	Messages int `json:"messages"`
	Bytes    int `json:"bytes"`
	Tokens   int `json:"tokens"`
}

// tryStep is the effect of one processor of a chain.
type tryStep struct {
	Processor string          `json:"processor"`
	Level     string          `json:"level,omitempty"`
	Before    viewSize        `json:"before"`
	After     viewSize        `json:"after"`
	Saved     viewSize        `json:"saved"`
	Changes   []viewChange    `json:"changes"`
	Report    json.RawMessage `json:"report,omitempty"`
	Cost      *host.Cost      `json:"cost,omitempty"`
	Skipped   *host.Error     `json:"skipped,omitempty"` // the processor failed, and is optional
	Error     *host.Error     `json:"error,omitempty"`   // the processor failed, and the run with it
}

// The kinds of change.
const (
	dropped  = "drop"
	changed  = "change"
	inserted = "insert"
	moved    = "move"
)

// viewChange is a processor's change to one message.
type viewChange struct {
	Op     string    `json:"op"`
	ID     string    `json:"id"`
	Role   host.Role `json:"role"`
	From   *int      `json:"from,omitempty"` // its index in the history, if it is from there
	To     *int      `json:"to,omitempty"`   // its index in the processor's result
	Bytes  int       `json:"bytes"`          // the growth; below 0 if the message shrank
	Tokens int       `json:"tokens"`

	before, after *host.Message // nil if inserted or dropped
}

// process sends a history through the chain. If a processor fails, process returns the
// steps up to then and that processor's error.
func (t *processorsTrial) process(ctx context.Context, messages []*host.Message) (*tryResult, error) {
	view := t.view(messages)
	r := &tryResult{Model: t.model, Processors: []tryStep{}}
	r.Encoding, r.Exact = view.Encoding()
	origin := map[string]int{}
	for i, m := range messages {
		if _, twice := origin[m.ID]; !twice {
			origin[m.ID] = i
		}
	}
	var err error
	if r.History, err = t.size(ctx, messages); err != nil {
		return nil, err
	}
	var failure error
	for _, p := range t.chain {
		step, out, err := t.step(ctx, p, messages, origin)
		if err != nil {
			return nil, err
		}
		r.Processors = append(r.Processors, step)
		messages = out
		if step.Error != nil {
			failure = host.Errorf(step.Error.Code, "processor %q: %w", p.Name(), step.Error)
			break
		}
	}
	if r.Result, err = t.size(ctx, messages); err != nil {
		return nil, err
	}
	r.Messages = chat.AppendMessagesJSON(nil, messages)
	return r, failure
}

func (t *processorsTrial) view(messages []*host.Message) *host.View {
	view := llm.NewView(messages, t.model, t.counter)
	view.Scope = t.scope
	for _, m := range slices.Backward(messages) {
		if m.Role == host.User {
			view.Input = m.ID
			break
		}
	}
	return view
}

// step applies one processor. A processor's failure is part of the step.
func (t *processorsTrial) step(ctx context.Context, p link, messages []*host.Message, origin map[string]int) (step tryStep, out []*host.Message, err error) {
	step = tryStep{Processor: p.Name(), Level: p.level, Changes: []viewChange{}}
	out, done, failure := llm.Process(ctx, p.Processor, t.view(messages))
	switch {
	case failure == nil:
		step.Report, step.Cost = done.Report, done.Cost
	case ctx.Err() != nil:
		return step, nil, failure
	case p.optional:
		out, step.Skipped = messages, fault.AsError(failure)
	default:
		out, step.Error = messages, fault.AsError(failure)
	}
	if step.Before, err = t.size(ctx, messages); err != nil {
		return step, nil, err
	}
	if step.After, err = t.size(ctx, out); err != nil {
		return step, nil, err
	}
	step.Saved = step.Before.less(step.After)
	step.Changes, err = t.changes(ctx, messages, out, origin)
	return step, out, err
}

func (s viewSize) less(o viewSize) viewSize {
	return viewSize{s.Messages - o.Messages, s.Bytes - o.Bytes, s.Tokens - o.Tokens}
}

func (t *processorsTrial) size(ctx context.Context, messages []*host.Message) (s viewSize, err error) {
	s.Messages = len(messages)
	counts, err := llm.NewView(messages, t.model, t.counter).Tokens(ctx, "")
	for i, m := range messages {
		if err == nil {
			s.Tokens += counts[i]
		}
		bytes, _ := m.Size()
		s.Bytes += bytes
	}
	return s, err
}

// changes lists the changed messages, in the order of the view before; an inserted
// message comes before the message that follows it. Messages are identified by id.
func (t *processorsTrial) changes(ctx context.Context, before, after []*host.Message, origin map[string]int) ([]viewChange, error) {
	list := []viewChange{}
	add := func(op string, b, a *host.Message, to int) error {
		c := viewChange{Op: op, before: b, after: a}
		m := cmp.Or(a, b)
		c.ID, c.Role = m.ID, m.Role
		if from, known := origin[m.ID]; known {
			c.From = &from
		}
		if a != nil {
			c.To = &to
		}
		sizes, err := t.gain(ctx, b, a)
		c.Bytes, c.Tokens = sizes.Bytes, sizes.Tokens
		list = append(list, c)
		return err
	}
	place := map[string]int{} // in after
	for i, m := range after {
		place[m.ID] = i
	}
	had := map[string]bool{}
	for _, m := range before {
		had[m.ID] = true
	}
	next := 0 // the first index of after that was not visited
	for _, b := range before {
		to, kept := place[b.ID]
		if !kept {
			if err := add(dropped, b, nil, 0); err != nil {
				return nil, err
			}
			continue
		}
		for ; next < to; next++ {
			if !had[after[next].ID] {
				if err := add(inserted, nil, after[next], next); err != nil {
					return nil, err
				}
			}
		}
		a, op := after[to], ""
		switch {
		case to < next:
			op = moved
		case !sameMessage(a, b):
			op = changed
		}
		next = max(next, to+1)
		if op == "" {
			continue
		}
		if err := add(op, b, a, to); err != nil {
			return nil, err
		}
	}
	for ; next < len(after); next++ {
		if !had[after[next].ID] {
			if err := add(inserted, nil, after[next], next); err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}

// gain returns how much larger a message is than another; nil counts as empty.
func (t *processorsTrial) gain(ctx context.Context, before, after *host.Message) (viewSize, error) {
	size := func(m *host.Message) (viewSize, error) {
		if m == nil {
			return viewSize{}, nil
		}
		return t.size(ctx, []*host.Message{m})
	}
	b, err := size(before)
	if err != nil {
		return viewSize{}, err
	}
	a, err := size(after)
	return a.less(b), err
}

// sameMessage reports whether a processor left message b unchanged. If b is from a file
// without times, the time of a does not count.
func sameMessage(a, b *host.Message) bool {
	if a != b && b.CreatedAt.IsZero() {
		a = a.Clone()
		a.CreatedAt = b.CreatedAt
	}
	return a == b || bytes.Equal(a.AppendJSON(nil), b.AppendJSON(nil))
}

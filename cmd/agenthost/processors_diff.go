package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/agenthost/agenthost/host"
)

// tryResult is what processors try --json prints.
type tryResult struct {
	Model      string          `json:"model"`
	Encoding   string          `json:"encoding"`
	Exact      bool            `json:"exact"` // false: tokens are estimated
	History    viewSize        `json:"history"`
	Processors []tryStep       `json:"processors"`
	Result     viewSize        `json:"result"`
	Messages   json.RawMessage `json:"messages"` // what the model would be shown
}

// viewSize is how much a view holds; bytes are of the text that counts.
type viewSize struct {
	Messages int `json:"messages"`
	Bytes    int `json:"bytes"`
	Tokens   int `json:"tokens"`
}

// tryStep is what one processor of a chain did.
type tryStep struct {
	Processor string          `json:"processor"`
	Level     string          `json:"level,omitempty"`
	Before    viewSize        `json:"before"`
	After     viewSize        `json:"after"`
	Saved     viewSize        `json:"saved"`
	Changes   []viewChange    `json:"changes"`
	Report    json.RawMessage `json:"report,omitempty"`
	Cost      *host.Cost      `json:"cost,omitempty"`
	Skipped   *host.Error     `json:"skipped,omitempty"` // it failed, and may
	Error     *host.Error     `json:"error,omitempty"`   // it failed, and the run with it
}

// The kinds of change.
const (
	dropped  = "drop"
	changed  = "change"
	inserted = "insert"
	moved    = "move"
)

// viewChange is what became of one message.
type viewChange struct {
	Op     string    `json:"op"`
	ID     string    `json:"id"`
	Role   host.Role `json:"role"`
	From   *int      `json:"from,omitempty"` // its place in the history, if it is from there
	To     *int      `json:"to,omitempty"`   // its place in what the processor left
	Bytes  int       `json:"bytes"`          // more, or, below 0, less than before
	Tokens int       `json:"tokens"`

	before, after *host.Message // nil if there is none
}

// process sends a history through the chain. If a processor fails, the result
// is what was done up to then and that processor's error.
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
	var fault error
	for _, p := range t.chain {
		step, out, err := t.step(ctx, p, messages, origin)
		if err != nil {
			return nil, err
		}
		r.Processors = append(r.Processors, step)
		messages = out
		if step.Error != nil {
			fault = host.Errorf(step.Error.Code, "processor %q: %w", p.Name(), step.Error)
			break
		}
	}
	if r.Result, err = t.size(ctx, messages); err != nil {
		return nil, err
	}
	r.Messages = host.AppendMessagesJSON(nil, messages)
	return r, fault
}

func (t *processorsTrial) view(messages []*host.Message) *host.View {
	view := host.NewView(messages, t.model, t.counter)
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
	out, done, fault := host.Process(ctx, p.Processor, t.view(messages))
	switch {
	case fault == nil:
		step.Report, step.Cost = done.Report, done.Cost
	case ctx.Err() != nil:
		return step, nil, fault
	case p.optional:
		out, step.Skipped = messages, host.AsError(fault)
	default:
		out, step.Error = messages, host.AsError(fault)
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
	counts, err := host.NewView(messages, t.model, t.counter).Tokens(ctx, "")
	for i, m := range messages {
		if err == nil {
			s.Tokens += counts[i]
		}
		bytes, _ := m.Size()
		s.Bytes += bytes
	}
	return s, err
}

// changes says what became of each message, in the order of the view before;
// what was inserted comes before what it stands before. Messages are told apart
// by their ids.
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
	next := 0 // the first of after that has not been looked at
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

// gain is how much larger a message is than another; nil is none.
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

// sameMessage reports whether a processor has left a message as it was: b, which
// may be of a file that does not say when it was made.
func sameMessage(a, b *host.Message) bool {
	if a != b && b.CreatedAt.IsZero() {
		a = a.Clone()
		a.CreatedAt = b.CreatedAt
	}
	return a == b || bytes.Equal(a.AppendJSON(nil), b.AppendJSON(nil))
}

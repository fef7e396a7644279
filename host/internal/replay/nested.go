package replay

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/nested"
)

// NestedCall is a call that a tool has made of another, at its position among all calls
// that the tool makes.
type NestedCall struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // as the caller wrote them
	Done      *CallDone       `json:"done,omitempty"`      // its outcome; nil if it has none
	Open      *OpenCall       `json:"open,omitempty"`      // it waited for an answer when a run was interrupted

	Begun   int       `json:"-"` // the attempt that began in a process that has ended
	Began   time.Time `json:"-"` // when it began first there
	Applied bool      `json:"-"` // its effects on the run are made
}

// asks reports whether the call waits for an answer.
func (n *NestedCall) asks() *OpenCall {
	if n.Done != nil {
		return n.Done.Open
	}
	return n.Open
}

// Nested remembers the calls that the tools of one run make of others, by the key of the
// calling call. Safe for concurrent use.
type Nested struct {
	mu    sync.Mutex
	byKey map[string][]*NestedCall
	calls int
	bytes int
}

// NewNested returns the calls of a run that has made none.
func NewNested() *Nested { return &Nested{byKey: map[string][]*NestedCall{}} }

// Restore takes over the calls of an interrupted run, or of one whose process has ended.
func (s *Nested) Restore(byKey map[string][]*NestedCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, list := range byKey {
		s.byKey[key] = list
		for _, n := range list {
			if n != nil {
				s.calls++
				s.bytes += n.size()
			}
		}
	}
}

// size is the part of a call that is counted in the bounds.
func (n *NestedCall) size() int {
	size := len(n.Arguments)
	if n.Done != nil && n.Done.Message != nil {
		for _, part := range n.Done.Message.Parts {
			if r, ok := part.(*chat.ToolResult); ok {
				media, _ := chat.MediaBytes(r.Media)
				size += len(r.Content) + media
			}
		}
	}
	return size
}

// Reach returns the calls of a list at their positions. It adds those that the caller has
// not reached before, all or none; more are their positions. Code conflict if the caller has
// made another call at one of them, resource_exhausted if the run would keep too many, or too
// large ones.
func (s *Nested) Reach(key string, at int, calls []nested.Call) (kept []*NestedCall, more []int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept, size := make([]*NestedCall, len(calls)), 0
	for i := range calls {
		if kept[i], err = s.find(key, at+i, &calls[i]); err != nil {
			return nil, nil, err
		}
		if kept[i] == nil {
			kept[i] = &NestedCall{Name: calls[i].Name, Arguments: calls[i].Arguments}
			more, size = append(more, at+i), size+kept[i].size()
		}
	}
	if len(more) > 0 && (s.calls+len(more) > nested.MaxRunCalls || s.bytes+size > nested.MaxRunBytes) { // results may have passed the bound
		return nil, nil, fault.Errorf(fault.ResourceExhausted, "the tools of the run have made %d calls of others, of %d bytes, and make %d more, of %d bytes: there may be %d, of %d bytes",
			s.calls, s.bytes, len(more), size, nested.MaxRunCalls, nested.MaxRunBytes)
	}
	s.calls, s.bytes = s.calls+len(more), s.bytes+size
	for _, i := range more {
		s.byKey[key] = putNested(s.byKey[key], i, kept[i-at])
	}
	return kept, more, nil
}

// Remove takes back that Reach has added calls at positions, of which none has run.
func (s *Nested) Remove(key string, positions []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.byKey[key]
	for _, i := range positions {
		s.calls--
		s.bytes -= list[i].size()
		list[i] = nil
	}
	for len(list) > 0 && list[len(list)-1] == nil {
		list = list[:len(list)-1]
	}
	if s.byKey[key] = list; len(list) == 0 {
		delete(s.byKey, key)
	}
}

// find returns the call at a position that a caller has reached before, nil at one that it
// has not. s.mu is held.
func (s *Nested) find(key string, at int, c *nested.Call) (*NestedCall, error) {
	list := s.byKey[key]
	if at >= len(list) || list[at] == nil {
		return nil, nil
	}
	n := list[at]
	if n.Name != c.Name || !sameJSON(n.Arguments, c.Arguments) {
		return nil, fault.Errorf(fault.Conflict, "call %d of another tool is of %q, and was of %q with other arguments when the run got there before", at, c.Name, n.Name).
			WithHint("a tool that calls others must make the same calls when it starts again: in its order, names and arguments nothing may come from time, randomness or other state")
	}
	return n, nil
}

// sameJSON compares what a caller wrote with what it wrote before, which the journal keeps
// in encoding/json's way: without white space, and with other escapes.
func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// putNested puts a call at a position, also one behind a gap: the calls of a list end in
// any order.
func putNested(list []*NestedCall, at int, n *NestedCall) []*NestedCall {
	for len(list) <= at {
		list = append(list, nil)
	}
	list[at] = n
	return list
}

// End keeps the outcome of a call.
func (s *Nested) End(n *NestedCall, done *CallDone) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes -= n.size()
	n.Done = done
	s.bytes += n.size()
}

// Apply reports whether the effects of a call on the run are still to be made, and notes
// that they are.
func (s *Nested) Apply(n *NestedCall) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !n.Applied
	n.Applied = true
	return first
}

// Drop forgets the calls of a caller that has its outcome.
func (s *Nested) Drop(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.byKey[key] {
		if n != nil {
			s.calls--
			s.bytes -= n.size()
		}
	}
	delete(s.byKey, key)
}

// Has reports whether a caller has made calls.
func (s *Nested) Has(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byKey[key]) > 0
}

// Kept returns the calls of a caller that waits, for a checkpoint. One without a name stands at
// a position that the caller has not reached. via is the id of its call, which leads to the
// questions behind it. apply is called for the outcomes whose effects on the run are still to
// be made.
func (s *Nested) Kept(key, via string, apply func(*CallDone)) []*NestedCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	var kept []*NestedCall
	for _, n := range s.byKey[key] {
		if n == nil { // the caller has not got there again, but behind it
			n = &NestedCall{}
		}
		if n.Done != nil && !n.Applied {
			n.Applied = true
			apply(n.Done)
		}
		own := &NestedCall{Name: n.Name, Arguments: n.Arguments, Done: n.Done}
		if open := n.asks(); open != nil {
			o := *open
			own.Done, own.Open = nil, &o
			Lead(via, []*OpenCall{&o})
		}
		kept = append(kept, own)
	}
	return kept
}

// Lead adds the id of a call to the way to the questions behind it.
func Lead(via string, calls []*OpenCall) {
	for _, call := range Asking(calls) {
		q := *call.Question
		q.Via = slices.Insert(slices.Clone(q.Via), 0, via)
		call.Question = &q
	}
}

// AddNested adds the nested calls of calls that wait, and of those behind them, to byKey.
// Their effects are part of the run that was interrupted.
func AddNested(byKey map[string][]*NestedCall, calls []*OpenCall) {
	for _, call := range calls {
		if call.Inside != nil {
			AddNested(byKey, call.Inside.Calls)
		}
		for i, n := range call.Nested {
			if n.Name == "" {
				continue
			}
			n.Applied = n.Done != nil
			byKey[call.Key] = putNested(byKey[call.Key], i, n)
			if n.Open != nil {
				AddNested(byKey, []*OpenCall{n.Open})
			}
		}
	}
}

// OpenNested returns the calls behind a call that wait for an answer.
func (c *OpenCall) OpenNested() []*OpenCall { return openNested(c.Nested) }

// openNested returns the nested calls that wait for an answer.
func openNested(calls []*NestedCall) []*OpenCall {
	var open []*OpenCall
	for _, n := range calls {
		if n.Open != nil {
			open = append(open, n.Open)
		}
	}
	return open
}

// addNested notes a step of a nested call.
func (p *Run) addNested(c *CallStep) error {
	if c.At < 0 || c.At >= nested.MaxRunCalls {
		return fault.Errorf(fault.DataLoss, "%q has no nested call %d", c.Of, c.At)
	}
	list := p.Nested[c.Of]
	if c.At >= len(list) || list[c.At] == nil {
		list = putNested(list, c.At, &NestedCall{Name: c.Name, Arguments: c.Arguments})
		p.Nested[c.Of] = list
		p.ToolCalls++
	}
	if n := list[c.At]; c.Done == nil {
		n.Begun, n.Began = c.Attempt, c.began(n.Began)
	} else {
		n.Done = c.Done
		delete(p.Nested, c.Key)
	}
	return nil
}

// addNestedArtifacts counts the artifacts of nested calls whose caller has no outcome.
func (p *Run) addNestedArtifacts() {
	for _, list := range p.Nested {
		for _, n := range list {
			if n != nil && n.Done != nil && !n.Applied {
				p.Made = append(p.Made, n.Done.Artifacts...)
			}
		}
	}
}

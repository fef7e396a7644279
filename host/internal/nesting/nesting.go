// Package nesting keeps the order and the bounds of the calls that a tool makes of others.
//
// A [Caller] is one attempt of a tool that may make calls, in one list after another. It
// says which tools it may call, at which position each call stands, and why no call may be
// made any more. Its time stands still while a list runs.
package nesting

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/internal/replay"
	"github.com/agenthost/agenthost/host/nested"
)

// Caller is one attempt of a call that may make calls of other tools. The methods that ask
// something of a Caller may be called of nil, which calls none. Safe for concurrent use.
type Caller struct {
	tool  string
	names []string // that it may call
	chain []string // the tools that are called within each other, down to this one
	clock *nested.Deadline
	ctx   context.Context // the lifetime of the attempt, which ends with clock
	leave context.CancelFunc

	mu      sync.Mutex
	next    int // the position of the next call
	running bool
	over    bool
	asks    bool  // a call waits for an answer
	failed  error // fails the attempt
}

// New returns the caller of an attempt of a tool that may call the tools of some names, and
// takes a time of its own. around is the caller of this call, nil if the model made it. The
// attempt ends with End.
func New(ctx context.Context, timeout time.Duration, tool string, names []string, around *Caller) *Caller {
	c := &Caller{tool: tool, names: names, chain: []string{tool}, clock: nested.WithTimeout(ctx, timeout)}
	c.ctx, c.leave = context.WithCancel(c.clock) // each call would have to follow clock by itself
	if around != nil {
		c.chain = append(slices.Clone(around.chain), tool)
	}
	return c
}

// Context returns the context of the attempt.
func (c *Caller) Context() context.Context { return c.ctx }

// Within returns ctx with its values for a list of calls. It ends with the attempt, whose
// tool may have made ctx of another lifetime, and with leave.
func (c *Caller) Within(ctx context.Context) (within context.Context, leave context.CancelFunc) {
	within, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.ctx, func() { end(context.Cause(c.ctx)) })
	return within, func() {
		stop()
		end(nil)
	}
}

// Depth returns how deep the caller's calls are nested, from 0.
func (c *Caller) Depth() int { return len(c.chain) - 1 }

// End ends the attempt.
func (c *Caller) End() {
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	c.leave()
	c.clock.Cancel()
}

// MayCall returns why a tool may not be called.
func (c *Caller) MayCall(tool string) error {
	switch {
	case slices.Contains(c.chain, tool):
		return fault.Errorf(fault.FailedPrecondition, "The tool %s is called within itself: %s.", tool, strings.Join(append(slices.Clone(c.chain), tool), ", "))
	case !nested.Allows(c.names, tool):
		return fault.Errorf(fault.PermissionDenied, "The tool %s may not call the tool %q.", c.tool, tool)
	}
	return nil
}

// Check returns a list of calls of its own, with the arguments that are absent, or why it
// may not be made. maxArguments bounds those of one call, in bytes.
func (c *Caller) Check(calls []nested.Call, maxArguments int) ([]nested.Call, error) {
	switch {
	case len(calls) == 0:
		return nil, fault.Errorf(fault.InvalidArgument, "The tool %s calls a list of no tools.", c.tool)
	case len(calls) > nested.MaxCalls:
		return nil, fault.Errorf(fault.ResourceExhausted, "The tool %s calls %d tools in one list, more than %d.", c.tool, len(calls), nested.MaxCalls)
	case len(c.chain) > nested.MaxDepth:
		return nil, fault.Errorf(fault.ResourceExhausted, "Tools call each other more than %d deep: %s.", nested.MaxDepth, strings.Join(c.chain, ", "))
	}
	own, size := slices.Clone(calls), 0
	for i := range own {
		size += len(own[i].Arguments)
	}
	room := make([]byte, 0, size+len(own)*len("{}"))
	for i := range own {
		call := &own[i]
		if i == 0 || call.Name != own[i-1].Name {
			if err := c.MayCall(call.Name); err != nil {
				return nil, err
			}
		}
		if len(call.Arguments) > maxArguments {
			return nil, fault.Errorf(fault.InvalidArgument, "The arguments of the call of %s are %d bytes long, more than the %d that are allowed.", call.Name, len(call.Arguments), maxArguments)
		}
		from := len(room)
		if room = append(room, call.Arguments...); len(room) == from {
			room = append(room, "{}"...)
		}
		call.Arguments = room[from:len(room):len(room)]
		if jsondoc.Check(call.Arguments) != nil {
			return nil, fault.Errorf(fault.InvalidArgument, "The arguments of the call of %s are not valid JSON.", call.Name)
		}
	}
	return own, nil
}

// Begin begins a list and returns its position. Code failed_precondition while another
// runs, and after the attempt; the error of an attempt that has failed; and
// [nested.ErrInterrupted] if a call waits for an answer.
func (c *Caller) Begin() (at int, finish func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.failed != nil:
		return 0, nil, c.failed
	case c.asks:
		return 0, nil, nested.ErrInterrupted
	case c.over || c.running:
		return 0, nil, fault.Errorf(fault.FailedPrecondition, "The tool %s calls tools while it calls others, or after its end.", c.tool).WithHint("call them in one list")
	}
	c.running = true
	start := c.clock.Stop()
	return c.next, func() {
		c.mu.Lock()
		c.running = false
		c.mu.Unlock()
		start()
	}, nil
}

// Admit notes that a list of calls is made, or why it is not: with code conflict the
// attempt has failed.
func (c *Caller) Admit(calls int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.next += calls
	case fault.CodeOf(err) == fault.Conflict:
		c.failed = err
	}
}

// Interrupt notes that a call waits for an answer.
func (c *Caller) Interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asks = true
}

// Failure returns the error that fails the attempt, whatever the tool makes of it.
func (c *Caller) Failure() (failed error) {
	c.look(func() { failed = c.failed })
	return failed
}

// HasCalled reports whether a call was made.
func (c *Caller) HasCalled() (has bool) {
	c.look(func() { has = c.next > 0 })
	return has
}

// Asks reports whether a call waits for an answer.
func (c *Caller) Asks() (asks bool) {
	c.look(func() { asks = c.asks })
	return asks
}

// Over reports whether the attempt has ended.
func (c *Caller) Over() (over bool) {
	c.look(func() { over = c.over })
	return over
}

func (c *Caller) look(at func()) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at()
}

// AnswerOf returns the answer of a call that is done.
func AnswerOf(done *replay.CallDone) nested.Answer {
	if done.Open != nil {
		return nested.Answer{Kind: nested.Interrupted}
	}
	answer := nested.Answer{Kind: nested.Result, Code: done.Code}
	if done.Message == nil {
		return answer
	}
	for _, part := range done.Message.Parts {
		r, ok := part.(*chat.ToolResult)
		if !ok {
			continue
		}
		if answer.Content, answer.Media = r.Content, r.Media; r.IsError {
			answer.Kind = nested.Error
		}
	}
	return answer
}

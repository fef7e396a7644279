// Package runusage counts what a run uses, within the limits of the run and those of its
// tenant.
//
// Requests to models, calls of tools, costs of sandboxed code and artifacts go in. An error
// of code resource_exhausted comes out when a limit of the run is reached, or an error of
// the tenant's record: see package runledger. Usage counts also when the run is
// canceled or an answer breaks off. A run and the agents that work as tools in it have a
// [Counter] each and one [Total].
//
// A Counter is used in the run's goroutine, but for Spend, which calls of tools use at the
// same time. The package asks no model and runs no tool.
package runusage

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/report"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/runledger"
	"github.com/agenthost/agenthost/host/runlimit"
)

// Counter counts a run's usage and artifacts.
type Counter struct {
	Events *report.Reporter
	Limits *runlimit.Limits
	Tokens chat.TokenCounter // may be nil

	Total     *Total
	Usage     chat.Usage
	Cost      chat.Cost
	Artifacts []chat.Artifact
	Around    []chat.Artifact // of the run in which this one is an agent used as a tool

	record      runledger.Record // nil without a ledger, and before the run works
	bookedUntil time.Time        // until when the run's time is booked
}

// Branch returns the counter of an agent used as a tool in the run.
func (c *Counter) Branch() Counter {
	b := *c
	b.Around, b.Artifacts, b.Usage, b.Cost = c.MadeBefore(), nil, chat.Usage{}, chat.Cost{}
	return b
}

// Open opens the usage record of the run in a ledger, which may be nil, and begins to count
// time. It returns the record, nil without a ledger.
func (c *Counter) Open(ledger runledger.Ledger, scope llm.Scope, key string) runledger.Record {
	if ledger != nil {
		c.record, c.bookedUntil = ledger.OpenRun(scope, key), time.Now()
	}
	return c.record
}

// Close ends the usage record of the run. With rides it returns entries for the commit of
// the turn.
func (c *Counter) Close(rides bool) []runledger.Entry {
	if c.record == nil {
		return nil
	}
	c.bookTime()
	return c.record.Close(c.Events.Scope.Thread, rides)
}

// bookTime books the time since it was booked last. The time of an agent used as a
// tool is the time of the call.
func (c *Counter) bookTime() {
	if c.record == nil || c.Events.Depth > 0 {
		return
	}
	now := time.Now()
	c.record.UseTime(now.Sub(c.bookedUntil))
	c.bookedUntil = now
}

// ReserveModel reserves a request to a model in the run's usage record, and waits until
// the tenant may ask. It returns the request to send, which has a maximum of output, and
// the reservation, which BookTokens settles; nil without a record.
func (c *Counter) ReserveModel(ctx context.Context, model llm.Model, req *llm.Request) (*llm.Request, *runledger.ModelCall, error) {
	if c.record == nil {
		return req, nil, nil
	}
	c.bookTime()
	call := &runledger.ModelCall{Agent: req.Scope.Agent, Model: model.Name(), Input: llm.MostTokens(req), MaxOutput: req.MaxOutputTokens}
	err := c.record.ReserveModel(ctx, call)
	if fault.CodeOf(err) == fault.ResourceExhausted && call.Waited == 0 {
		if n, ok := llm.CountRequest(ctx, c.Tokens, call.Model, req); ok && n < call.Input { // the estimate was too much
			call.Input, call.MaxOutput = n, req.MaxOutputTokens
			err = c.record.ReserveModel(ctx, call)
		}
	}
	if call.Waited > 0 {
		c.bookedUntil = c.bookedUntil.Add(call.Waited)
		c.Events.Emit(&runevent.ModelThrottled{Model: call.Model, WaitUS: call.Waited.Microseconds()})
	}
	if err == nil && req.MaxOutputTokens == 0 && call.MaxOutput > 0 {
		own := *req
		own.MaxOutputTokens = call.MaxOutput
		req = &own
	}
	return req, call, err
}

// BookTokens books the tokens of an answer to a call. call is nil without a usage record.
func (c *Counter) BookTokens(call *runledger.ModelCall, u chat.Usage) {
	c.Total.Tokens.Add(int64(u.Total()))
	if call != nil {
		kept := u // u itself would be allocated without a record too
		c.record.SettleModel(call, &kept)
	}
}

// BookUnfinished books the tokens of an answer that broke off, or was not
// taken: its provider has still worked for it. Without the answer's own count the
// tokens are estimated from the request and the received part of the answer. A
// request that was refused before any output costs nothing, unless it broke off
// because the run ended: the provider's progress is then unknown. It returns what it booked.
func (c *Counter) BookUnfinished(ctx context.Context, call *runledger.ModelCall, req *llm.Request, resp *llm.Response, shown int) chat.Usage {
	var u chat.Usage
	switch {
	case resp != nil && resp.Usage != (chat.Usage{}):
		u = resp.Usage.Bounded()
	case resp != nil:
		u = llm.EstimateUsage(req, resp)
	case shown > 0 || ctx.Err() != nil:
		u = llm.EstimateUsage(req, &llm.Response{})
		u.OutputTokens = llm.EstimateTokens(shown)
	default:
		if call != nil {
			c.record.SettleModel(call, nil)
		}
		return u
	}
	c.Usage = c.Usage.Add(u)
	c.BookTokens(call, u)
	return u
}

// AdmitToolCalls fails if n more tools may not be called.
func (c *Counter) AdmitToolCalls(ctx context.Context, n int) error {
	if c.Total.ToolCalls.Add(int64(n)) > int64(c.Limits.MaxToolCalls) {
		return fault.Errorf(fault.ResourceExhausted, "run calls more tools than the limit MaxToolCalls of %d", c.Limits.MaxToolCalls)
	}
	if c.record == nil {
		return nil
	}
	c.bookTime()
	return c.record.ReserveTools(ctx, n)
}

// AdmitNestedCalls fails if tools may not call n more tools, and counts none of them then.
func (c *Counter) AdmitNestedCalls(ctx context.Context, n int) error {
	if err := c.CheckLeft(); err != nil {
		return err
	}
	err := c.AdmitToolCalls(ctx, n)
	if err != nil {
		c.Total.ToolCalls.Add(-int64(n))
	}
	return err
}

// AddCost adds the usage of sandboxed code.
func (c *Counter) AddCost(cost *chat.Cost) {
	c.Cost.Add(cost)
	c.Spend(cost)
}

// Spend counts the instructions of sandboxed code.
func (c *Counter) Spend(cost *chat.Cost) {
	if cost != nil {
		c.Total.Instructions.Add(cost.Instructions)
	}
}

// CheckLeft fails if the run has used its tokens or instructions up. One call can
// exceed the rest, by as much as its own limits allow.
func (c *Counter) CheckLeft() error {
	if used := c.Total.Tokens.Load(); used >= int64(c.Limits.RunTokens) {
		return fault.Errorf(fault.ResourceExhausted, "run has used %d tokens of the limit RunTokens of %d", used, c.Limits.RunTokens).
			WithHint("raise the limit or give the agent fewer rounds")
	}
	if used := c.Total.Instructions.Load(); used >= c.Limits.RunInstructions {
		return fault.Errorf(fault.ResourceExhausted, "run has used %d instructions of the limit RunInstructions of %d", used, c.Limits.RunInstructions).
			WithHint("raise the limit or give the run's plugins less to do")
	}
	return nil
}

// MadeBefore returns the artifacts of the run and of the runs around it.
func (c *Counter) MadeBefore() []chat.Artifact {
	list := slices.Clone(c.Around)
	if len(list) == 0 {
		return slices.Clone(c.Artifacts)
	}
	for _, a := range c.Artifacts {
		list = chat.PutArtifact(list, a)
	}
	return list
}

// Total is the usage of a run, with the agents that run as tools in it.
type Total struct{ Tokens, ToolCalls, Artifacts, ArtifactBytes, Instructions atomic.Int64 }

// CountArtifact counts one that a call has made, if there is room for it.
func (s *Total) CountArtifact(bytes int, l *runlimit.Limits) error {
	if s.Artifacts.Add(1) > int64(l.RunArtifacts) {
		return fault.Errorf(fault.ResourceExhausted, "the tools of the run make more artifacts than the limit RunArtifacts of %d", l.RunArtifacts)
	}
	if s.ArtifactBytes.Add(int64(bytes)) > int64(l.RunArtifactBytes) {
		return fault.Errorf(fault.ResourceExhausted, "the artifacts of the run have more bytes than the limit RunArtifactBytes of %d", l.RunArtifactBytes)
	}
	return nil
}

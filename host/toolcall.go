package host

import (
	"cmp"
	"context"
	"time"

	"github.com/agenthost/agenthost/host/internal/callbatch"
	"github.com/agenthost/agenthost/host/internal/replay"
	"github.com/agenthost/agenthost/host/internal/report"
	"github.com/agenthost/agenthost/host/internal/runusage"
	"github.com/agenthost/agenthost/host/internal/toolfault"
	"github.com/agenthost/agenthost/host/nested"
)

// toolCalls runs the calls of an agent's tools. Handlers run in goroutines of their own,
// and so do calls of one batch; what they share does not change meanwhile, or has a mutex.
type toolCalls struct {
	agent  *Agent
	tools  toolSet
	off    bool // the model is asked for the last time, without tools
	host   *Host
	net    *Network
	state  *State
	limits *Limits
	events *report.Reporter
	routes *routing
	ledger *runusage.Counter
	turn   callMaker
	nested *replay.Nested
	slots  [nested.MaxDepth]chan struct{} // of nested calls, at each depth; made when the first runs

	recorder      *replay.Recorder // nil if the run is not in the journal
	stepsIn       string           // the key of the call whose agent takes the steps; empty in the run itself
	unstored      bool             // questions expire
	clientAnswers bool             // answers come with a checkpoint that a client had
}

// toolCall is one call of a batch on its way.
type toolCall struct {
	part     *ToolCall
	attempt  *Call // of the last attempt
	batch    *callbatch.Batch
	pumped   bool // the call's goroutine passes on the batch's events
	output   *ToolOutput
	err      error
	start    time.Time
	duration time.Duration

	settled  bool             // has an output without running
	admitted bool             // no person must agree to it
	checked  bool             // its arguments
	question *Question        // waits for the answer
	message  *Message         // joins the conversation
	open     *replay.OpenCall // waits for an answer
	replayed bool             // it ran in another process
	unknown  bool             // there is no tool of its name
	key      string           // by which clients know it, if that is not its idempotency key

	caller  *nestedCalls       // of the call that makes this one; nil if the model does
	at      int                // the position among those of its caller
	kept    *replay.NestedCall // likewise
	effects replay.Effects     // of the calls that this one makes
}

// clientKey names the call in events.
func (c *toolCall) clientKey() string { return cmp.Or(c.key, c.attempt.IdempotencyKey) }

// callsNone reports whether the model must not call any tool.
func (tc *toolCalls) callsNone() bool {
	return tc.off || tc.agent.opts.ToolChoice == ToolChoiceNone
}

// toolNamed returns the tool of that name, nil if it may not be called: a model may
// call tools even where the request allows none.
func (tc *toolCalls) toolNamed(name string) *Tool {
	if tc.callsNone() {
		return nil
	}
	return tc.tools.byName[name]
}

// callTool finds the tool, checks the arguments, runs the handler and takes its
// answer.
func (tc *toolCalls) callTool(ctx context.Context, c *toolCall) (*ToolOutput, error) {
	tool := tc.toolNamed(c.part.Name)
	switch {
	case tool == nil && tc.callsNone():
		return nil, Errorf(FailedPrecondition, "No tool may be called here.")
	case tool == nil:
		c.unknown = true
		return nil, toolfault.Unknown(c.part.Name, tc.tools.specs)
	}
	if c.attempt.Began.IsZero() && !tc.nested.Has(c.attempt.IdempotencyKey) { // an older version kept the calls of this one, and no time
		c.attempt.Began = c.start.UTC().Truncate(time.Millisecond)
	}
	c.attempt.State = (*State)(tc.state.view().ForCall(c.attempt.tellChange))
	defer func() { c.attempt.steps.GiveUp(); c.attempt.State.view().EndCall() }()
	out, err := tc.runCall(ctx, tool, c)
	if err != nil || c.asksNested() {
		c.attempt.State.view().TakeBack()
	}
	return out, err
}

// runCall calls a tool that exists.
func (tc *toolCalls) runCall(ctx context.Context, tool *Tool, c *toolCall) (*ToolOutput, error) {
	if !c.checked {
		var err error
		if c.attempt.Arguments, err = tool.arguments(ctx, c.attempt.Arguments, tc.limits.ArgumentBytes); err != nil {
			return nil, err
		}
	}
	out, err := tc.hookToolStart(ctx, tool, c)
	if err != nil {
		return out, err
	}
	if out == nil {
		if err := tc.recordCallBegun(ctx, tool, c); err != nil {
			return nil, err
		}
		var started time.Time
		if tc.agent.opts.Hooks.ToolEnd != nil {
			started = time.Now()
		}
		out, err = tc.runAttempts(ctx, tool, c)
		if !c.asksNested() { // it has not run yet, and starts again
			out, err = tc.hookToolEnd(ctx, c, started, out, err)
		}
	}
	if err == nil { // a part that is nil, say, must not end the process
		err = tc.guardCall(ctx, tool.Name, func() error { return tc.applyOutput(c, out) })
	}
	return out, err
}

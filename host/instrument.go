package host

import (
	"context"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/instrument"
	"github.com/agenthost/agenthost/host/internal/replay"
)

// How a run calls the host's instrument. Without one nothing here is allocated.

// Instrument is called around the operations of a host: see [instrument.Instrument].
type Instrument = instrument.Instrument

// newGuard returns the guard of a host's instrument. A ledger that knows what calls of models
// cost has a method Price.
func newGuard(opts *Options) *instrument.Guard {
	o := &instrument.Options{Logger: opts.Logger}
	if l, ok := opts.Ledger.(interface {
		Price(model string, used chat.Usage) instrument.Money
	}); ok {
		o.Price = l.Price
	}
	return instrument.NewGuard(opts.Instrument, o)
}

// perform is a run as an operation. Its error is an [*Error].
func (h *Host) perform(ctx context.Context, r *run) error {
	g := h.instrument
	if g == nil {
		return h.answerOrRefuse(ctx, r)
	}
	op := &instrument.Run{Scope: r.scope, Agent: r.net.solo, Resumes: r.resume.run}
	r.operation = op
	_, err := instrument.Do(g.NewContext(ctx), g, op, func(ctx context.Context) (struct{}, error) {
		defer func() { op.Scope.Run, op.Scope.Thread = r.scope.Run, r.scope.Thread }()
		return struct{}{}, h.answerOrRefuse(ctx, r)
	})
	return err
}

// runAgent runs an agent; saved has the part of its run that is done.
func (r *run) runAgent(ctx context.Context, a *Agent, saved *replay.SavedTurn) (*Result, error) {
	r.scope.Agent = a.name
	g := r.host.instrument
	if g == nil {
		return r.runTurn(ctx, a, saved)
	}
	op := &instrument.Agent{Scope: r.scope, Description: a.opts.Description, Model: r.models.forAgent(a).Name(), AsTool: r.events.Depth > 0}
	return instrument.Do(ctx, g, op, func(ctx context.Context) (*Result, error) {
		result, err := r.runTurn(ctx, a, saved)
		if result != nil {
			op.FinishReason, op.Rounds, op.Usage = result.FinishReason, result.Rounds, result.Usage
		}
		return result, err
	})
}

// askRouter asks one router.
func (r *routing) askRouter(ctx context.Context, router Router, req *RouteRequest) (*Route, error) {
	g := r.asks.Instrument
	if g == nil {
		return router.Route(ctx, req)
	}
	op := &instrument.Router{Scope: req.Scope, Name: router.Name(), Call: req.CallCount}
	return instrument.Do(ctx, g, op, func(ctx context.Context) (*Route, error) {
		route, err := router.Route(ctx, req)
		if route != nil {
			op.Next, op.Delegate, op.Reason = route.Next, route.Delegate, route.Reason
		}
		return route, err
	})
}

// callToOutput runs a call and gives it an output, also of a failure.
func (tc *toolCalls) callToOutput(ctx context.Context, c *toolCall) {
	g := tc.host.instrument
	if g == nil {
		tc.runToOutput(ctx, c)
		return
	}
	op := &instrument.Tool{Scope: c.attempt.Scope, Name: c.part.Name, Call: c.part.ID, IdempotencyKey: c.attempt.IdempotencyKey,
		Provider: tc.providerOf(c.part.Name), Arguments: c.part.Arguments}
	if tool := tc.toolNamed(c.part.Name); tool != nil {
		op.Known, op.Description = true, tool.Description
		if tool.agent != nil {
			op.Agent = tool.agent.name
		}
	}
	_, _ = instrument.Do(ctx, g, op, func(ctx context.Context) (struct{}, error) {
		tc.runToOutput(ctx, c)
		op.Attempts, op.Result, op.Interrupted = c.attempt.Attempt, c.output.Content, c.output.Interrupt != nil || c.output.inside != nil || c.asksNested()
		return struct{}{}, c.err
	})
}

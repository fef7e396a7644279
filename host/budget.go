package host

import (
	"context"
	"time"
)

// Quota bounds what a tenant uses over all of its runs, beside the [Limits] of
// each. Package quota has one for a single process. Implementations are safe for
// concurrent use. An error ends the run with its code: resource_exhausted, and
// retryable, for what is used up for now.
type Quota interface {
	// AskModel is called before a model is asked, each time. It may wait until it
	// is the tenant's turn, as long as ctx, and returns for how long it did.
	AskModel(ctx context.Context, tenant, model string) (waited time.Duration, err error)

	// UseTokens books what a model call has used, also if it is more than what was
	// left: the next call is then refused. It is called in runs that were cancelled
	// as well, and must not wait.
	UseTokens(tenant string, tokens int)

	// CallTools is called before n tools are called together.
	CallTools(ctx context.Context, tenant string, n int) error
}

// AdmittingQuota is what a [Quota] may also be: it refuses runs before they begin.
type AdmittingQuota interface {
	// AdmitRun is called before anything of a run is stored or sent. It fails if the
	// tenant has nothing left, or if a first call of model would be refused for its
	// rate; model is "" where it is not known yet. The error has code
	// resource_exhausted, the limit's name and RetryAfter. It books nothing, waits for
	// nothing, and writes nothing.
	AdmitRun(ctx context.Context, tenant, model string) error
}

// Admit returns the error with which a run of target for a tenant would be refused
// now, nil if it would not be: for a program that stores something of its own
// before it starts the run.
func (h *Host) Admit(ctx context.Context, target Target, tenant string) error {
	tenant, err := h.Tenant(tenant)
	if err != nil {
		return err
	}
	r := &run{host: h, net: target.network(), req: &Request{}, scope: Scope{Tenant: tenant}}
	return r.admit(ctx)
}

// admit asks the quota whether the run may begin. A run that goes on after its
// process ended began before.
func (r *run) admit(ctx context.Context) error {
	quota, ok := r.host.opts.Quota.(AdmittingQuota)
	if !ok || r.req.Resume != "" && len(r.req.Answers) == 0 {
		return nil
	}
	return quota.AdmitRun(ctx, r.scope.Tenant, r.firstModel())
}

// firstModel returns the name of the model that the run asks first, "" if that is
// a router's to say.
func (r *run) firstModel() string {
	var model Model
	router, byModel := r.router().(*modelRouter)
	switch {
	case r.isAlone():
		model = r.model(r.net.agents[0])
	case byModel && router.opts.Model != nil:
		model = router.opts.Model
	case byModel:
		model = r.routingModel()
	}
	if model == nil {
		return ""
	}
	return model.Name()
}

// TimeQuota is what a [Quota] may also be: it bounds how long a tenant's runs take
// together.
type TimeQuota interface {
	// UseTime books time that a run has taken: before each model call and each
	// batch of tool calls, and at its end. Waiting for a thread or for a turn at a
	// model is not booked. When it is used up, AskModel and CallTools fail. It is
	// called in runs that were cancelled as well, and must not wait.
	UseTime(tenant string, d time.Duration)
}

// useTime books the time since it was booked last. What agents used as tools take
// is the time of the call.
func (r *run) useTime() {
	quota, ok := r.host.opts.Quota.(TimeQuota)
	if !ok || r.events.depth > 0 || r.ledger.bookedUntil.IsZero() {
		return
	}
	now := time.Now()
	quota.UseTime(r.scope.Tenant, now.Sub(r.ledger.bookedUntil))
	r.ledger.bookedUntil = now
}

// askable waits until the tenant may ask a model.
func (r *run) askable(ctx context.Context, model Model) error {
	quota := r.host.opts.Quota
	if quota == nil {
		return nil
	}
	r.useTime()
	waited, err := quota.AskModel(ctx, r.scope.Tenant, model.Name())
	if waited > 0 {
		r.ledger.bookedUntil = r.ledger.bookedUntil.Add(waited)
		r.emit(&ModelThrottled{Model: model.Name(), WaitUS: waited.Microseconds()})
	}
	return err
}

// useTokens books what an answer cost.
func (r *run) useTokens(u Usage) {
	r.ledger.spent.tokens.Add(int64(u.Total()))
	if quota := r.host.opts.Quota; quota != nil {
		quota.UseTokens(r.scope.Tenant, u.Total())
	}
}

// paidFor books what an answer cost that did not come to its end, or was not
// taken: its provider has worked for it all the same. Without the answer's own
// count it is estimated from what was asked and what has come. A request that
// was refused before it had anything to show costs nothing, unless the run's end
// is why it broke off: nobody knows then how far the provider had got.
func (r *run) paidFor(ctx context.Context, req *ModelRequest, resp *ModelResponse, shown int) {
	var u Usage
	switch {
	case resp != nil && resp.Usage != (Usage{}):
		u = resp.Usage.counted()
	case resp != nil:
		u = estimateUsage(req, resp)
	case shown > 0 || ctx.Err() != nil:
		u = estimateUsage(req, &ModelResponse{})
		u.OutputTokens = shown / bytesPerToken
	default:
		return
	}
	r.ledger.usage = r.ledger.usage.Add(u)
	r.useTokens(u)
}

// callable asks whether n more tools may be called.
func (r *run) callable(ctx context.Context, n int) error {
	if r.ledger.spent.toolCalls.Add(int64(n)) > int64(r.limits.MaxToolCalls) {
		return Errorf(ResourceExhausted, "run calls more tools than the limit MaxToolCalls of %d", r.limits.MaxToolCalls)
	}
	if quota := r.host.opts.Quota; quota != nil {
		r.useTime()
		return quota.CallTools(ctx, r.scope.Tenant, n)
	}
	return nil
}

// addCost adds what sandboxed code has used.
func (r *run) addCost(c *Cost) {
	if c != nil {
		r.ledger.cost.Add(c)
		r.ledger.spent.instructions.Add(c.Instructions)
	}
}

// checkSpent holds the run to its tokens and instructions. One call can go past
// what is left, by as much as its own limits allow.
func (r *run) checkSpent() error {
	if used := r.ledger.spent.tokens.Load(); used >= int64(r.limits.RunTokens) {
		return Errorf(ResourceExhausted, "run has used %d tokens of the limit RunTokens of %d", used, r.limits.RunTokens).
			WithHint("raise the limit or give the agent fewer rounds")
	}
	if used := r.ledger.spent.instructions.Load(); used >= r.limits.RunInstructions {
		return Errorf(ResourceExhausted, "run has used %d instructions of the limit RunInstructions of %d", used, r.limits.RunInstructions).
			WithHint("raise the limit or give the run's plugins less to do")
	}
	return nil
}

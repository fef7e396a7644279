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

// askable waits until the tenant may ask a model.
func (r *run) askable(ctx context.Context, model Model) error {
	quota := r.host.opts.Quota
	if quota == nil {
		return nil
	}
	waited, err := quota.AskModel(ctx, r.tenant, model.Name())
	if waited > 0 {
		r.emit(&ModelThrottled{Model: model.Name(), WaitUS: waited.Microseconds()})
	}
	return err
}

// useTokens books what an answer cost.
func (r *run) useTokens(u Usage) {
	r.spent.tokens.Add(int64(u.Total()))
	if quota := r.host.opts.Quota; quota != nil {
		quota.UseTokens(r.tenant, u.Total())
	}
}

// callable asks whether n more tools may be called.
func (r *run) callable(ctx context.Context, n int) error {
	if r.spent.toolCalls.Add(int64(n)) > int64(r.limits.MaxToolCalls) {
		return Errorf(ResourceExhausted, "run calls more tools than the limit MaxToolCalls of %d", r.limits.MaxToolCalls)
	}
	if quota := r.host.opts.Quota; quota != nil {
		return quota.CallTools(ctx, r.tenant, n)
	}
	return nil
}

// addCost adds what sandboxed code has used.
func (r *run) addCost(c *Cost) {
	if c != nil {
		r.cost.Add(c)
		r.spent.instructions.Add(c.Instructions)
	}
}

// checkSpent holds the run to its tokens and instructions. One call can go past
// what is left, by as much as its own limits allow.
func (r *run) checkSpent() error {
	if used := r.spent.tokens.Load(); used >= int64(r.limits.RunTokens) {
		return Errorf(ResourceExhausted, "run has used %d tokens of the limit RunTokens of %d", used, r.limits.RunTokens).
			WithHint("raise the limit or give the agent fewer rounds")
	}
	if used := r.spent.instructions.Load(); used >= r.limits.RunInstructions {
		return Errorf(ResourceExhausted, "run has used %d instructions of the limit RunInstructions of %d", used, r.limits.RunInstructions).
			WithHint("raise the limit or give the run's plugins less to do")
	}
	return nil
}

package host

import (
	"context"
	"time"
)

// Quota bounds what a tenant uses over all of its runs, beside the [Limits] of
// each. Package quota has one for a single process. Implementations are safe for
// concurrent use. An error ends the run with its code: resource_exhausted, and
// retryable, for a quota that is used up for now.
type Quota interface {
	// AskModel is called before a model is asked, each time. It may wait until it
	// is the tenant's turn, as long as ctx, and returns for how long it did.
	AskModel(ctx context.Context, tenant, model string) (waited time.Duration, err error)

	// UseTokens books the tokens that a model call has used, even if fewer were
	// left: the next call is then refused. It is called in canceled runs too, and
	// must not wait.
	UseTokens(tenant string, tokens int)

	// CallTools is called before n tools are called together.
	CallTools(ctx context.Context, tenant string, n int) error
}

// AdmittingQuota is an optional interface of a [Quota]: it refuses runs before they
// begin.
type AdmittingQuota interface {
	// AdmitRun is called before anything of a run is stored or sent: before the run
	// waits for its thread, and again when it has the thread. It fails if the
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
	n := target.network()
	models := modelsOf(h, n, &Request{})
	return h.admitRun(ctx, tenant, &routing{net: n, models: &models})
}

// admitRun asks the quota whether a run may begin.
func (h *Host) admitRun(ctx context.Context, tenant string, routes *routing) error {
	quota, ok := h.opts.Quota.(AdmittingQuota)
	if !ok {
		return nil
	}
	return quota.AdmitRun(ctx, tenant, routes.firstModel())
}

// admit asks the quota whether the run may begin. A run that another process began
// was admitted then.
func (r *run) admit(ctx context.Context) error {
	if r.resume.run != "" && len(r.resume.answers) == 0 {
		return nil
	}
	return r.host.admitRun(ctx, r.scope.Tenant, &r.routes)
}

// TimeQuota is an optional interface of a [Quota]: it bounds how long a tenant's
// runs take together.
type TimeQuota interface {
	// UseTime books time that a run has taken: before each model call and each
	// batch of tool calls, and at its end. Waiting for a thread or for a turn at a
	// model is not booked. When it is used up, AskModel and CallTools fail. It is
	// called in canceled runs too, and must not wait.
	UseTime(tenant string, d time.Duration)
}

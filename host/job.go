package host

import (
	"context"
	"encoding/json"
	"time"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// Job is work to be done after a turn.
type Job struct {
	ID      string          // given by the queue
	Name    string          // of the handler that does it
	Payload json.RawMessage // for the handler

	// Key has the queue take a job once: a second one of the tenant with the same
	// Name and Key is refused with code already_exists. "" is no key.
	Key string

	// Serial keeps jobs of a tenant apart: two of the same Serial never run at one
	// time, and begin in the order in which they were enqueued, but for retries. ""
	// runs beside anything.
	Serial string

	NotBefore time.Time // zero: as soon as the turn is stored
	Scope     Scope     // of the run that enqueued it; the job is the tenant's
	Attempt   int       // from 1; set for the handler
}

// Enqueuer takes jobs. Implementations are safe for concurrent use; package
// queue has one.
type Enqueuer interface {
	// Enqueue keeps a job and returns its id. When it has returned, the job
	// outlives the process. In a run (ctx is the run's) it begins after the run's
	// turn is stored, and never if that is not; elsewhere it begins at once. Codes:
	// already_exists for a Key that was used before, resource_exhausted for a queue
	// that is full, invalid_argument for an invalid job.
	Enqueue(ctx context.Context, job *Job) (id string, err error)
}

// EnqueueOptions are the optional parts of [Enqueue]: fields of a [Job].
type EnqueueOptions struct {
	Key       string
	Serial    string
	NotBefore time.Time
}

// Enqueue adds a job to be done after the turn of the run that ctx belongs to, in
// the host's queue ([Options].Queue): the handler of that name gets payload as JSON
// and is tried until it succeeds, or is given up. It works in everything that runs
// in a run: tools, routers, hooks, processors, providers. A tool that may be called
// again for one call gives the call's IdempotencyKey as Key. Codes:
// failed_precondition outside of a run and without a queue, invalid_argument for a
// payload that is no JSON, and the queue's own.
func Enqueue(ctx context.Context, name string, payload any, opts *EnqueueOptions) (id string, err error) {
	s, _ := ctx.Value(servicesKey{}).(*services)
	if s == nil {
		return "", Errorf(FailedPrecondition, "leave a job for %q: this is not in a run", name).WithHint("enqueue it in the queue itself")
	}
	if s.queue == nil {
		return "", Errorf(FailedPrecondition, "leave a job for %q: the host has no queue", name).WithHint("give the host the option Queue")
	}
	raw, err := jsondoc.Marshal(payload)
	if err != nil {
		return "", Errorf(InvalidArgument, "leave a job for %q: its payload: %w", name, err)
	}
	job := &Job{Name: name, Payload: raw, Scope: s.scope()}
	if opts != nil {
		job.Key, job.Serial, job.NotBefore = opts.Key, opts.Serial, opts.NotBefore
	}
	return s.queue.Enqueue(ctx, job)
}

// ScopeOf returns the scope of the run that ctx belongs to, without the agent;
// the zero Scope outside of a run.
func ScopeOf(ctx context.Context) Scope {
	if s, _ := ctx.Value(servicesKey{}).(*services); s != nil {
		return s.scope()
	}
	return Scope{}
}

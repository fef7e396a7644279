package plugin

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
)

// The defaults of [QueueOptions].
const (
	DefaultQueueWorkers       = 4
	DefaultQueueJobs          = 10_000
	DefaultQueueOfTenant      = 1_000
	DefaultQueueBytes         = 128 << 20
	DefaultQueueBytesOfTenant = 16 << 20
	DefaultQueueAttempts      = 8
	DefaultQueueFirstRetry    = time.Second
	DefaultQueueLastRetry     = 5 * time.Minute
)

// The idempotency keys that a queue remembers: of a tenant at least this many of
// its last ones, and of no more tenants than that.
const (
	keptJobKeys   = 5_000
	keptKeyOwners = 1_000
)

// QueueOptions bound a [MemoryQueue]. A zero field is its default.
type QueueOptions struct {
	Workers       int           // jobs running at one time (4)
	Jobs          int           // waiting (10,000)
	OfTenant      int           // waiting of one tenant (1,000)
	Bytes         int           // of the payloads of all that wait (128 MiB)
	BytesOfTenant int           // of those of one tenant (16 MiB)
	Attempts      int           // of one job (8)
	FirstRetry    time.Duration // after the first failure; each later one waits twice as long (1 s)
	LastRetry     time.Duration // at most (5 min)
	Logger        *slog.Logger  // told of jobs that are given up; nil discards
}

func (o QueueOptions) withDefaults() QueueOptions {
	for _, f := range []struct {
		v *int
		d int
	}{
		{&o.Workers, DefaultQueueWorkers}, {&o.Jobs, DefaultQueueJobs},
		{&o.OfTenant, DefaultQueueOfTenant}, {&o.Attempts, DefaultQueueAttempts},
		{&o.Bytes, DefaultQueueBytes}, {&o.BytesOfTenant, DefaultQueueBytesOfTenant},
	} {
		if *f.v <= 0 {
			*f.v = f.d
		}
	}
	if o.FirstRetry <= 0 {
		o.FirstRetry = DefaultQueueFirstRetry
	}
	if o.LastRetry <= 0 {
		o.LastRetry = DefaultQueueLastRetry
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// MemoryQueue is a queue in memory: what waits in it is lost when the program
// ends. Tenants share its workers: one alone has half of them, and who has fewer
// goes first. A job whose handler fails is tried again, if its error is one that may
// pass, with twice the wait each time.
type MemoryQueue struct {
	opts   QueueOptions
	run    func(context.Context, *Job) error
	cancel context.CancelFunc
	ctx    context.Context
	slots  *fairSlots
	jobs   sync.WaitGroup

	mu      sync.Mutex
	last    int64
	waiting queued
	tenants map[string]queued
	keys    map[string]*jobKeys // by tenant
	closed  bool
}

// queued is how much waits.
type queued struct{ jobs, bytes int }

func (n queued) add(jobs, bytes int) queued { return queued{n.jobs + jobs, n.bytes + bytes} }

type jobKey struct {
	owner Owner
	key   string
}

// NewMemoryQueue returns a queue whose jobs are run by run, by several
// goroutines at once. Close it.
func NewMemoryQueue(run func(context.Context, *Job) error, opts *QueueOptions) *MemoryQueue {
	if opts == nil {
		opts = &QueueOptions{}
	}
	q := &MemoryQueue{opts: opts.withDefaults(), run: run, tenants: map[string]queued{}, keys: map[string]*jobKeys{}}
	q.slots = newFairSlots(q.opts.Workers)
	q.ctx, q.cancel = context.WithCancel(context.Background())
	return q
}

// Send takes a job; see [Queue].
func (q *MemoryQueue) Send(_ context.Context, job *Job, ready func(func(stored bool))) (string, error) {
	q.mu.Lock()
	id, err := q.take(job)
	q.mu.Unlock()
	if err != nil {
		return "", err
	}
	copied := *job
	copied.ID = id
	ready(func(stored bool) {
		if !stored {
			q.forget(&copied)
			return
		}
		q.begin(&copied)
	})
	return id, nil
}

// take counts a job, if there is room for it. The mutex is held.
func (q *MemoryQueue) take(job *Job) (string, error) {
	key := jobKey{job.Owner, job.IdempotencyKey}
	all, own := q.waiting.add(1, len(job.Payload)), q.tenants[job.Owner.Tenant].add(1, len(job.Payload))
	switch {
	case q.closed:
		return "", errClosed("queue")
	case q.keys[key.owner.Tenant].has(key):
		return "", host.Errorf(host.AlreadyExists, "a job with the key %q was sent before", clean(key.key))
	case all.jobs > q.opts.Jobs, own.jobs > q.opts.OfTenant, all.bytes > q.opts.Bytes, own.bytes > q.opts.BytesOfTenant:
		return "", &host.Error{Code: host.ResourceExhausted, Message: "the queue is full", Retryable: true}
	}
	if key.key != "" {
		q.keysOf(key.owner.Tenant).add(key)
	}
	q.waiting, q.tenants[job.Owner.Tenant] = all, own
	q.last++
	return strconv.FormatInt(q.last, 10), nil
}

// keysOf returns the keys of a tenant. For one more tenant than are kept another
// one's go, one that has no job if there is such a one. The mutex is held.
func (q *MemoryQueue) keysOf(tenant string) *jobKeys {
	k := q.keys[tenant]
	if k != nil {
		return k
	}
	if len(q.keys) >= keptKeyOwners {
		victim := ""
		for t := range q.keys {
			if victim = t; q.tenants[t].jobs == 0 {
				break
			}
		}
		delete(q.keys, victim)
	}
	k = &jobKeys{}
	q.keys[tenant] = k
	return k
}

// forget takes back what take has done, of a turn that was not stored.
func (q *MemoryQueue) forget(job *Job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.keys[job.Owner.Tenant].remove(jobKey{job.Owner, job.IdempotencyKey})
	q.uncount(job)
}

func (q *MemoryQueue) uncount(job *Job) {
	q.waiting = q.waiting.add(-1, -len(job.Payload))
	own := q.tenants[job.Owner.Tenant].add(-1, -len(job.Payload))
	if q.tenants[job.Owner.Tenant] = own; own.jobs == 0 {
		delete(q.tenants, job.Owner.Tenant)
	}
}

// begin has a goroutine wait for the job's time, and run it.
func (q *MemoryQueue) begin(job *Job) {
	q.mu.Lock()
	if q.closed {
		q.uncount(job)
		q.mu.Unlock()
		return
	}
	q.jobs.Add(1)
	q.mu.Unlock()
	go func() {
		defer q.jobs.Done()
		q.work(job)
		q.mu.Lock()
		defer q.mu.Unlock()
		q.uncount(job)
	}()
}

// work tries a job until it is done, given up, or the queue is closed.
func (q *MemoryQueue) work(job *Job) {
	for wait := time.Until(job.NotBefore); q.pause(wait); wait = host.RetryWait(q.opts.FirstRetry, q.opts.LastRetry, job.Attempt-1) {
		err := q.try(job)
		if err == nil || q.ctx.Err() != nil {
			return
		}
		log := q.opts.Logger.With("plugin", job.Owner.Plugin, "tenant", job.Owner.Tenant, "handler", job.Handler, "attempt", job.Attempt, "error", err)
		if job.Attempt >= q.opts.Attempts || !passing(err) {
			log.Error("job given up")
			return
		}
		log.Warn("job failed")
		job.Attempt++
	}
}

func (q *MemoryQueue) try(job *Job) error {
	if err := q.slots.take(q.ctx, job.Owner.Tenant); err != nil {
		return err
	}
	defer q.slots.give(job.Owner.Tenant)
	return q.run(q.ctx, job)
}

// passing reports whether trying again may help: whatever is not the request's
// own fault.
func passing(err error) bool {
	switch host.CodeOf(err) {
	case host.InvalidArgument, host.PermissionDenied, host.Unauthenticated, host.NotFound, host.Unimplemented, host.AlreadyExists:
		return host.AsError(err).Retryable
	}
	return true
}

// pause waits; false if the queue was closed before.
func (q *MemoryQueue) pause(d time.Duration) bool {
	if d <= 0 {
		return q.ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-q.ctx.Done():
		return false
	}
}

// Waiting returns how many jobs wait or run.
func (q *MemoryQueue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting.jobs
}

// Close stops the jobs that run and drops those that wait. It may be called
// twice.
func (q *MemoryQueue) Close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.cancel()
	q.jobs.Wait()
}

var _ Queue = (*MemoryQueue)(nil)

// RunJob runs a job in the plugin of its owner's id, in the version that serves:
// its handler is called as a tool is, with the payload as arguments, and its
// result dropped. Queues call it. Code not_found if there is no such plugin.
func (rt *Runtime) RunJob(ctx context.Context, job *Job) error {
	if slot := rt.Slot(job.Owner.Plugin); slot != nil {
		v, err := slot.at(ctx)
		if err != nil {
			return err
		}
		defer v.leave()
		_, err = guarded(ctx, v, job.Owner.Tenant, func() (struct{}, error) { return struct{}{}, v.plugin.runJob(ctx, job) })
		return err
	}
	p := rt.lastLoaded(job.Owner.Plugin)
	if p == nil {
		return &host.Error{Code: host.NotFound, Message: "no plugin of the job's is loaded", Retryable: true}
	}
	return p.runJob(ctx, job)
}

// lastLoaded returns the plugin of an id that was loaded last.
func (rt *Runtime) lastLoaded(id string) (last *Plugin) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for p := range rt.plugins {
		if p.id == id && (last == nil || p.number > last.number) {
			last = p
		}
	}
	return last
}

func (p *Plugin) runJob(ctx context.Context, job *Job) error {
	info := p.manifest.tool(job.Handler)
	if info == nil {
		return host.Errorf(host.NotFound, "plugin %q has no tool %q", p.id, job.Handler)
	}
	made, err := p.schemas.of(p, info)
	if err != nil {
		return err
	}
	if len(info.Parameters) > 0 {
		if err := made.parameters.ValidateContext(ctx, job.Payload); err != nil {
			return host.Errorf(host.InvalidArgument, "the payload of a job for %q: %w", job.Handler, err)
		}
	}
	call := host.NewCall(job.Handler, job.Payload, nil)
	call.ID, call.Attempt, call.Scope, call.IdempotencyKey = job.ID, job.Attempt, job.Scope, job.IdempotencyKey
	call.Scope.Tenant = job.Owner.Tenant
	if call.IdempotencyKey == "" {
		call.IdempotencyKey = "job/" + job.ID
	}
	handle, err := p.toolHandler(info, "", nil)
	if err != nil {
		return err
	}
	_, err = handle(ctx, call)
	return err
}

package queue

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/retry"
	"github.com/agenthost/agenthost/host/kv"
)

// dispatcher runs due jobs: it alone begins them.
type dispatcher struct {
	life     *lifetime
	schedule *schedule
	claims   *claims
	attempts int           // of one job
	timeout  time.Duration // of one attempt
	pause    time.Duration // after a failure of the store
	logger   *slog.Logger
	stopped  chan struct{} // closed when run has ended

	mu       sync.Mutex
	handlers map[string]Handler
}

func (d *dispatcher) handle(name string, fn Handler) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.handlers[name] = fn
}

// run begins jobs until the queue is closed.
func (d *dispatcher) run() {
	defer close(d.stopped)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for !d.life.over() {
		wait, waits := d.beginAll()
		if !waits {
			wait = time.Hour // schedule.wake comes before that
		}
		timer.Reset(wait)
		select {
		case <-d.schedule.wake:
		case <-timer.C:
		case <-d.life.ctx.Done():
		}
	}
}

// beginAll begins every job that can begin, and returns how long there will be no
// other, if that is known.
func (d *dispatcher) beginAll() (wait time.Duration, waits bool) {
	for !d.life.over() {
		t, at := d.schedule.nextTenant()
		if t == nil {
			return time.Until(at), !at.IsZero()
		}
		if job := d.findJob(t); job != nil {
			d.begin(t, job)
		}
	}
	return 0, true
}

// findJob returns a tenant's next job, with a worker for it; nil if no job can run
// now.
func (d *dispatcher) findJob(t *tenant) *waitingJob {
	limit := d.schedule.beginSearch(t)
	page, err := d.schedule.store.driver.Scan(d.life.ctx, t.name, kv.Range{Prefix: dueKeys, Limit: limit})
	if err != nil {
		if !d.life.over() {
			d.logger.Error("jobs cannot be read", "tenant", t.name, "error", err)
		}
		d.schedule.failSearch(t, time.Now().Add(d.pause))
		return nil
	}
	return d.schedule.endSearch(t, page.Entries)
}

// begin runs a job in a goroutine that Close waits for.
func (d *dispatcher) begin(t *tenant, w *waitingJob) {
	d.life.goroutines.Go(func() {
		d.schedule.finish(t, w.id, d.work(t, w))
	})
}

// work claims a job and runs it once. It returns what the queue no longer has: the job,
// if it is over, or nothing.
func (d *dispatcher) work(t *tenant, w *waitingJob) (gone amount) {
	c, err := d.claims.claim(t, w)
	if unreadable(err) {
		d.logger.Error("job cannot be read, and stays", "tenant", t.name, "job", w.id, "error", err)
		d.schedule.park(t, w.id)
		return amount{}
	}
	if err != nil {
		if !d.life.over() && !errors.Is(err, kv.ErrPrecondition) {
			d.logger.Error("job cannot be taken", "tenant", t.name, "job", w.id, "error", err)
			retry.Sleep(d.life.ctx, d.pause) // a store that fails is not asked again at once
		}
		return amount{}
	}
	if c == nil {
		return amount{}
	}
	if c.record.Attempts > d.attempts {
		c.giveUp(fault.Disclose(host.Errorf(host.Internal, "its process ended while it ran, or it was given up before: %d attempts", d.attempts)))
		return amount{}
	}
	failure := c.run(d.call)
	switch {
	case failure != nil && d.life.over():
		c.giveBack()
		return amount{}
	case failure == nil:
		return c.done()
	}
	log := d.logger.With("tenant", t.name, "name", c.record.Name, "job", w.id, "attempt", c.record.Attempts, "error", failure)
	if c.record.Attempts >= d.attempts || !passing(failure) {
		log.Error("job given up")
		c.giveUp(failure)
		return amount{}
	}
	log.Warn("job failed")
	c.later(failure)
	return amount{}
}

// call calls the handler of a job. A panic is its failure.
func (d *dispatcher) call(ctx context.Context, job *host.Job) (err error) {
	d.mu.Lock()
	handle := d.handlers[job.Name]
	d.mu.Unlock()
	if handle == nil {
		return &host.Error{Code: host.NotFound, Message: "no handler is registered for jobs of the name " + quoted(job.Name), Retryable: true}
	}
	defer func() {
		if p := recover(); p != nil {
			d.logger.ErrorContext(ctx, "panic in a job", "job", job.ID, "name", job.Name, "panic", p, "stack", string(debug.Stack()))
			err = host.Errorf(host.Internal, "the handler panicked") // its text is in the log
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	return handle(ctx, job)
}

// passing reports whether trying again may help: it does not if the job itself is
// wrong.
func passing(err error) bool {
	switch host.CodeOf(err) {
	case host.InvalidArgument, host.PermissionDenied, host.Unauthenticated, host.NotFound, host.Unimplemented, host.AlreadyExists:
		return fault.AsError(err).Retryable
	}
	return true
}

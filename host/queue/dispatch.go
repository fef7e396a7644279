package queue

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// lookAhead is how many jobs of a tenant are looked at beyond those that run, for
// one whose serial is free.
const lookAhead = 100

// dispatch hands out jobs until the queue is closed. It alone begins them.
func (q *Queue) dispatch() {
	defer close(q.stopped)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for q.ctx.Err() == nil {
		wait, waits := q.handOut()
		if !waits {
			wait = time.Hour // somebody pokes
		}
		timer.Reset(wait)
		select {
		case <-q.wake:
		case <-timer.C:
		case <-q.ctx.Done():
		}
	}
}

// handOut begins what can begin, and returns how long there is nothing more to
// begin, if that is known.
func (q *Queue) handOut() (wait time.Duration, waits bool) {
	for q.ctx.Err() == nil {
		t, at := q.turn()
		if t == nil {
			return time.Until(at), !at.IsZero()
		}
		if job := q.find(t); job != nil {
			q.begin(t, job)
		}
	}
	return 0, true
}

// turn returns the tenant whose turn it is: of those that have something due and
// are at work on less than what is free, the one that is at work on the least,
// and among equals who was served the longest ago. A nil tenant comes with when
// there is something next.
func (q *Queue) turn() (best *tenant, at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	for _, t := range q.tenants {
		switch {
		case t.next.IsZero():
		case t.next.After(now):
			if at.IsZero() || t.next.Before(at) {
				at = t.next
			}
		case len(t.running) >= q.free: // somebody who ends pokes
		case best == nil, len(t.running) < len(best.running), len(t.running) == len(best.running) && t.served < best.served:
			best = t
		}
	}
	if best != nil {
		q.served++
		best.served = q.served
	}
	return best, at
}

// waitingJob is a job's entry among those that are due.
type waitingJob struct {
	id, serial string
	key        kv.Key
	revision   uint64 // of the entry
}

// find returns a tenant's next job; nil if there is none, and then it is known
// when to look again.
func (q *Queue) find(t *tenant) *waitingJob {
	q.mu.Lock()
	t.looking = true
	t.next = time.Time{} // whoever leaves a job meanwhile sets it
	limit := min(len(t.running)+len(t.parked)+lookAhead, kv.MaxScanLimit)
	q.mu.Unlock()
	page, err := q.driver.Scan(q.ctx, t.name, kv.Range{Prefix: dueKeys, Limit: limit})
	q.mu.Lock()
	defer q.mu.Unlock()
	defer q.settled()
	t.looking = false
	if err != nil {
		if q.ctx.Err() == nil {
			q.opts.Logger.Error("jobs cannot be read", "tenant", t.name, "error", err)
		}
		t.lookAt(time.Now().Add(q.opts.FirstRetry))
		return nil
	}
	serials := map[string]bool{}
	for _, serial := range t.running {
		serials[serial] = serial != ""
	}
	now := time.Now()
	for _, e := range page.Entries {
		at, rest, _ := cutTimed(e.Key, dueKeys)
		id, _, ok := rest.CutString()
		if !ok {
			continue // not ours
		}
		if _, runs := t.running[id]; runs || t.parked[id] {
			continue
		}
		if at.After(now) {
			t.lookAt(at)
			return nil
		}
		serial := string(e.Value)
		if serials[serial] {
			continue
		}
		t.running[id] = serial
		t.lookAt(now) // there may be more
		q.free--
		return &waitingJob{id, serial, e.Key, e.Revision}
	}
	return nil // who ends sets next
}

// lookAt has a tenant looked at no later than that. Queue.mu is held.
func (t *tenant) lookAt(at time.Time) {
	if t.next.IsZero() || at.Before(t.next) {
		t.next = at
	}
}

// begin runs a job in a goroutine that Close waits for.
func (q *Queue) begin(t *tenant, w *waitingJob) {
	q.workers.Add(1)
	go func() {
		defer q.workers.Done()
		over := q.work(t, w)
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(t.running, w.id)
		q.free++
		if over {
			t.jobs--
		}
		t.lookAt(time.Now())
		q.settled()
		q.poke()
	}()
}

// work takes a job and runs it once. It reports whether the job is over.
func (q *Queue) work(t *tenant, w *waitingJob) (over bool) {
	c, err := q.claim(t, w)
	if unreadable(err) {
		q.opts.Logger.Error("job cannot be read, and stays", "tenant", t.name, "job", w.id, "error", err)
		q.mu.Lock()
		t.parked[w.id] = true
		q.mu.Unlock()
		return false
	}
	if err != nil {
		if q.ctx.Err() == nil && !errors.Is(err, kv.ErrPrecondition) {
			q.opts.Logger.Error("job cannot be taken", "tenant", t.name, "job", w.id, "error", err)
			pause(q.ctx, q.opts.FirstRetry) // of a store that fails, not much can be asked
		}
		return false
	}
	if c == nil {
		return false
	}
	if c.record.Attempts > q.opts.Attempts {
		return c.bury(host.Errorf(host.Internal, "its process ended while it ran, or it was given up before: %d attempts", q.opts.Attempts))
	}
	failure := c.run()
	switch {
	case failure != nil && q.ctx.Err() != nil:
		return c.giveBack()
	case failure == nil:
		return c.done()
	}
	log := q.opts.Logger.With("tenant", t.name, "name", c.record.Name, "job", w.id, "attempt", c.record.Attempts, "error", failure)
	if c.record.Attempts >= q.opts.Attempts || !passing(failure) {
		log.Error("job given up")
		return c.bury(failure)
	}
	log.Warn("job failed")
	return c.later(failure)
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

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// claimed is a job that this process has taken. Nobody else takes it before the
// lease ends, and what it writes is refused if somebody has.
type claimed struct {
	q        *Queue
	t        *tenant
	record   *record
	due      kv.Key
	revision uint64
}

// claim takes a job: from here on its attempt counts, whatever happens. A nil
// one is no longer what the dispatcher has seen.
func (q *Queue) claim(t *tenant, w *waitingJob) (*claimed, error) {
	r, revision, err := q.load(q.ctx, t.name, w.id)
	if err != nil {
		return nil, err
	}
	if r == nil || dueKey(r.Due, r.ID) != w.key { // the entry has gone since it was seen, or belongs to nothing
		_, err := kv.Apply(q.ctx, q.driver, kv.Tx{Partition: t.name, Conds: []kv.Cond{kv.AtRevision(w.key, w.revision)}, Writes: []kv.Write{kv.Delete(w.key)}})
		return nil, err
	}
	r.Attempts++
	r.Running = true
	c := &claimed{q: q, t: t, record: r, due: w.key, revision: revision}
	return c, c.put(q.ctx, time.Now().Add(q.opts.Lease))
}

// put writes the record, with when it is due.
func (c *claimed) put(ctx context.Context, due time.Time) error {
	c.record.Due = due.UTC()
	raw, err := c.record.encode()
	if err != nil {
		return err
	}
	next := dueKey(due, c.record.ID)
	tx := kv.Tx{Partition: c.t.name, Conds: c.conds(), Writes: []kv.Write{kv.Put(jobKey(c.record.ID), raw), kv.Put(next, []byte(c.record.Serial))}}
	if next != c.due {
		tx.Writes = append(tx.Writes, kv.Delete(c.due))
	}
	revision, err := kv.Apply(ctx, c.q.driver, tx)
	if err == nil {
		c.due, c.revision = next, revision
	}
	return err
}

func (c *claimed) conds() []kv.Cond {
	return []kv.Cond{kv.AtRevision(jobKey(c.record.ID), c.revision)}
}

// renewals is how often a lease is renewed before it would end.
const renewals = 3

// run calls the handler and holds the job meanwhile.
func (c *claimed) run() error {
	ctx, cancel := context.WithCancelCause(c.q.ctx)
	defer cancel(nil)
	result := make(chan error, 1)
	go func() { result <- c.q.call(ctx, c.record.job()) }()
	tick := time.NewTicker(c.q.opts.Lease / renewals)
	defer tick.Stop()
	for {
		select {
		case err := <-result:
			return err
		case <-tick.C:
			if err := c.put(c.q.ctx, time.Now().Add(c.q.opts.Lease)); errors.Is(err, kv.ErrPrecondition) {
				cancel(host.Errorf(host.Conflict, "somebody else has taken the job"))
			}
		}
	}
}

// commitTimeout bounds what is written of a job when it has run.
const commitTimeout = 30 * time.Second

// end writes what became of the job. It has time of its own: what was done is
// written down also when the queue is closed.
func (c *claimed) end(over bool, write func(ctx context.Context) error) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.q.ctx), commitTimeout)
	defer cancel()
	if err := write(ctx); err != nil {
		c.q.opts.Logger.Error("what became of a job is not written down: it runs again", "tenant", c.t.name, "job", c.record.ID, "error", err)
		return false
	}
	return over
}

func (c *claimed) done() bool {
	return c.end(true, func(ctx context.Context) error {
		_, err := kv.Apply(ctx, c.q.driver, kv.Tx{Partition: c.t.name, Conds: c.conds(),
			Writes: []kv.Write{kv.Delete(jobKey(c.record.ID)), kv.Delete(c.due)}})
		return err
	})
}

func (c *claimed) later(failure error) bool {
	return c.end(false, func(ctx context.Context) error {
		c.record.Running, c.record.Error = false, storedError(failure)
		return c.put(ctx, time.Now().Add(c.q.backoff(c.record.Attempts)))
	})
}

// giveBack leaves a job that was stopped as if it had not begun.
func (c *claimed) giveBack() bool {
	return c.end(false, func(ctx context.Context) error {
		c.record.Running = false
		c.record.Attempts--
		return c.put(ctx, time.Now())
	})
}

func (c *claimed) bury(failure error) bool {
	return c.end(false, func(ctx context.Context) error { // bury counts
		return c.q.bury(ctx, c.t, c.record, failure, kv.Tx{Partition: c.t.name, Conds: c.conds(), Writes: []kv.Write{kv.Delete(c.due)}})
	})
}

// backoff is how long to wait after so many failures: within a quarter more, so
// that what failed together does not come back together.
func (q *Queue) backoff(failures int) time.Duration {
	d := q.opts.FirstRetry
	for range failures - 1 {
		if d *= 2; d >= q.opts.LastRetry {
			d = q.opts.LastRetry
			break
		}
	}
	return d + rand.N(d/4+1)
}

// bury has a job dead: tx takes it from where it was.
func (q *Queue) bury(ctx context.Context, t *tenant, r *record, failure error, tx kv.Tx) error {
	r.Running, r.Died, r.Error = false, time.Now().UTC(), storedError(failure)
	raw, err := r.encode()
	if err != nil {
		return err
	}
	tx.Writes = append(tx.Writes, kv.Put(jobKey(r.ID), raw), kv.Put(deadKey(r.Died, r.ID), nil))
	if _, err := kv.Apply(ctx, q.driver, tx); err != nil {
		return kverror.Wrap(err, "give up job %q", r.ID)
	}
	q.leave(t)
	if err := q.thin(ctx, t); err != nil {
		q.opts.Logger.Warn("dead jobs are not thinned out", "tenant", t.name, "error", err)
	}
	return nil
}

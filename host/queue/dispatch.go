package queue

import (
	"context"
	"errors"
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
		if serials[serial] || t.leftToOthers(id, serial, now) {
			continue
		}
		t.running[id] = serial
		t.lookAt(now) // there may be more
		q.free--
		return &waitingJob{id, serial, e.Key, e.Revision}
	}
	return nil // who ends sets next
}

// leftToOthers reports whether a job, or another of its serial, is another
// process's for now. Queue.mu is held.
func (t *tenant) leftToOthers(id, serial string, now time.Time) bool {
	until := t.others[id].until
	if at := t.blocked[serial]; at.After(until) {
		until = at
	}
	if !until.After(now) {
		delete(t.blocked, serial)
		return false
	}
	t.lookAt(until)
	return true
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
			t.jobs = max(t.jobs-1, 0) // others may have counted as well
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
		return c.bury(host.Disclose(host.Errorf(host.Internal, "its process ended while it ran, or it was given up before: %d attempts", q.opts.Attempts)))
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

// bury has a job dead: tx takes it from where it was.
func (q *Queue) bury(ctx context.Context, t *tenant, r *record, failure error, tx kv.Tx) error {
	r.rest()
	r.Died, r.Error = time.Now().UTC(), r.storedError(failure)
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

package queue

import (
	"context"
	"errors"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// claimed is a job that this process has taken. Nobody else takes it before the
// lease ends, and what it writes is refused if somebody has.
type claimed struct {
	q        *Queue
	t        *tenant
	record   *record
	due      kv.Key
	revision uint64
	serial   uint64 // revision of the entry which says that its serial runs; 0: it has none
}

// claim takes a job: from here on its attempt counts, whatever happens. A nil
// one is no longer what the dispatcher has seen, or is another process's.
func (q *Queue) claim(t *tenant, w *waitingJob) (*claimed, error) {
	r, revision, err := q.load(q.ctx, t.name, w.id)
	if err != nil {
		return nil, err
	}
	if r == nil || dueKey(r.Due, r.ID) != w.key { // the entry has gone since it was seen, or belongs to nothing
		_, err := kv.Apply(q.ctx, q.driver, kv.Tx{Partition: t.name, Conds: []kv.Cond{kv.AtRevision(w.key, w.revision)}, Writes: []kv.Write{kv.Delete(w.key)}})
		return nil, err
	}
	if q.isOthers(t, r, revision) {
		return nil, nil
	}
	r.Attempts++
	r.Running, r.Holder = true, q.id
	c := &claimed{q: q, t: t, record: r, due: w.key, revision: revision}
	tx := kv.Tx{Partition: t.name, Conds: c.conds()}
	if r.Serial != "" {
		free, err := q.takeSerial(q.ctx, t, r, &tx)
		if err != nil || !free {
			return nil, err
		}
	}
	if err := c.put(q.ctx, time.Now().Add(q.opts.Lease), tx); err != nil {
		return nil, err
	}
	if r.Serial != "" {
		c.serial = c.revision
	}
	return c, nil
}

// isOthers reports whether a job is of a process that lives, although its lease is
// over: it has a lease's time to hold on to the job.
func (q *Queue) isOthers(t *tenant, r *record, revision uint64) bool {
	held := r.Running && q.lives(r.Holder)
	q.mu.Lock()
	defer q.mu.Unlock()
	o, seen := t.others[r.ID]
	switch {
	case !held, seen && o.revision == revision && !o.until.After(time.Now()):
		delete(t.others, r.ID)
		return false
	case !seen || o.revision != revision:
		t.others[r.ID] = othersJob{revision, time.Now().Add(q.opts.Lease)}
	}
	return true
}

// serialPoll is how soon it is looked again whether a serial of which another
// process runs a job is free. That process goes on with the serial at once.
const serialPoll = time.Second

// takeSerial adds to tx that a job runs of its serial, unless another process runs
// one.
func (q *Queue) takeSerial(ctx context.Context, t *tenant, r *record, tx *kv.Tx) (free bool, err error) {
	key := serialKey(r.Serial)
	e, err := q.driver.Get(ctx, t.name, key)
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		return false, kverror.Wrap(err, "look for jobs of a serial")
	}
	if err == nil && string(e.Value) != r.ID {
		other, _, err := q.load(ctx, t.name, string(e.Value))
		if err != nil && !unreadable(err) {
			return false, err
		}
		if err == nil && other != nil && other.Running && (other.Due.After(time.Now()) || q.lives(other.Holder)) {
			q.mu.Lock()
			defer q.mu.Unlock()
			t.blocked[r.Serial] = time.Now().Add(serialPoll)
			return false, nil
		}
	}
	tx.Conds = append(tx.Conds, kv.AtRevision(key, e.Revision))
	tx.Writes = append(tx.Writes, kv.Put(key, []byte(r.ID)))
	return true, nil
}

// put adds the record and when it is due to a Tx, and commits it.
func (c *claimed) put(ctx context.Context, due time.Time, tx kv.Tx) error {
	c.record.Due = due.UTC()
	raw, err := c.record.encode()
	if err != nil {
		return err
	}
	next := dueKey(due, c.record.ID)
	tx.Writes = append(tx.Writes, kv.Put(jobKey(c.record.ID), raw), kv.Put(next, []byte(c.record.Serial)))
	if next != c.due {
		tx.Writes = append(tx.Writes, kv.Delete(c.due))
	}
	revision, err := kv.Apply(ctx, c.q.driver, tx)
	if err == nil {
		c.due, c.revision = next, revision
	}
	return err
}

// conds hold while nobody else has taken the job or its serial.
func (c *claimed) conds() []kv.Cond {
	conds := []kv.Cond{kv.AtRevision(jobKey(c.record.ID), c.revision)}
	if c.serial > 0 {
		conds = append(conds, kv.AtRevision(serialKey(c.record.Serial), c.serial))
	}
	return conds
}

// leaving is a Tx of a job that runs no more.
func (c *claimed) leaving(writes ...kv.Write) kv.Tx {
	if c.serial > 0 {
		writes = append(writes, kv.Delete(serialKey(c.record.Serial)))
	}
	return kv.Tx{Partition: c.t.name, Conds: c.conds(), Writes: writes}
}

// renewals is how often a lease is renewed before it would end.
const renewals = 3

// run calls the handler and holds the job meanwhile. A handler whose job cannot be
// held is told to stop before another takes it: a while before the lease is over, or
// when it is if the store says nothing at all.
func (c *claimed) run() error {
	ctx, cancel := context.WithCancelCause(c.q.ctx)
	defer cancel(nil)
	result := make(chan error, 1)
	go func() { result <- c.q.call(ctx, c.record.job()) }()
	tick := time.NewTicker(c.q.opts.Lease / renewals)
	defer tick.Stop()
	held := time.Now()
	for {
		select {
		case err := <-result:
			return err
		case <-tick.C:
			err := c.renew(held)
			if err == nil {
				held = time.Now()
			}
			if errors.Is(err, kv.ErrPrecondition) || time.Since(held) >= c.q.opts.Lease-c.q.opts.Lease/renewals {
				cancel(host.Errorf(host.Conflict, "somebody else has taken the job"))
			}
		}
	}
}

// renew waits no longer than until the lease is over that it had last.
func (c *claimed) renew(held time.Time) error {
	most := max(time.Until(held.Add(c.q.opts.Lease)), c.q.opts.Lease/renewals) // a process that was stopped tries, too
	ctx, cancel := context.WithTimeout(c.q.ctx, most)
	defer cancel()
	return c.put(ctx, time.Now().Add(c.q.opts.Lease), kv.Tx{Partition: c.t.name, Conds: c.conds()})
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
		_, err := kv.Apply(ctx, c.q.driver, c.leaving(kv.Delete(jobKey(c.record.ID)), kv.Delete(c.due)))
		return err
	})
}

func (c *claimed) later(failure error) bool {
	return c.end(false, func(ctx context.Context) error {
		c.record.rest()
		c.record.Error = c.record.storedError(failure)
		return c.put(ctx, time.Now().Add(host.RetryWait(c.q.opts.FirstRetry, c.q.opts.LastRetry, c.record.Attempts)), c.leaving())
	})
}

// giveBack leaves a job that was stopped as if it had not begun.
func (c *claimed) giveBack() bool {
	return c.end(false, func(ctx context.Context) error {
		c.record.rest()
		c.record.Attempts--
		return c.put(ctx, time.Now(), c.leaving())
	})
}

func (c *claimed) bury(failure error) bool {
	return c.end(false, func(ctx context.Context) error { // bury counts
		return c.q.bury(ctx, c.t, c.record, failure, c.leaving(kv.Delete(c.due)))
	})
}

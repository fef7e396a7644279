package queue

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/cluster"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/internal/retry"
	"github.com/agenthost/agenthost/host/kv"
)

// claims takes due jobs for this process, so that no other one runs them.
type claims struct {
	store    *jobStore
	life     *lifetime
	schedule *schedule
	holders  *cluster.Member
	dead     *deadLetters
	lease    time.Duration
	backoff  retry.Backoff // after a failure
	logger   *slog.Logger
}

// claimed is a job that this process has taken. No other process takes it before the
// lease ends; if one has, the writes of this one are refused.
type claimed struct {
	by       *claims
	t        *tenant
	record   *record
	due      kv.Key
	revision uint64
	serial   uint64 // revision of the entry which says that a job of its serial runs; 0: it has none
}

// claim takes a job: its attempt counts from here on, in any case. nil means that
// the job is no longer due, or that another process has it.
func (c *claims) claim(t *tenant, w *waitingJob) (*claimed, error) {
	ctx := c.life.ctx
	r, revision, err := c.store.load(ctx, t.name, w.id)
	if err != nil {
		return nil, err
	}
	if r == nil || dueKey(r.Due, r.ID) != w.key { // the entry has gone since it was read, or belongs to no job
		_, err := kv.Apply(ctx, c.store.driver, kv.Tx{Partition: t.name, Conds: []kv.Cond{kv.AtRevision(w.key, w.revision)}, Writes: []kv.Write{kv.Delete(w.key)}})
		return nil, err
	}
	if !c.schedule.mayClaim(t, r.ID, revision, r.Running && c.holders.Lives(r.Holder), c.lease) {
		return nil, nil
	}
	r.Attempts++
	r.Running, r.Holder = true, c.holders.ID()
	job := &claimed{by: c, t: t, record: r, due: w.key, revision: revision}
	tx := kv.Tx{Partition: t.name, Conds: job.conds()}
	if r.Serial != "" {
		free, err := c.takeSerial(ctx, t, r, &tx)
		if err != nil || !free {
			return nil, err
		}
	}
	if err := job.put(ctx, time.Now().Add(c.lease), tx); err != nil {
		return nil, err
	}
	if r.Serial != "" {
		job.serial = job.revision
	}
	return job, nil
}

// serialPoll is the wait before a retry of a serial while one of its jobs is claimed.
// The process that runs that job continues with the serial at once.
const serialPoll = time.Second

// takeSerial adds to tx that a job of its serial runs, unless another process runs one.
func (c *claims) takeSerial(ctx context.Context, t *tenant, r *record, tx *kv.Tx) (free bool, err error) {
	key := serialKey(r.Serial)
	e, err := c.store.driver.Get(ctx, t.name, key)
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		return false, kverror.Wrap(err, "look for jobs of a serial")
	}
	if err == nil && string(e.Value) != r.ID {
		other, _, err := c.store.load(ctx, t.name, string(e.Value))
		if err != nil && !unreadable(err) {
			return false, err
		}
		if err == nil && other != nil && other.Running && (other.Due.After(time.Now()) || c.holders.Lives(other.Holder)) {
			c.schedule.blockSerial(t, r.Serial, other.ID, time.Now().Add(serialPoll))
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
	tx.Writes = append(tx.Writes, kv.Put(jobKey(c.record.ID), raw), kv.Put(next, c.record.place(c.record.Serial)))
	if next != c.due {
		tx.Writes = append(tx.Writes, kv.Delete(c.due))
	}
	revision, err := kv.Apply(ctx, c.by.store.driver, tx)
	if err == nil {
		c.due, c.revision = next, revision
	}
	return err
}

// conds hold while no other process has taken the job or its serial.
func (c *claimed) conds() []kv.Cond {
	conds := []kv.Cond{kv.AtRevision(jobKey(c.record.ID), c.revision)}
	if c.serial > 0 {
		conds = append(conds, kv.AtRevision(serialKey(c.record.Serial), c.serial))
	}
	return conds
}

// release is a Tx of a job that runs no longer.
func (c *claimed) release(writes ...kv.Write) kv.Tx {
	if c.serial > 0 {
		writes = append(writes, kv.Delete(serialKey(c.record.Serial)))
	}
	return kv.Tx{Partition: c.t.name, Conds: c.conds(), Writes: writes}
}

// renewals is how often a lease is renewed before it would end.
const renewals = 3

// run calls handle and renews the lease meanwhile. The context of a handler whose lease
// cannot be renewed ends before another process takes the job: some time before the
// lease is over, or at its end if the store does not answer.
func (c *claimed) run(handle Handler) error {
	ctx, cancel := context.WithCancelCause(c.by.life.ctx)
	defer cancel(nil)
	result := make(chan error, 1)
	go func() { result <- handle(ctx, c.record.job()) }()
	tick := time.NewTicker(c.by.lease / renewals)
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
			if errors.Is(err, kv.ErrPrecondition) || time.Since(held) >= c.by.lease-c.by.lease/renewals {
				cancel(host.Errorf(host.Conflict, "somebody else has taken the job"))
			}
		}
	}
}

// renew extends the lease. It ends at the latest with the lease that began at held.
func (c *claimed) renew(held time.Time) error {
	most := max(time.Until(held.Add(c.by.lease)), c.by.lease/renewals) // a process that was suspended tries, too
	ctx, cancel := context.WithTimeout(c.by.life.ctx, most)
	defer cancel()
	return c.put(ctx, time.Now().Add(c.by.lease), kv.Tx{Partition: c.t.name, Conds: c.conds()})
}

// commitTimeout bounds the commit of a job's outcome.
const commitTimeout = 30 * time.Second

// end commits the outcome of the job, with a deadline of its own: the outcome is also
// written when the queue is closed.
func (c *claimed) end(write func(ctx context.Context) error) (ok bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.by.life.ctx), commitTimeout)
	defer cancel()
	if err := write(ctx); err != nil {
		c.by.logger.ErrorContext(ctx, "what became of a job is not written down: it runs again", "tenant", c.t.name, "job", c.record.ID, "error", err)
		return false
	}
	return true
}

// done removes a job that succeeded, and returns what the queue no longer has.
func (c *claimed) done() (gone amount) {
	ok := c.end(func(ctx context.Context) error {
		_, err := kv.Apply(ctx, c.by.store.driver, c.release(kv.Delete(jobKey(c.record.ID)), kv.Delete(c.due)))
		return err
	})
	if !ok {
		return amount{}
	}
	return c.record.amount()
}

// later lets a job that failed run again after a wait.
func (c *claimed) later(failure error) {
	c.end(func(ctx context.Context) error {
		c.record.clearHolder()
		c.record.Error = c.record.storedError(failure)
		return c.put(ctx, time.Now().Add(c.by.backoff.Wait(c.record.Attempts)), c.release())
	})
}

// giveBack restores a job that Close has stopped, as if it had not begun.
func (c *claimed) giveBack() {
	c.end(func(ctx context.Context) error {
		c.record.clearHolder()
		c.record.Attempts--
		return c.put(ctx, time.Now(), c.release())
	})
}

// giveUp makes the job a dead letter. The dead letters count it.
func (c *claimed) giveUp(failure error) {
	c.end(func(ctx context.Context) error {
		return c.by.dead.add(ctx, c.t, c.record, failure, c.release(kv.Delete(c.due)))
	})
}

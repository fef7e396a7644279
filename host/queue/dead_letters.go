package queue

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// DeadJob is a job that was given up: a dead letter.
type DeadJob struct {
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Key      string          `json:"key,omitempty"`
	Payload  json.RawMessage `json:"payload"`
	Scope    host.Scope      `json:"scope"` // of its enqueuer
	Left     time.Time       `json:"left"`
	Died     time.Time       `json:"died"`
	Attempts int             `json:"attempts"`
	Error    *host.Error     `json:"error"` // of the last attempt
}

// deadLetters keeps the jobs that were given up, a bounded number for each tenant.
type deadLetters struct {
	store    *jobStore
	schedule *schedule
	max      int // of one tenant
	logger   *slog.Logger
}

// add makes a job a dead letter: tx takes it from where it was.
func (d *deadLetters) add(ctx context.Context, t *tenant, r *record, failure error, tx kv.Tx) error {
	r.clearHolder()
	r.Died, r.Error = time.Now().UTC(), r.storedError(failure)
	raw, err := r.encode()
	if err != nil {
		return err
	}
	tx.Writes = append(tx.Writes, kv.Put(jobKey(r.ID), raw), kv.Put(deadKey(r.Died, r.ID), nil))
	if _, err := kv.Apply(ctx, d.store.driver, tx); err != nil {
		return kverror.Wrap(err, "give up job %q", r.ID)
	}
	d.schedule.countGone(t, r.amount())
	if err := d.dropOldest(ctx, t); err != nil {
		d.logger.WarnContext(ctx, "dead jobs are not thinned out", "tenant", t.name, "error", err)
	}
	return nil
}

// dropOldest drops the oldest dead letters of a tenant that are over the limit.
func (d *deadLetters) dropOldest(ctx context.Context, t *tenant) error {
	n := 0
	for e, err := range kv.All(ctx, d.store.driver, t.name, kv.Range{Prefix: deadKeys, Reverse: true, Limit: min(d.max+1, kv.MaxScanLimit)}) {
		if err != nil {
			return kverror.Wrap(err, "thin out dead jobs")
		}
		if n++; n <= d.max {
			continue
		}
		_, rest, _ := cutTimed(e.Key, deadKeys)
		id, _, _ := rest.CutString()
		if _, err := kv.Apply(ctx, d.store.driver, kv.Tx{Partition: t.name, Writes: []kv.Write{kv.Delete(e.Key), kv.Delete(jobKey(id))}}); err != nil {
			return kverror.Wrap(err, "thin out dead jobs")
		}
		d.logger.WarnContext(ctx, "a dead job was dropped for a newer one", "tenant", t.name, "job", id)
	}
	return nil
}

// Retry runs a dead job again, as if it had just been added. Code not_found if the
// tenant has no such dead job, resource_exhausted as of [Queue.Enqueue].
func (q *Queue) Retry(ctx context.Context, tenant, id string) error {
	t, err := q.schedule.tenantNamed(ctx, tenant)
	if err != nil {
		return err
	}
	r, _, err := q.store.load(ctx, t.name, id)
	switch {
	case err != nil:
		return err
	case r == nil:
		return noDead(id)
	}
	if err := q.schedule.countNew(t, r.amount()); err != nil {
		return err
	}
	if err := q.dead.revive(ctx, t, id); err != nil {
		q.schedule.countGone(t, r.amount())
		return err
	}
	return nil
}

// revive makes a dead letter a job again, which is counted already.
func (d *deadLetters) revive(ctx context.Context, t *tenant, id string) error {
	due := time.Now().UTC()
	err := d.take(ctx, t, id, func(r *record) ([]kv.Write, error) {
		r.Attempts, r.Due, r.Died, r.Error = 0, due, time.Time{}, nil
		raw, err := r.encode()
		return []kv.Write{kv.Put(jobKey(id), raw), kv.Put(dueKey(due, id), r.place(r.Serial))}, err
	})
	if err != nil {
		return err
	}
	d.schedule.announce(ctx, t, due)
	return nil
}

// Drop forgets a dead job. Code not_found if the tenant has no such dead job.
func (q *Queue) Drop(ctx context.Context, tenant, id string) error {
	t, err := q.schedule.tenantNamed(ctx, tenant)
	if err != nil {
		return err
	}
	return q.dead.take(ctx, t, id, func(*record) ([]kv.Write, error) { return []kv.Write{kv.Delete(jobKey(id))}, nil })
}

// take removes a dead letter and commits the writes that replace it.
func (d *deadLetters) take(ctx context.Context, t *tenant, id string, writes func(*record) ([]kv.Write, error)) error {
	r, revision, err := d.store.load(ctx, t.name, id)
	if err != nil {
		return err
	}
	if r == nil || r.Died.IsZero() {
		return noDead(id)
	}
	died := r.Died
	w, err := writes(r)
	if err != nil {
		return err
	}
	_, err = kv.Apply(ctx, d.store.driver, kv.Tx{Partition: t.name, Conds: []kv.Cond{kv.AtRevision(jobKey(id), revision)},
		Writes: append(w, kv.Delete(deadKey(died, id)))})
	if errors.Is(err, kv.ErrPrecondition) {
		return noDead(id)
	}
	return kverror.Wrap(err, "change dead job %q", id)
}

func noDead(id string) error {
	return host.Errorf(host.NotFound, "there is no dead job %q", id).WithHint("list the dead jobs for their ids")
}

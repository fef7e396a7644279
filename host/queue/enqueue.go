package queue

import (
	"context"
	"errors"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// maxKeyAttempts is how often a job with a key is written when others write the
// key at the same time.
const maxKeyAttempts = 10

// forgottenAtOnce is how many keys that are over a job with a key removes.
const forgottenAtOnce = 4

// Enqueue implements [host.Enqueuer]. The payload is JSON; none is null.
func (q *Queue) Enqueue(ctx context.Context, job *host.Job) (id string, err error) {
	if err := checkJob(job); err != nil {
		return "", err
	}
	t, err := q.tenantOf(ctx, job.Scope.Tenant)
	if err != nil {
		return "", err
	}
	if err := q.admit(t); err != nil {
		return "", err
	}
	r := newRecord(job, q.opts.KeepKeys)
	held := q.hold(ctx, t, r)
	if held != nil {
		err = q.beAHolder(ctx)
	}
	if err != nil {
		q.leave(t)
		return "", err
	}
	revision, err := q.write(ctx, t, r, held != nil)
	if err != nil {
		q.leave(t)
		return "", err
	}
	if held != nil {
		held.written(r, revision)
		return r.ID, nil
	}
	q.due(t, r.Due)
	q.point(ctx, t)
	return r.ID, nil
}

func newRecord(job *host.Job, keep time.Duration) *record {
	now := time.Now().UTC()
	r := &record{V: layout, ID: host.NewID(), Name: job.Name, Payload: job.Payload, Key: job.Key, Serial: job.Serial,
		Scope: job.Scope, Left: now, Due: now}
	if len(r.Payload) == 0 {
		r.Payload = []byte("null")
	}
	if job.NotBefore.After(now) {
		r.Due = job.NotBefore.UTC()
	}
	if r.Key != "" {
		r.Until = now.Add(keep)
	}
	return r
}

// admit counts a job of a tenant's, if there is room for it.
func (q *Queue) admit(t *tenant) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return errClosed()
	}
	if t.jobs >= q.opts.OfTenant {
		return &host.Error{Code: host.ResourceExhausted, Retryable: true,
			Message: "the queue has as many jobs of the tenant as it takes", Hint: "try again when some are done"}
	}
	t.jobs++
	return nil
}

// leave is the opposite of admit.
func (q *Queue) leave(t *tenant) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t.jobs = max(t.jobs-1, 0) // others may have counted as well
}

// write stores a new job.
func (q *Queue) write(ctx context.Context, t *tenant, r *record, held bool) (revision uint64, err error) {
	raw, err := r.encode()
	if err != nil {
		return 0, err
	}
	tx := kv.Tx{Partition: t.name, Writes: []kv.Write{kv.Put(jobKey(r.ID), raw)}}
	if held {
		tx.Writes = append(tx.Writes, kv.Put(heldKey(r.ID), []byte(q.id)))
	} else {
		tx.Writes = append(tx.Writes, kv.Put(dueKey(r.Due, r.ID), []byte(r.Serial)))
	}
	if r.Key == "" {
		revision, err = kv.Apply(ctx, q.driver, tx)
		return revision, kverror.Wrap(err, "leave a job for %s", quoted(r.Name))
	}
	return q.writeOnce(ctx, r, tx)
}

// writeOnce stores a job whose key is not known yet.
func (q *Queue) writeOnce(ctx context.Context, r *record, job kv.Tx) (uint64, error) {
	for range maxKeyAttempts {
		tx := kv.Tx{Partition: job.Partition, Writes: append([]kv.Write(nil), job.Writes...)}
		if err := q.claimKey(ctx, r, &tx); err != nil {
			return 0, err
		}
		if err := q.forgetKeys(ctx, r, &tx); err != nil {
			return 0, err
		}
		revision, err := kv.Apply(ctx, q.driver, tx)
		if !errors.Is(err, kv.ErrPrecondition) {
			return revision, kverror.Wrap(err, "leave a job for %s", quoted(r.Name))
		}
	}
	return 0, host.Errorf(host.Conflict, "leave a job for %s: others used its key, %d times", quoted(r.Name), maxKeyAttempts)
}

// claimKey adds to tx that the job's key is used from now on.
func (q *Queue) claimKey(ctx context.Context, r *record, tx *kv.Tx) error {
	key := idempotencyKey(r.digest())
	e, err := q.driver.Get(ctx, tx.Partition, key)
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		return kverror.Wrap(err, "look for the key of a job")
	}
	if err == nil {
		until, _, ok := kv.Key(e.Value).CutUint()
		if ok && time.Now().Before(time.UnixMilli(int64(until))) {
			return host.Errorf(host.AlreadyExists, "a job for %s with the key %s was left before", quoted(r.Name), quoted(r.Key))
		}
		tx.Writes = append(tx.Writes, kv.Delete(knownKey(time.UnixMilli(int64(until)), r.digest())))
	}
	tx.Conds = append(tx.Conds, kv.AtRevision(key, e.Revision))
	tx.Writes = append(tx.Writes, kv.Put(key, []byte(timed("", r.Until))), kv.Put(knownKey(r.Until, r.digest()), nil))
	return nil
}

// forgetKeys adds to tx that some keys are forgotten whose time is over.
func (q *Queue) forgetKeys(ctx context.Context, r *record, tx *kv.Tx) error {
	page, err := q.driver.Scan(ctx, tx.Partition, kv.Range{Prefix: knownKeys, Limit: forgottenAtOnce})
	if err != nil {
		return kverror.Wrap(err, "look for keys of jobs")
	}
	for _, e := range page.Entries {
		until, rest, _ := cutTimed(e.Key, knownKeys)
		digest, _, ok := rest.CutString()
		if !ok || time.Now().Before(until) {
			return nil
		}
		if digest == r.digest() {
			continue // claimKey has it
		}
		tx.Writes = append(tx.Writes, kv.Delete(e.Key), kv.Delete(idempotencyKey(digest)))
	}
	return nil
}

// dropKey adds to writes that the key of a job which never ran is free again.
func (r *record) dropKey(writes []kv.Write) []kv.Write {
	if r.Key == "" {
		return writes
	}
	return append(writes, kv.Delete(idempotencyKey(r.digest())), kv.Delete(knownKey(r.Until, r.digest())))
}

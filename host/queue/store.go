package queue

import (
	"context"
	"errors"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// jobStore reads and adds the stored jobs of all tenants. Partitions are those of
// [host.TenantPartition].
type jobStore struct {
	driver   kv.Driver
	holder   string        // the id of this process among those that hold jobs
	keepKeys time.Duration // how long the key of a job is known
}

// load reads a job; nil if no job has the id.
func (s *jobStore) load(ctx context.Context, partition, id string) (*record, uint64, error) {
	e, err := s.driver.Get(ctx, partition, jobKey(id))
	if errors.Is(err, kv.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, kverror.Wrap(err, "read job %q", id)
	}
	r := &record{}
	if err := kv.DecodeRecord(e.Value, r); err != nil {
		return nil, 0, kverror.Wrap(err, "read job %q", id)
	}
	if r.V != layout {
		return nil, 0, kverror.Wrap(kv.ErrFormat, "read job %q", id)
	}
	return r, e.Revision, nil
}

// unreadable reports whether a record is damaged, or of another version: reading it
// again gives the same error.
func unreadable(err error) bool { return errors.Is(err, kv.ErrCorrupt) || errors.Is(err, kv.ErrFormat) }

// add stores a new job: due, or held for its run.
func (s *jobStore) add(ctx context.Context, partition string, r *record, held bool) (revision uint64, err error) {
	raw, err := r.encode()
	if err != nil {
		return 0, err
	}
	place := kv.Put(dueKey(r.Due, r.ID), r.place(r.Serial))
	if held {
		place = kv.Put(heldKey(r.ID), r.place(s.holder))
	}
	tx := kv.Tx{Partition: partition, Writes: []kv.Write{kv.Put(jobKey(r.ID), raw), place}}
	if r.Key == "" {
		revision, err = kv.Apply(ctx, s.driver, tx)
		err = kverror.Wrap(err, "leave a job for %s", quoted(r.Name))
	} else {
		revision, err = s.addOnce(ctx, r, tx)
	}
	if errors.Is(err, kv.ErrInDoubt) { // a held job of which its run does not know would wait as long as this process lives
		if e, unread := kv.ReadBack(ctx, s.driver, partition, place.Key); unread == nil {
			return e.Revision, nil
		}
	}
	return revision, err
}

// maxKeyAttempts is how often a job with a key is written when other writers use the
// key at the same time.
const maxKeyAttempts = 10

// addOnce stores a job whose key is not known yet.
func (s *jobStore) addOnce(ctx context.Context, r *record, job kv.Tx) (uint64, error) {
	for range maxKeyAttempts {
		tx := kv.Tx{Partition: job.Partition, Writes: append([]kv.Write(nil), job.Writes...)}
		if err := s.claimKey(ctx, r, &tx); err != nil {
			return 0, err
		}
		if err := s.forgetKeys(ctx, r, &tx); err != nil {
			return 0, err
		}
		revision, err := kv.Apply(ctx, s.driver, tx)
		if !errors.Is(err, kv.ErrPrecondition) {
			return revision, kverror.Wrap(err, "leave a job for %s", quoted(r.Name))
		}
	}
	return 0, host.Errorf(host.Conflict, "leave a job for %s: others used its key, %d times", quoted(r.Name), maxKeyAttempts)
}

// claimKey adds to tx that the job's key is used from now on. Code already_exists if
// it is used.
func (s *jobStore) claimKey(ctx context.Context, r *record, tx *kv.Tx) error {
	key := idempotencyKey(r.digest())
	e, err := s.driver.Get(ctx, tx.Partition, key)
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

// forgottenAtOnce is how many expired keys a job with a key removes.
const forgottenAtOnce = 4

// forgetKeys adds to tx that some expired keys are forgotten.
func (s *jobStore) forgetKeys(ctx context.Context, r *record, tx *kv.Tx) error {
	page, err := s.driver.Scan(ctx, tx.Partition, kv.Range{Prefix: knownKeys, Limit: forgottenAtOnce})
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

// countDue counts the jobs of a partition that wait or run, and returns when the first
// is due.
func (s *jobStore) countDue(ctx context.Context, partition string) (found amount, first time.Time, err error) {
	for e, err := range kv.All(ctx, s.driver, partition, kv.Range{Prefix: dueKeys, Limit: kv.MaxScanLimit}) {
		if err != nil {
			return amount{}, time.Time{}, err
		}
		at, rest, ok := cutTimed(e.Key, dueKeys)
		if !ok {
			continue
		}
		if found.jobs == 0 {
			first = at
		}
		one, err := s.amountOf(ctx, partition, rest, e.Value)
		if err != nil {
			return amount{}, time.Time{}, err
		}
		found = found.plus(one)
	}
	return found, first, nil
}

// countHeld counts the jobs of a partition that wait for runs.
func (s *jobStore) countHeld(ctx context.Context, partition string) (found amount, err error) {
	for e, err := range kv.All(ctx, s.driver, partition, kv.Range{Prefix: heldKeys, Limit: kv.MaxScanLimit}) {
		if err != nil {
			return amount{}, err
		}
		rest, _ := e.Key.CutPrefix(heldKeys)
		one, err := s.amountOf(ctx, partition, rest, e.Value)
		if err != nil {
			return amount{}, err
		}
		found = found.plus(one)
	}
	return found, nil
}

// amountOf returns what a job takes by its entry among those that are due or held. The
// entry of an earlier version does not say, so the job is read.
func (s *jobStore) amountOf(ctx context.Context, partition string, id kv.Key, value []byte) (amount, error) {
	_, bytes, sized := cutPlace(value)
	if sized {
		return amount{1, bytes}, nil
	}
	name, _, _ := id.CutString()
	r, _, err := s.load(ctx, partition, name)
	if err != nil && !unreadable(err) {
		return amount{}, err
	}
	if r == nil {
		return amount{jobs: 1}, nil
	}
	return r.amount(), nil
}

// index lists a partition in the queue's own, for processes that start later, and wakes
// those that run jobs. The error is [kv.ErrErasing] if the partition is being erased: it
// is not listed then, since the erasure may have removed its entry already.
func (s *jobStore) index(ctx context.Context, partition string) (revision uint64, err error) {
	revision, err = kv.Apply(ctx, s.driver, kv.Tx{Partition: indexPartition, Writes: []kv.Write{kv.Put(tenantKeys.With(partition), nil)}})
	if err != nil {
		return 0, err
	}
	// Only now: an erasure that begins after this finds the entry.
	if _, err := kv.Apply(ctx, s.driver, kv.Tx{Partition: partition}); errors.Is(err, kv.ErrErasing) {
		return 0, errors.Join(err, s.removeIndex(ctx, partition, kv.AtRevision(tenantKeys.With(partition), revision)))
	} else if err != nil {
		return 0, err
	}
	return revision, nil
}

// removeIndex removes a partition from the queue's own, if the conditions hold.
func (s *jobStore) removeIndex(ctx context.Context, partition string, conds ...kv.Cond) error {
	_, err := kv.Apply(ctx, s.driver, kv.Tx{Partition: indexPartition, Conds: conds, Writes: []kv.Write{kv.Delete(tenantKeys.With(partition))}})
	if errors.Is(err, kv.ErrPrecondition) {
		return nil
	}
	return err
}

// indexed calls fn with each partition of the index and the revision of its entry.
func (s *jobStore) indexed(ctx context.Context, doing string, fn func(partition string, revision uint64) error) error {
	for e, err := range kv.All(ctx, s.driver, indexPartition, kv.Range{Prefix: tenantKeys, Limit: kv.MaxScanLimit}) {
		if err != nil {
			return kverror.Wrap(err, "%s", doing)
		}
		rest, _ := e.Key.CutPrefix(tenantKeys)
		partition, _, ok := rest.CutString()
		if !ok || partition == "" {
			continue // not an entry of this package
		}
		if err := fn(partition, e.Revision); err != nil {
			return err
		}
	}
	return nil
}

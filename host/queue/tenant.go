package queue

import (
	"context"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// tenant is what a queue knows of one. Queue.mu guards it.
type tenant struct {
	name    string            // of the partition
	jobs    int               // waiting, held or running
	next    time.Time         // when there may be something to run; zero: not known to be
	looking bool              // the dispatcher reads what is due
	running map[string]string // by id, their serials
	parked  map[string]bool   // ids of jobs that cannot be read, left alone until the next process
	served  uint64            // when it was its turn last
	indexed uint64            // revision of its entry in the index, as it was seen last

	// Until when a serial, and a job, are left to another process.
	blocked map[string]time.Time
	others  map[string]othersJob
}

// othersJob is a job whose lease is over although its holder lives: it is waited
// for the holder to renew it.
type othersJob struct {
	revision uint64 // of the record
	until    time.Time
}

// dueAt reports whether there may be something to run.
func (t *tenant) dueAt(now time.Time) bool { return !t.next.IsZero() && !t.next.After(now) }

// due makes that a tenant is looked at, at a time.
func (q *Queue) due(t *tenant, at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.next.IsZero() || at.Before(t.next) {
		t.next = at
	}
	q.poke()
}

// tenantOf returns what is known of the tenant that a caller names.
func (q *Queue) tenantOf(ctx context.Context, name string) (*tenant, error) {
	part, err := host.TenantPartition(name)
	if err != nil {
		return nil, err
	}
	return q.tenant(ctx, part)
}

// tenant returns what is known of a partition's tenant, which it reads if that is
// nothing yet.
func (q *Queue) tenant(ctx context.Context, name string) (*tenant, error) {
	return q.tenantIn(ctx, name, 0)
}

// tenantIn is tenant, with the revision of the tenant's entry in the index, 0 if
// that is not known.
func (q *Queue) tenantIn(ctx context.Context, name string, indexed uint64) (*tenant, error) {
	for {
		q.mu.Lock()
		if t := q.tenants[name]; t != nil {
			q.mu.Unlock()
			return t, nil
		}
		wait := q.loading[name]
		if wait == nil {
			wait = make(chan struct{})
			q.loading[name] = wait
			q.mu.Unlock()
			return q.readTenant(ctx, name, indexed, wait)
		}
		q.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, kverror.Wrap(ctx.Err(), "wait for the queue")
		}
	}
}

// readTenant reads what earlier processes have left of a tenant, and sees to it
// that later ones find the tenant.
func (q *Queue) readTenant(ctx context.Context, name string, indexed uint64, done chan struct{}) (*tenant, error) {
	t := &tenant{name: name, running: map[string]string{}, parked: map[string]bool{}, indexed: indexed,
		blocked: map[string]time.Time{}, others: map[string]othersJob{}}
	err := q.countJobs(ctx, t)
	if err == nil && indexed == 0 {
		t.indexed, err = kv.Apply(ctx, q.driver, kv.Tx{Partition: indexPartition, Writes: []kv.Write{kv.Put(tenantKeys.With(name), nil)}})
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.loading, name)
	close(done)
	if err != nil {
		return nil, kverror.Wrap(err, "read the queue")
	}
	q.tenants[name] = t
	if !t.next.IsZero() {
		q.poke()
	}
	return t, nil
}

func (q *Queue) countJobs(ctx context.Context, t *tenant) error {
	due, first, err := q.countDue(ctx, t)
	if err != nil {
		return err
	}
	held := 0
	for _, err := range kv.All(ctx, q.driver, t.name, kv.Range{Prefix: heldKeys, Limit: kv.MaxScanLimit}) {
		if err != nil {
			return err
		}
		held++
	}
	t.jobs, t.next = due+held, first
	return nil
}

// countDue counts the jobs of a tenant that wait or run, and says when the first is
// to be looked at.
func (q *Queue) countDue(ctx context.Context, t *tenant) (n int, first time.Time, err error) {
	for e, err := range kv.All(ctx, q.driver, t.name, kv.Range{Prefix: dueKeys, Limit: kv.MaxScanLimit}) {
		if err != nil {
			return 0, time.Time{}, err
		}
		if at, _, ok := cutTimed(e.Key, dueKeys); ok {
			if n++; n == 1 {
				first = at
			}
		}
	}
	return n, first, nil
}

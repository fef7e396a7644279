package queue

import (
	"context"
	"time"

	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// defaultTenant is the tenant of a scope that names none.
const defaultTenant = "default"

func partitionOf(tenant string) string {
	if tenant == "" {
		return defaultTenant
	}
	return tenant
}

// tenant is what a queue knows of one. Queue.mu guards it.
type tenant struct {
	name    string            // of the partition
	jobs    int               // waiting, held or running
	next    time.Time         // when there may be something to run; zero: not known to be
	looking bool              // the dispatcher reads what is due
	running map[string]string // by id, their serials
	parked  map[string]bool   // ids of jobs that cannot be read, left alone until the next process
	served  uint64            // when it was its turn last
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

// tenant returns what is known of a tenant, which it reads if that is nothing
// yet.
func (q *Queue) tenant(ctx context.Context, name string) (*tenant, error) {
	return q.tenantIn(ctx, name, false)
}

// tenantIn is tenant, with whether the index has the tenant.
func (q *Queue) tenantIn(ctx context.Context, name string, listed bool) (*tenant, error) {
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
			return q.readTenant(ctx, name, listed, wait)
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
func (q *Queue) readTenant(ctx context.Context, name string, listed bool, done chan struct{}) (*tenant, error) {
	t := &tenant{name: name, running: map[string]string{}, parked: map[string]bool{}}
	held, err := q.countJobs(ctx, t)
	if err == nil && !listed {
		_, err = kv.Apply(ctx, q.driver, kv.Tx{Partition: indexPartition, Writes: []kv.Write{kv.Put(tenantKeys.With(name), nil)}})
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.loading, name)
	close(done)
	if err != nil {
		return nil, kverror.Wrap(err, "read the queue")
	}
	q.tenants[name] = t
	for _, h := range held {
		k := runKey{name, h.scope.Run}
		q.orphans[k] = append(q.orphans[k], h)
	}
	if !t.next.IsZero() {
		q.poke()
	}
	return t, nil
}

func (q *Queue) countJobs(ctx context.Context, t *tenant) (held []heldJob, err error) {
	for e, err := range kv.All(ctx, q.driver, t.name, kv.Range{Prefix: dueKeys, Limit: kv.MaxScanLimit}) {
		if err != nil {
			return nil, err
		}
		if at, _, ok := cutTimed(e.Key, dueKeys); ok {
			if t.jobs++; t.next.IsZero() {
				t.next = at
			}
		}
	}
	for e, err := range kv.All(ctx, q.driver, t.name, kv.Range{Prefix: heldKeys, Limit: kv.MaxScanLimit}) {
		if err != nil {
			return nil, err
		}
		rest, _ := e.Key.CutPrefix(heldKeys)
		id, _, ok := rest.CutString()
		if !ok {
			continue
		}
		r, _, err := q.load(ctx, t.name, id)
		if unreadable(err) {
			q.opts.Logger.Error("a held job cannot be read, and stays", "tenant", t.name, "job", id, "error", err)
			continue
		}
		if err != nil {
			return nil, err
		}
		if r == nil {
			continue
		}
		t.jobs++
		held = append(held, heldJob{id: id, scope: r.Scope, record: r, revision: e.Revision})
	}
	return held, nil
}

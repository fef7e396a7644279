package queue

import (
	"context"
	"encoding/json"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// JobStatus says what a job waits for.
type JobStatus string

// The ways a job that is not over can be.
const (
	JobWaiting JobStatus = "waiting" // for its time, or for another job of its serial
	JobRunning JobStatus = "running" // or was, when its process ended: it is tried again at Due
	JobHeld    JobStatus = "held"    // until its run's turn is stored
)

// PendingJob is a job that was left and is not over.
type PendingJob struct {
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Key      string          `json:"key,omitempty"`
	Payload  json.RawMessage `json:"payload"`
	Scope    host.Scope      `json:"scope"` // of its enqueuer
	Status   JobStatus       `json:"status"`
	Left     time.Time       `json:"left"`
	Due      time.Time       `json:"due"` // when it is to run, or the lease of the process that runs it ends
	Attempts int             `json:"attempts"`
	Error    *host.Error     `json:"error,omitempty"` // of the last attempt
}

// Pending returns the jobs of a tenant that wait, run, or are held for their run's
// turn: those that are due first come first, and held ones last; at most limit of
// them, 0 is all.
func (q *Queue) Pending(ctx context.Context, tenant string, limit int) ([]*PendingJob, error) {
	name, err := host.TenantPartition(tenant)
	if err != nil {
		return nil, err
	}
	list := []*PendingJob{}
	for _, prefix := range []kv.Key{dueKeys, heldKeys} {
		for e, err := range kv.All(ctx, q.store.driver, name, kv.Range{Prefix: prefix}) {
			if err != nil {
				return nil, kverror.Wrap(err, "list jobs")
			}
			if limit > 0 && len(list) == limit {
				return list, nil
			}
			id, ok := pendingID(e.Key, prefix)
			if !ok {
				continue
			}
			r, _, err := q.store.load(ctx, name, id)
			if err != nil {
				return nil, err
			}
			if r == nil {
				continue // over meanwhile
			}
			status := JobWaiting
			switch {
			case prefix == heldKeys:
				status = JobHeld
			case r.Running:
				status = JobRunning
			}
			list = append(list, &PendingJob{ID: r.ID, Name: r.Name, Key: r.Key, Payload: r.Payload, Scope: r.Scope, Status: status,
				Left: r.Left, Due: r.Due, Attempts: r.Attempts, Error: r.Error})
		}
	}
	return list, nil
}

// pendingID reads a key of dueKeys or heldKeys.
func pendingID(k, prefix kv.Key) (id string, ok bool) {
	if prefix == dueKeys {
		_, rest, ok := cutTimed(k, dueKeys)
		if !ok {
			return "", false
		}
		id, _, ok = rest.CutString()
		return id, ok
	}
	rest, _ := k.CutPrefix(heldKeys)
	id, _, ok = rest.CutString()
	return id, ok
}

// Dead returns a tenant's dead jobs, the latest first, at most limit of them; 0
// is all that are kept.
func (q *Queue) Dead(ctx context.Context, tenant string, limit int) ([]*DeadJob, error) {
	name, err := host.TenantPartition(tenant)
	if err != nil {
		return nil, err
	}
	list := []*DeadJob{}
	for e, err := range kv.All(ctx, q.store.driver, name, kv.Range{Prefix: deadKeys, Reverse: true}) {
		if err != nil {
			return nil, kverror.Wrap(err, "list dead jobs")
		}
		_, rest, _ := cutTimed(e.Key, deadKeys)
		id, _, _ := rest.CutString()
		r, _, err := q.store.load(ctx, name, id)
		if err != nil {
			return nil, err
		}
		if r == nil {
			continue // dropped meanwhile
		}
		list = append(list, &DeadJob{ID: r.ID, Name: r.Name, Key: r.Key, Payload: r.Payload, Scope: r.Scope,
			Left: r.Left, Died: r.Died, Attempts: r.Attempts, Error: r.Error})
		if len(list) == limit {
			break
		}
	}
	return list, nil
}

// Waiting returns how many jobs of a tenant wait, are held for their run's turn,
// or run.
func (q *Queue) Waiting(ctx context.Context, tenant string) (int, error) {
	t, err := q.schedule.tenantNamed(ctx, tenant)
	if err != nil {
		return 0, err
	}
	return q.schedule.amountOf(t).jobs, nil
}

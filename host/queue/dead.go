package queue

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// DeadJob is a job that was given up.
type DeadJob struct {
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Key      string          `json:"key,omitempty"`
	Payload  json.RawMessage `json:"payload"`
	Scope    host.Scope      `json:"scope"` // who left it
	Left     time.Time       `json:"left"`
	Died     time.Time       `json:"died"`
	Attempts int             `json:"attempts"`
	Error    *host.Error     `json:"error"` // of the last attempt
}

// thin drops the oldest of a tenant's dead jobs while they are too many.
func (q *Queue) thin(ctx context.Context, t *tenant) error {
	n := 0
	for e, err := range kv.All(ctx, q.driver, t.name, kv.Range{Prefix: deadKeys, Reverse: true, Limit: min(q.opts.Dead+1, kv.MaxScanLimit)}) {
		if err != nil {
			return kverror.Wrap(err, "thin out dead jobs")
		}
		if n++; n <= q.opts.Dead {
			continue
		}
		_, rest, _ := cutTimed(e.Key, deadKeys)
		id, _, _ := rest.CutString()
		if _, err := kv.Apply(ctx, q.driver, kv.Tx{Partition: t.name, Writes: []kv.Write{kv.Delete(e.Key), kv.Delete(jobKey(id))}}); err != nil {
			return kverror.Wrap(err, "thin out dead jobs")
		}
		q.opts.Logger.Warn("a dead job was dropped for a newer one", "tenant", t.name, "job", id)
	}
	return nil
}

// Dead returns a tenant's dead jobs, the latest first, at most limit of them; 0
// is all that are kept.
func (q *Queue) Dead(ctx context.Context, tenant string, limit int) ([]*DeadJob, error) {
	name, err := host.TenantPartition(tenant)
	if err != nil {
		return nil, err
	}
	list := []*DeadJob{}
	for e, err := range kv.All(ctx, q.driver, name, kv.Range{Prefix: deadKeys, Reverse: true}) {
		if err != nil {
			return nil, kverror.Wrap(err, "list dead jobs")
		}
		_, rest, _ := cutTimed(e.Key, deadKeys)
		id, _, _ := rest.CutString()
		r, _, err := q.load(ctx, name, id)
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

// Retry has a dead job run again, as if it had just been left. Code not_found if
// the tenant has no such dead job.
func (q *Queue) Retry(ctx context.Context, tenant, id string) error {
	t, err := q.tenantOf(ctx, tenant)
	if err != nil {
		return err
	}
	if err := q.admit(t); err != nil {
		return err
	}
	if err := q.revive(ctx, t, id); err != nil {
		q.leave(t)
		return err
	}
	return nil
}

// revive has a dead job run again, which is counted already.
func (q *Queue) revive(ctx context.Context, t *tenant, id string) error {
	due := time.Now().UTC()
	err := q.raise(ctx, t, id, func(r *record) ([]kv.Write, error) {
		r.Attempts, r.Due, r.Died, r.Error = 0, due, time.Time{}, nil
		raw, err := r.encode()
		return []kv.Write{kv.Put(jobKey(id), raw), kv.Put(dueKey(due, id), []byte(r.Serial))}, err
	})
	if err != nil {
		return err
	}
	q.due(t, due)
	q.point(ctx, t)
	return nil
}

// Drop forgets a dead job. Code not_found if the tenant has no such dead job.
func (q *Queue) Drop(ctx context.Context, tenant, id string) error {
	t, err := q.tenantOf(ctx, tenant)
	if err != nil {
		return err
	}
	return q.raise(ctx, t, id, func(*record) ([]kv.Write, error) { return []kv.Write{kv.Delete(jobKey(id))}, nil })
}

// raise takes a job from among the dead and makes writes of it.
func (q *Queue) raise(ctx context.Context, t *tenant, id string, writes func(*record) ([]kv.Write, error)) error {
	r, revision, err := q.load(ctx, t.name, id)
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
	_, err = kv.Apply(ctx, q.driver, kv.Tx{Partition: t.name, Conds: []kv.Cond{kv.AtRevision(jobKey(id), revision)},
		Writes: append(w, kv.Delete(deadKey(died, id)))})
	if errors.Is(err, kv.ErrPrecondition) {
		return noDead(id)
	}
	return kverror.Wrap(err, "change dead job %q", id)
}

func noDead(id string) error {
	return host.Errorf(host.NotFound, "there is no dead job %q", id).WithHint("list the dead jobs for their ids")
}

// Waiting returns how many jobs of a tenant wait, are held for their run's turn,
// or run.
func (q *Queue) Waiting(ctx context.Context, tenant string) (int, error) {
	t, err := q.tenantOf(ctx, tenant)
	if err != nil {
		return 0, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return t.jobs, nil
}

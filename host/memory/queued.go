package memory

import (
	"context"
	"encoding/json"
	"time"

	"github.com/agenthost/agenthost/host"
)

// JobName is the name of the jobs that a [Queued] leaves.
const JobName = "agenthost/memory"

// missingAttempts bounds the attempts to change a missing memory: the job that
// adds it may still wait in the queue.
const missingAttempts = 3

// Queued is a backend that puts its writes into a queue: the writer, an agent's
// tools or its provider, does not wait for the backend, and an acknowledged write
// is not lost if the backend fails or the process ends. The writes of a run are
// applied when its turn is stored, and dropped if the turn is discarded. Searches
// find a write once it is applied. It is safe for concurrent use.
//
//	memories := memory.NewQueued(backend, q)
//	q.Handle(memory.JobName, memories.HandleJob)
//	tools := memory.NewTools(memories, memory.UserAt("/user"))
type Queued struct {
	backend Backend
	jobs    host.Enqueuer
}

var (
	_ Backend = (*Queued)(nil)
	_ Getter  = (*Store)(nil)
)

// NewQueued returns a backend that enqueues the writes to backend in jobs. The
// queue must call [Queued.HandleJob] for jobs named [JobName].
func NewQueued(backend Backend, jobs host.Enqueuer) *Queued { return &Queued{backend, jobs} }

// write is a job's payload.
type write struct {
	Scope   Scope    `json:"scope"`
	Changes []Change `json:"changes"`
}

// Apply enqueues the changes as one job and returns the future memories: with
// the ids and texts of the changes, and their other fields as far as the changes
// have them. Additions without an id get one. An error that only the backend can
// find, such as an unknown id, fails the job, not Apply.
func (q *Queued) Apply(ctx context.Context, scope Scope, changes ...Change) ([]*Memory, error) {
	if err := scope.check(); err != nil {
		return nil, err
	}
	if err := checkChanges(changes); err != nil || len(changes) == 0 {
		return nil, err
	}
	now := time.Now().UTC()
	left := write{Scope: scope, Changes: append([]Change(nil), changes...)}
	var memories []*Memory
	for i := range left.Changes {
		c := &left.Changes[i]
		if c.ID == "" {
			c.ID = host.NewID()
		}
		memories = append(memories, &Memory{ID: c.ID, Text: c.Text, Metadata: c.Metadata, Created: now, Updated: now, Expires: c.Expires})
	}
	raw, err := json.Marshal(left)
	if err != nil {
		return nil, host.Errorf(host.InvalidArgument, "leave changes of memories: %w", err)
	}
	job := &host.Job{Name: JobName, Payload: raw, Serial: JobName + "/" + digestOf(string(scope.key())), Scope: host.ScopeOf(ctx)}
	job.Scope.Tenant = scope.partition()
	_, err = q.jobs.Enqueue(ctx, job)
	return memories, err
}

// Search implements [Backend].
func (q *Queued) Search(ctx context.Context, scope Scope, query string, opts *SearchOptions) ([]Hit, error) {
	return q.backend.Search(ctx, scope, query, opts)
}

// HandleJob makes the changes of a job. It may be called again for one that was
// done.
func (q *Queued) HandleJob(ctx context.Context, job *host.Job) error {
	var w write
	if err := json.Unmarshal(job.Payload, &w); err != nil {
		return host.Errorf(host.InvalidArgument, "read changes of memories: %w", err)
	}
	if w.Scope.partition() != (Scope{Tenant: job.Scope.Tenant}).partition() {
		return host.Errorf(host.PermissionDenied, "changes of another tenant's memories")
	}
	_, err := q.backend.Apply(ctx, w.Scope, w.Changes...)
	if err == nil || host.CodeOf(err) != host.NotFound {
		return err
	}
	if job.Attempt > 1 { // the first attempt may have been interrupted after it was done
		if err = q.again(ctx, &w, err); err == nil {
			return nil
		}
	}
	if host.CodeOf(err) == host.NotFound && job.Attempt < missingAttempts {
		return &host.Error{Code: host.NotFound, Message: err.Error(), Retryable: true, Err: err}
	}
	return err
}

// Getter is an optional interface of a [Backend]. With it, a job that is tried
// again is still all or nothing.
type Getter interface {
	// Get returns a memory, or code not_found: see [Store.Get].
	Get(ctx context.Context, scope Scope, id string) (*Memory, error)
}

// again makes the changes of a job that was tried before, as if the earlier
// attempt had deleted the missing memories.
func (q *Queued) again(ctx context.Context, w *write, missing error) error {
	rest, err := q.withoutDeleted(ctx, w)
	switch {
	case err != nil:
		return err
	case len(rest) == len(w.Changes): // a memory to be changed is missing
		return missing
	case len(rest) == 0:
		return nil
	}
	_, err = q.backend.Apply(ctx, w.Scope, rest...)
	return err
}

// withoutDeleted returns the changes without the deletions of missing memories.
func (q *Queued) withoutDeleted(ctx context.Context, w *write) (rest []Change, err error) {
	for _, c := range w.Changes {
		if c.Kind == Delete {
			gone, err := q.gone(ctx, w.Scope, c)
			if err != nil {
				return nil, err
			}
			if gone {
				continue
			}
		}
		rest = append(rest, c)
	}
	return rest, nil
}

// gone reports whether there is nothing to delete. In a backend that cannot be
// asked it makes sure of that.
func (q *Queued) gone(ctx context.Context, scope Scope, c Change) (bool, error) {
	var err error
	if g, ok := q.backend.(Getter); ok {
		if _, err = g.Get(ctx, scope, c.ID); err == nil {
			return false, nil
		}
	} else {
		_, err = q.backend.Apply(ctx, scope, c)
	}
	if err != nil && host.CodeOf(err) != host.NotFound {
		return false, err
	}
	return true, nil
}

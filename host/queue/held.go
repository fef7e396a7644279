package queue

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
)

// Jobs of a run are held until the run says whether its turn is stored.

// runKey names a run.
type runKey struct{ tenant, run string }

// heldJob is a job that waits for its run's turn. Its revision is that of the
// entry which says so.
type heldJob struct {
	id       string
	scope    host.Scope
	record   *record
	revision uint64
}

// heldJobs are those of one run of this process.
type heldJobs struct {
	q *Queue
	t *tenant
	k runKey

	mu      sync.Mutex
	jobs    []heldJob
	settled bool // the run has said
	stored  bool // what it has said
}

// hold reports that a job waits for the run of ctx, by what it waits in; nil if
// ctx is not of a run.
func (q *Queue) hold(ctx context.Context, t *tenant, r *record) *heldJobs {
	k := runKey{t.name, r.Scope.Run}
	q.mu.Lock()
	defer q.mu.Unlock()
	if h := q.runs[k]; h != nil {
		return h
	}
	h := &heldJobs{q: q, t: t, k: k}
	if !host.AfterCommit(ctx, h.settle) {
		return nil
	}
	q.runs[k] = h
	return h
}

// written says that a job is in the store. A run may have said already what
// becomes of it, if what left it has outlived the run.
func (h *heldJobs) written(r *record, revision uint64) {
	job := heldJob{id: r.ID, scope: r.Scope, record: r, revision: revision}
	h.mu.Lock()
	settled, stored := h.settled, h.stored
	if !settled {
		h.jobs = append(h.jobs, job)
	}
	h.mu.Unlock()
	if settled {
		h.q.settle(h.t, []heldJob{job}, stored)
	}
}

// settle is called when the run is over.
func (h *heldJobs) settle(stored bool) {
	h.q.mu.Lock()
	if h.q.runs[h.k] == h {
		delete(h.q.runs, h.k)
	}
	h.q.mu.Unlock()
	h.mu.Lock()
	jobs := h.jobs
	h.jobs, h.settled, h.stored = nil, true, stored
	h.mu.Unlock()
	h.q.settle(h.t, jobs, stored)
}

// settledAtOnce is how many held jobs one transaction releases or drops;
// settleTimeout bounds how long a run waits for that.
const (
	settledAtOnce = 200
	settleTimeout = 30 * time.Second
)

// settle has jobs run, or drops them. Those that cannot be written stay held,
// and the run's outcome is asked for again.
func (q *Queue) settle(t *tenant, jobs []heldJob, stored bool) {
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	for some := range slices.Chunk(jobs, settledAtOnce) {
		tx := kv.Tx{Partition: t.name}
		for _, j := range some {
			tx.Conds = append(tx.Conds, kv.AtRevision(heldKey(j.id), j.revision))
			tx.Writes = append(tx.Writes, kv.Delete(heldKey(j.id)))
			if stored {
				tx.Writes = append(tx.Writes, kv.Put(dueKey(j.record.Due, j.id), []byte(j.record.Serial)))
			} else {
				tx.Writes = j.record.dropKey(append(tx.Writes, kv.Delete(jobKey(j.id))))
			}
		}
		_, err := kv.Apply(ctx, q.driver, tx)
		if errors.Is(err, kv.ErrPrecondition) {
			q.settleEach(ctx, t, some, stored)
			continue
		}
		if err != nil {
			q.opts.Logger.Error("jobs of a run stay held", "tenant", t.name, "run", some[0].scope.Run, "jobs", len(some), "error", err)
			q.orphan(t, some)
			continue
		}
		q.count(t, some, stored)
	}
}

// settleEach settles jobs one by one, after another process has decided about some
// of them: it took this one, which was slow, for dead.
func (q *Queue) settleEach(ctx context.Context, t *tenant, jobs []heldJob, stored bool) {
	for _, j := range jobs {
		_, err := q.driver.Get(ctx, t.name, heldKey(j.id))
		switch {
		case err == nil && len(jobs) > 1:
			q.settle(t, []heldJob{j}, stored)
		case errors.Is(err, kv.ErrNotFound):
			q.settleDecided(ctx, t, j, stored)
		default:
			q.opts.Logger.Error("a job of a run stays held", "tenant", t.name, "run", j.scope.Run, "job", j.id, "error", err)
			q.orphan(t, []heldJob{j})
		}
	}
}

// settleDecided has a job run after all that another process gave up with its run,
// if the run's turn is stored. If it is not given up, it may have been this process
// that decided, in a commit whose outcome it was not told: then the job is due.
func (q *Queue) settleDecided(ctx context.Context, t *tenant, j heldJob, stored bool) {
	if stored {
		err := q.revive(ctx, t, j.id)
		if err == nil {
			return
		}
		if host.CodeOf(err) != host.NotFound {
			q.opts.Logger.Error("a job of a run stays given up", "tenant", t.name, "run", j.scope.Run, "job", j.id, "error", err)
		}
		q.due(t, j.record.Due)
	}
	q.leave(t)
}

// count says what became of jobs that were held.
func (q *Queue) count(t *tenant, jobs []heldJob, stored bool) {
	if stored {
		first := jobs[0].record.Due
		for _, j := range jobs {
			if j.record.Due.Before(first) {
				first = j.record.Due
			}
		}
		q.due(t, first)
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	t.jobs = max(t.jobs-len(jobs), 0)
}

func (q *Queue) orphan(t *tenant, jobs []heldJob) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range jobs {
		q.adopt(t, j)
	}
}

// adopt has a job of a run decided that nobody holds. Queue.mu is held.
func (q *Queue) adopt(t *tenant, j heldJob) {
	k := runKey{t.name, j.scope.Run}
	if !slices.ContainsFunc(q.orphans[k], func(o heldJob) bool { return o.id == j.id }) {
		q.orphans[k] = append(q.orphans[k], j)
	}
}

// decideOrphans asks what became of runs that did not say.
func (q *Queue) decideOrphans() {
	q.mu.Lock()
	orphans := make(map[runKey][]heldJob, len(q.orphans))
	for k, jobs := range q.orphans {
		orphans[k] = jobs
	}
	q.mu.Unlock()
	for k, jobs := range orphans {
		q.decide(k, jobs)
	}
}

// decide does what the status of a run asks for.
func (q *Queue) decide(k runKey, jobs []heldJob) {
	status, err := q.opts.RunStatus(q.ctx, jobs[0].scope)
	lost := host.CodeOf(err) == host.NotFound
	if err != nil && !lost {
		q.opts.Logger.Warn("what became of a run that left jobs is not known", "tenant", k.tenant, "run", k.run, "error", err)
		return
	}
	if status == host.RunOpen {
		return
	}
	q.mu.Lock()
	t := q.tenants[k.tenant]
	jobs = q.orphans[k]
	delete(q.orphans, k)
	q.mu.Unlock()
	if !lost {
		q.settle(t, jobs, true)
		return
	}
	for _, j := range jobs {
		q.lose(t, j)
	}
}

// lose has a job dead whose run was lost.
func (q *Queue) lose(t *tenant, j heldJob) {
	lost := host.Errorf(host.FailedPrecondition, "the run that left the job ended with its process, before its turn was stored")
	tx := kv.Tx{Partition: t.name, Conds: []kv.Cond{kv.AtRevision(heldKey(j.id), j.revision)}, Writes: []kv.Write{kv.Delete(heldKey(j.id))}}
	err := q.bury(q.ctx, t, j.record, lost, tx)
	switch {
	case errors.Is(err, kv.ErrPrecondition): // somebody else has decided
		q.leave(t)
	case err != nil:
		q.opts.Logger.Error("a job of a lost run stays held", "tenant", t.name, "job", j.id, "error", err)
		q.orphan(t, []heldJob{j})
	}
}

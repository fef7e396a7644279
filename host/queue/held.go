package queue

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
)

// heldRuns holds the jobs that runs have left until each run says whether its turn is
// stored, and decides those of runs that never will.
type heldRuns struct {
	store     *jobStore
	life      *lifetime
	schedule  *schedule
	dead      *deadLetters
	runStatus func(context.Context, host.Scope) (host.RunStatus, error)
	logger    *slog.Logger

	mu      sync.Mutex
	runs    map[runKey]*heldJobs
	orphans map[runKey]*orphanJobs // of runs whose process ended
}

// runKey names a run.
type runKey struct{ tenant, run string }

// heldJob is a job that waits for its run's turn. Its revision is that of the entry in
// the store which says so.
type heldJob struct {
	id       string
	scope    host.Scope
	record   *record
	revision uint64
}

// orphanJobs are the jobs of a run whose process ended.
type orphanJobs struct {
	t    *tenant
	jobs []heldJob
}

// heldJobs are the jobs of one run of this process.
type heldJobs struct {
	held *heldRuns
	t    *tenant
	key  runKey

	mu      sync.Mutex
	jobs    []heldJob
	settled bool // the run has said whether its turn is stored
	stored  bool // it is
}

// hold returns the jobs of the run of ctx, for one more to join; nil if ctx is not of a
// run.
func (h *heldRuns) hold(ctx context.Context, t *tenant, r *record) *heldJobs {
	k := runKey{t.name, r.Scope.Run}
	h.mu.Lock()
	defer h.mu.Unlock()
	if jobs := h.runs[k]; jobs != nil {
		return jobs
	}
	jobs := &heldJobs{held: h, t: t, key: k}
	if !host.AfterCommit(ctx, jobs.settle) {
		return nil
	}
	h.runs[k] = jobs
	return jobs
}

// added says that a job is in the store. Its run may have ended before, if the caller
// of Enqueue has outlived it: then the job is settled like the others.
func (h *heldJobs) added(r *record, revision uint64) {
	job := heldJob{id: r.ID, scope: r.Scope, record: r, revision: revision}
	h.mu.Lock()
	settled, stored := h.settled, h.stored
	if !settled {
		h.jobs = append(h.jobs, job)
	}
	h.mu.Unlock()
	if settled {
		h.held.settle(h.t, []heldJob{job}, stored)
	}
}

// settle is called when the run is over.
func (h *heldJobs) settle(stored bool) {
	h.held.mu.Lock()
	if h.held.runs[h.key] == h {
		delete(h.held.runs, h.key)
	}
	h.held.mu.Unlock()
	h.mu.Lock()
	jobs := h.jobs
	h.jobs, h.settled, h.stored = nil, true, stored
	h.mu.Unlock()
	h.held.settle(h.t, jobs, stored)
}

// settledAtOnce is how many held jobs one transaction releases or drops;
// settleTimeout bounds how long a run waits for that.
const (
	settledAtOnce = 200
	settleTimeout = 30 * time.Second
)

// settle releases the jobs of a run, or drops them. Those that cannot be written stay
// held, and the outcome of the run is asked for again.
func (h *heldRuns) settle(t *tenant, jobs []heldJob, stored bool) {
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	for some := range slices.Chunk(jobs, settledAtOnce) {
		tx := kv.Tx{Partition: t.name}
		for _, j := range some {
			tx.Conds = append(tx.Conds, kv.AtRevision(heldKey(j.id), j.revision))
			tx.Writes = append(tx.Writes, kv.Delete(heldKey(j.id)))
			if stored {
				tx.Writes = append(tx.Writes, kv.Put(dueKey(j.record.Due, j.id), j.record.place(j.record.Serial)))
			} else {
				tx.Writes = j.record.dropKey(append(tx.Writes, kv.Delete(jobKey(j.id))))
			}
		}
		_, err := kv.Apply(ctx, h.store.driver, tx)
		if errors.Is(err, kv.ErrPrecondition) {
			h.settleEach(ctx, t, some, stored)
			continue
		}
		if err != nil {
			h.logger.ErrorContext(ctx, "jobs of a run stay held", "tenant", t.name, "run", some[0].scope.Run, "jobs", len(some), "error", err)
			h.adopt(t, some)
			continue
		}
		h.counted(t, some, stored)
	}
}

// settleEach settles jobs one by one, after another process has settled some of them: it
// took this one, which was slow, for dead.
func (h *heldRuns) settleEach(ctx context.Context, t *tenant, jobs []heldJob, stored bool) {
	for _, j := range jobs {
		_, err := h.store.driver.Get(ctx, t.name, heldKey(j.id))
		switch {
		case err == nil && len(jobs) > 1:
			h.settle(t, []heldJob{j}, stored)
		case errors.Is(err, kv.ErrNotFound):
			h.settleDecided(ctx, t, j, stored)
		default:
			h.logger.ErrorContext(ctx, "a job of a run stays held", "tenant", t.name, "run", j.scope.Run, "job", j.id, "error", err)
			h.adopt(t, []heldJob{j})
		}
	}
}

// settleDecided settles a job that is not held any more. Another process gave it up with
// its run: if the run's turn is stored, the job is revived. If it was not given up, this
// process may have released it, in a commit whose outcome is unknown: then it is due.
func (h *heldRuns) settleDecided(ctx context.Context, t *tenant, j heldJob, stored bool) {
	if stored {
		err := h.dead.revive(ctx, t, j.id)
		if err == nil {
			return
		}
		if host.CodeOf(err) != host.NotFound {
			h.logger.ErrorContext(ctx, "a job of a run stays given up", "tenant", t.name, "run", j.scope.Run, "job", j.id, "error", err)
		}
		h.schedule.jobDue(t, j.record.Due)
	}
	h.schedule.countGone(t, j.record.amount())
}

// counted reports jobs that are no longer held to the schedule.
func (h *heldRuns) counted(t *tenant, jobs []heldJob, stored bool) {
	if stored {
		first := jobs[0].record.Due
		for _, j := range jobs {
			if j.record.Due.Before(first) {
				first = j.record.Due
			}
		}
		h.schedule.jobDue(t, first)
		return
	}
	for _, j := range jobs {
		h.schedule.countGone(t, j.record.amount())
	}
}

// adopt takes over jobs that wait for a run whose outcome this process does not
// learn.
func (h *heldRuns) adopt(t *tenant, jobs []heldJob) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, j := range jobs {
		k := runKey{t.name, j.scope.Run}
		o := h.orphans[k]
		if o == nil {
			o = &orphanJobs{t: t}
			h.orphans[k] = o
		}
		if !slices.ContainsFunc(o.jobs, func(other heldJob) bool { return other.id == j.id }) {
			o.jobs = append(o.jobs, j)
		}
	}
}

// decideOrphans asks for the outcome of the runs of adopted jobs.
func (h *heldRuns) decideOrphans() {
	h.mu.Lock()
	scopes := make(map[runKey]host.Scope, len(h.orphans))
	for k, o := range h.orphans {
		scopes[k] = o.jobs[0].scope
	}
	h.mu.Unlock()
	for k, scope := range scopes {
		h.decide(k, scope)
	}
}

// decide settles the adopted jobs of a run by its status.
func (h *heldRuns) decide(k runKey, scope host.Scope) {
	status, err := h.runStatus(h.life.ctx, scope)
	lost := host.CodeOf(err) == host.NotFound
	if err != nil && !lost {
		h.logger.Warn("what became of a run that left jobs is not known", "tenant", k.tenant, "run", k.run, "error", err)
		return
	}
	if status == host.RunOpen {
		return
	}
	h.mu.Lock()
	o := h.orphans[k]
	delete(h.orphans, k)
	h.mu.Unlock()
	if o == nil {
		return
	}
	if !lost {
		h.settle(o.t, o.jobs, true)
		return
	}
	for _, j := range o.jobs {
		h.giveUp(o.t, j)
	}
}

// giveUp makes a job of a lost run a dead letter.
func (h *heldRuns) giveUp(t *tenant, j heldJob) {
	lost := host.Errorf(host.FailedPrecondition, "the run that left the job ended with its process, before its turn was stored")
	tx := kv.Tx{Partition: t.name, Conds: []kv.Cond{kv.AtRevision(heldKey(j.id), j.revision)}, Writes: []kv.Write{kv.Delete(heldKey(j.id))}}
	err := h.dead.add(h.life.ctx, t, j.record, lost, tx)
	switch {
	case errors.Is(err, kv.ErrPrecondition): // another process has settled it
		h.schedule.countGone(t, j.record.amount())
	case err != nil:
		h.logger.Error("a job of a lost run stays held", "tenant", t.name, "job", j.id, "error", err)
		h.adopt(t, []heldJob{j})
	}
}

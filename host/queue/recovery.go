package queue

import (
	"context"
	"log/slog"
	"time"

	"github.com/agenthost/agenthost/host/cluster"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// recovery finds the jobs that other processes have left: those that are due, and
// those that wait for runs of processes that have ended.
type recovery struct {
	store    *jobStore
	life     *lifetime
	schedule *schedule
	holders  *cluster.Member
	held     *heldRuns
	logger   *slog.Logger
	poll     time.Duration // between two looks at everything
}

// watch observes the other holders and recovers the jobs of those that died, until the
// queue is closed. A death is observed once: the jobs are searched until the search
// succeeds.
func (r *recovery) watch() {
	tick := time.NewTicker(min(r.poll, r.holders.WatchInterval()))
	defer tick.Stop()
	var swept time.Time
	var deaths int64
	for all := true; ; {
		died, err := r.holders.Deaths(r.life.ctx)
		if err != nil && !r.life.over() {
			r.logger.Warn("who else runs jobs cannot be read", "error", err)
		}
		if err == nil {
			all, deaths = all || died != deaths, died
		}
		if err == nil && (all || time.Since(swept) >= r.poll) {
			if err := r.sweep(all); err != nil && !r.life.over() {
				r.logger.Error("what other processes have left cannot be read", "error", err)
			} else {
				swept, all = time.Now(), false
			}
			r.held.decideOrphans()
		}
		select {
		case <-tick.C:
		case <-r.life.ctx.Done():
			return
		}
	}
}

// sweep reads the tenants of the index: each with all, or while there are other holders;
// otherwise those whose entry another process has written.
func (r *recovery) sweep(all bool) error {
	all = all || r.holders.Shared()
	return r.store.indexed(r.life.ctx, "read whose jobs there are", func(partition string, revision uint64) error {
		t, err := r.schedule.tenant(r.life.ctx, partition, revision)
		if err != nil {
			return err
		}
		if r.schedule.indexChanged(t, revision) || all {
			return r.reread(t)
		}
		return nil
	})
}

// reread counts a tenant's jobs again, and adopts those that wait for runs of processes
// that have ended.
func (r *recovery) reread(t *tenant) error {
	before := r.schedule.amountOf(t)
	due, _, err := r.store.countDue(r.life.ctx, t.name)
	if err != nil {
		return kverror.Wrap(err, "read the queue")
	}
	held, lost, err := r.readHeld(r.life.ctx, t)
	if err != nil {
		return kverror.Wrap(err, "read the queue")
	}
	r.schedule.recount(t, due.plus(held), before, r.holders.Shared(), r.poll)
	r.held.adopt(t, lost)
	return nil
}

// readHeld counts the jobs of a tenant that wait for runs, and returns those whose
// holder has died.
func (r *recovery) readHeld(ctx context.Context, t *tenant) (found amount, lost []heldJob, err error) {
	for e, err := range kv.All(ctx, r.store.driver, t.name, kv.Range{Prefix: heldKeys, Limit: kv.MaxScanLimit}) {
		if err != nil {
			return amount{}, nil, err
		}
		rest, _ := e.Key.CutPrefix(heldKeys)
		id, _, ok := rest.CutString()
		if !ok {
			continue
		}
		one, err := r.store.amountOf(ctx, t.name, rest, e.Value)
		if err != nil {
			return amount{}, nil, err
		}
		found = found.plus(one)
		holder, _, _ := cutPlace(e.Value)
		if r.holders.Lives(holder) {
			continue
		}
		if stored, err := r.holders.Stored(ctx, holder); err != nil {
			return amount{}, nil, err
		} else if stored {
			continue
		}
		job, _, err := r.store.load(ctx, t.name, id)
		if unreadable(err) {
			r.logger.ErrorContext(ctx, "a held job cannot be read, and stays", "tenant", t.name, "job", id, "error", err)
			continue
		}
		if err != nil {
			return amount{}, nil, err
		}
		if job != nil {
			lost = append(lost, heldJob{id: id, scope: job.Scope, record: job, revision: e.Revision})
		}
	}
	return found, lost, nil
}

package runs

import (
	"context"
	"errors"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/cluster"
)

// sweepEvery is how often a member looks for runs of dead members without having seen
// one die: some die before the member begins, and some runs could not be taken over.
const sweepEvery = 10 * time.Second

// releasedTopic tells members that runs are handed over.
const releasedTopic = "runs"

// Join makes the registry one of the cluster of its journal's member: it takes over the
// durable runs of members that die or hand them over, until Drain or Close. A run is
// taken over within the member's lease and two of its intervals: 7 s by default.
//
// Codes: failed_precondition without Options.Journal of type *[Journal], or without
// Options.Target; unavailable after Close; those of the store.
func (r *Registry) Join(ctx context.Context) error {
	j := r.shared
	if j == nil || r.opts.Target == nil {
		return host.Errorf(host.FailedPrecondition, "join the cluster: the registry has no journal of a member, or no targets").
			WithHint("give it Options.Journal of NewJournal, and Options.Target")
	}
	if err := j.member.Register(ctx); err != nil {
		return err
	}
	if _, err := j.member.Observe(ctx); err != nil {
		return err
	}
	err := j.member.SubscribeAcknowledged(ctx, cluster.JoinedTopic, func(ctx context.Context) error {
		_, err := j.member.Observe(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if err := j.member.Subscribe(ctx, releasedTopic, func() { wake(r.woken) }); err != nil {
		return err
	}
	if err := r.beginWatch(); err != nil {
		return err
	}
	// A host that takes itself to be alone runs turns that this one does not see. One that
	// is dead does not answer.
	wait, cancel := context.WithTimeout(ctx, j.member.Interval())
	defer cancel()
	if err := j.member.AnnounceAndWait(wait, cluster.JoinedTopic); err != nil {
		r.opts.Logger.InfoContext(ctx, "not all hosts have seen this one: a turn of theirs may meet one of this host on a thread", "error", err)
	}
	return nil
}

// beginWatch begins to watch the other members, once.
func (r *Registry) beginWatch() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.draining:
		return host.Errorf(host.Unavailable, "the host is being stopped")
	case !r.joined:
		r.joined = true
		r.background.Go(r.watch)
	}
	return nil
}

// wake sends to a channel of one unless it is full.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// watch observes the other members and takes the runs of dead ones over.
func (r *Registry) watch() {
	tick := time.NewTicker(r.shared.member.WatchInterval())
	defer tick.Stop()
	var deaths int64
	var swept time.Time
	for pending := true; ; {
		died, err := r.shared.member.Deaths(r.ctx)
		if err != nil && r.ctx.Err() == nil {
			r.opts.Logger.WarnContext(r.ctx, "which hosts live cannot be read", "error", err)
		}
		if err == nil {
			pending, deaths = pending || died != deaths, died
		}
		if err == nil && (pending || time.Since(swept) >= sweepEvery) {
			if err := r.takeOverAll(r.ctx); err == nil {
				pending, swept = false, time.Now()
			} else if r.ctx.Err() == nil {
				r.opts.Logger.WarnContext(r.ctx, "runs of a dead host are not taken over yet", "error", err)
			}
		}
		select {
		case <-r.ctx.Done():
			return
		case <-r.woken:
			pending = true
		case <-tick.C:
			if time.Since(swept) >= r.shared.member.Interval() {
				pending = r.stranded.Swap(false) || pending
			}
		}
	}
}

// takeOverAll takes over the runs of all members that are gone, and continues the runs
// of this member that ended because the store did not answer.
func (r *Registry) takeOverAll(ctx context.Context) error {
	entries, missing, err := r.shared.owners(ctx)
	if err != nil {
		return err
	}
	failed := []error{r.shared.claimAgain(ctx, missing)}
	for _, e := range entries {
		if e.Owner != releasedOwner {
			gone, err := r.shared.member.Gone(ctx, e.Owner)
			if err != nil || !gone {
				failed = append(failed, err)
				continue
			}
		}
		failed = append(failed, r.takeOverOf(ctx, e))
	}
	stranded, err := r.shared.stranded(ctx)
	failed = append(failed, err)
	for _, rec := range stranded {
		failed = append(failed, r.takeOver(ctx, rec))
	}
	return errors.Join(failed...)
}

// takeOverOf takes over the runs of one tenant and one member that is gone.
func (r *Registry) takeOverOf(ctx context.Context, e cluster.Owned) error {
	records, err := r.shared.store.RunsOf(ctx, e.Tenant, e.Owner)
	if err != nil {
		return err
	}
	if len(records) == 0 {
		// The entry stays while the member's ended runs can be read: it is how they are found.
		left, err := r.stored.sweepOf(ctx, e.Tenant, e.Owner)
		if err == nil && left == 0 {
			r.shared.index.Forget(ctx, e)
		}
		return err
	}
	var failed []error
	for _, rec := range records {
		failed = append(failed, r.takeOver(ctx, rec))
	}
	return errors.Join(failed...)
}

// takeOver continues a run, or gives it up. Another member may be faster, which is no failure.
func (r *Registry) takeOver(ctx context.Context, rec *host.RunRecord) error {
	if done, err := r.givenUp.finish(ctx, rec); done {
		return err
	}
	if rec.Fence >= MaxOwners {
		return r.givenUp.giveUp(ctx, rec, errTooManyOwners(rec))
	}
	return r.givenUp.check(ctx, rec, r.tryTakeOver(ctx, rec))
}

func (r *Registry) tryTakeOver(ctx context.Context, rec *host.RunRecord) error {
	target, err := r.opts.Target(rec.Target)
	if err != nil {
		return host.Errorf(host.CodeOf(err), "take over run %q: %w", rec.Run, err)
	}
	_, err = r.Start(ctx, target, &host.Request{Tenant: rec.Tenant, Run: rec.Run, Resume: rec.Run}, nil)
	switch host.CodeOf(err) {
	case "":
		r.opts.Logger.InfoContext(ctx, "run taken over", "run", rec.Run, "tenant", rec.Tenant, "from", rec.Host)
		return nil
	case host.Conflict: // another member has it, its thread has moved on, which ends it, or its owner has added steps
		r.givenUp.showLost(ctx, rec, err)
		r.stranded.Store(true)
		return nil
	case host.NotFound, host.AlreadyExists: // it has ended, or this one resumes it already
		return nil
	}
	return host.Errorf(host.CodeOf(err), "take over run %q: %w", rec.Run, err)
}

// Continue continues a durable run that no process runs, in a process that has the journal to
// itself: after a restart, and as threads.Options.Interrupted. Where that fails for a reason
// that passes, Continue returns nil and the registry tries it again after some seconds, and
// then less and less often, down to once a minute. One that is refused for another reason it
// tries again as well, beside the error, and gives it up after [MaxRefusal]; one during which
// [MaxOwners] processes have ended it gives up at once. A run that is given up ends in the
// journal, and with an event that has the reason. A run that runs here is left alone.
//
// Codes: failed_precondition in a cluster, whose members do that by themselves, and without
// Options.Journal or Options.Target; those of Options.Target and of [Registry.Start].
func (r *Registry) Continue(ctx context.Context, rec *host.RunRecord) error {
	if r.alone == nil {
		return host.Errorf(host.FailedPrecondition, "continue run %.100q: the registry is one of a cluster, or has no journal or no targets", rec.Run).
			WithHint("give it Options.Journal and Options.Target; in a cluster, Join")
	}
	return r.alone.continueNow(r.ctx, rec)
}

// handOver releases the durable runs and ends them here, so that other members continue
// them.
func (r *Registry) handOver(ctx context.Context) {
	if r.shared == nil {
		return
	}
	var released []*liveRun
	for _, l := range r.runs.all() {
		if info := l.snapshot(); r.shared.owns(info.Tenant, info.ID) && !info.Status.Ended() {
			r.shared.release(info.Tenant, info.ID)
			l.storedLog().stop()
			l.cancel(errHandedOver(info.ID))
			released = append(released, l)
		}
	}
	for _, l := range released {
		<-l.over
	}
	r.stored.flushNow(ctx)
	for _, l := range released {
		info := l.snapshot()
		if _, err := r.shared.handOver(ctx, info.Tenant, info.ID); err != nil {
			r.opts.Logger.WarnContext(ctx, "a run is not handed over: it is free when this host has left", "run", info.ID, "tenant", info.Tenant, "error", err)
		}
	}
	if len(released) > 0 {
		if err := r.shared.member.Announce(ctx, releasedTopic); err != nil {
			r.opts.Logger.WarnContext(ctx, "other hosts are not told of runs that are handed over", "error", err)
		}
	}
}

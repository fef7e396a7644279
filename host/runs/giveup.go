package runs

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/runlog"
)

// MaxOwners is how many hosts run a durable run before it is given up, each having
// ended or handed it over.
const MaxOwners = 20

// MaxRefusal is how long a run that no process has stays open while it cannot be continued for
// a reason that does not pass by itself, such as a network or agent that the configuration does
// not have any more: another host, or the next configuration, may have it. Then it is given up.
const MaxRefusal = 10 * time.Minute

// givenUpRuns ends the runs of a registry that no host continues. It is safe for concurrent use.
type givenUpRuns struct {
	opts   *Options
	shared *Journal    // nil unless the journal is one of a cluster
	stored *eventStore // may be nil
	runs   *liveRuns

	mu      sync.Mutex
	refused map[runKey]refusal // runs that could not be continued for a reason that does not pass by itself
}

func newGivenUpRuns(o *Options, shared *Journal, stored *eventStore, runs *liveRuns) *givenUpRuns {
	return &givenUpRuns{opts: o, shared: shared, stored: stored, runs: runs, refused: map[runKey]refusal{}}
}

// refusal is the time during which a run was refused.
type refusal struct{ first, last time.Time }

// ended reports whether a run is refused no more at now: another host has it, or had it.
func (f refusal) ended(now time.Time) bool { return now.Sub(f.last) > 2*maxStrandedDelay }

// check returns the error of a run that was not continued because of err, and gives the run
// up if that reason has not passed for MaxRefusal.
func (g *givenUpRuns) check(ctx context.Context, rec *host.RunRecord, err error) error {
	key := runKey{rec.Tenant, rec.Run}
	if err == nil || passes(err) {
		g.remove(key)
		return err
	}
	if !g.add(key, time.Now()) {
		return err
	}
	if err := g.giveUp(ctx, rec, errGivenUp(rec, err)); err != nil {
		return err
	}
	g.remove(key)
	return nil
}

// giveUp ends a run that no host continues, with a last event and in the journal. The event is
// stored first: the journal has the run until then, so that another host gives it up if this
// one is killed between the two, and finds the event if it is there: see finish.
func (g *givenUpRuns) giveUp(ctx context.Context, rec *host.RunRecord, why *host.Error) error {
	taken, err := g.endRun(ctx, rec, func() error { return g.showEnd(ctx, rec, why) })
	if taken {
		g.opts.Logger.ErrorContext(ctx, "run given up", "run", rec.Run, "tenant", rec.Tenant, "reason", why, "error", err)
	}
	return err
}

// finish ends a run in the journal whose last event shows already that it was given up: by a
// host that was killed then. It reports whether the run is such a one, or whether the error
// leaves that open for now.
func (g *givenUpRuns) finish(ctx context.Context, rec *host.RunRecord) (bool, error) {
	shown, err := g.stored.showsGivenUp(ctx, rec)
	if err != nil || !shown {
		return passes(err), err
	}
	_, err = g.endRun(ctx, rec, func() error { return nil })
	return true, err
}

// endRun takes a run and ends it in the journal, after show. It reports whether no other host
// has, or had, the run.
func (g *givenUpRuns) endRun(ctx context.Context, rec *host.RunRecord, show func() error) (taken bool, err error) {
	ref := rec.Ref
	if ref.Fence, err = g.opts.Journal.TakeRun(ctx, ref, runlog.AnySteps); err == nil {
		if err = show(); err == nil {
			err = g.opts.Journal.EndRun(ctx, ref, host.RunEnded, nil)
		} else if g.shared != nil {
			g.shared.setOpen(ref, false) // this member tries it again
		}
	}
	if code := host.CodeOf(err); code == host.Conflict || code == host.NotFound {
		return false, nil
	}
	return true, err
}

// showLost shows the end of a run that its journal does not have any more since the run could
// not be continued, such as one whose thread has moved on. Of a cluster another member may have
// ended it otherwise.
func (g *givenUpRuns) showLost(ctx context.Context, rec *host.RunRecord, why error) {
	if g.shared != nil {
		return
	}
	if _, err := g.opts.Journal.ReadRun(ctx, rec.Tenant, rec.Run); host.CodeOf(err) == host.NotFound {
		if err := g.showEnd(ctx, rec, fault.AsError(why)); err != nil {
			g.opts.Logger.WarnContext(ctx, "a run that cannot be continued is shown without its end", "run", rec.Run, "tenant", rec.Tenant, "error", err)
		}
	}
}

// showEnd stores the last event of a run that this registry ends in the journal without having
// run it: it can be listed and read like one that has failed here. Code unavailable if the
// store does not take the event.
func (g *givenUpRuns) showEnd(ctx context.Context, rec *host.RunRecord, why *host.Error) error {
	l := givenUpRun(g.opts, rec)
	l.fail(why, func() (*runLog, int64) { return g.stored.begin(ctx, l, g.shared, true) })
	l.storedLog().end(l.last)
	if err := l.storedLog().storeEnd(ctx); err != nil {
		return err
	}
	if err := g.runs.addEnded(l); err != nil {
		g.opts.Logger.WarnContext(ctx, "a run that was given up is in no list", "run", rec.Run, "tenant", rec.Tenant, "error", err)
	}
	return nil
}

// givenUpRun returns a run of the journal that this registry is to end.
func givenUpRun(o *Options, rec *host.RunRecord) *liveRun {
	l := &liveRun{begun: make(chan struct{}), over: make(chan struct{}), cancel: func(error) {}}
	l.events.kept = o.Kept
	l.info = Run{Tenant: rec.Tenant, ID: rec.Run, Thread: rec.Thread, Branch: rec.Branch, Target: rec.Target, Status: Running, Durable: true, Started: rec.Created}
	return l
}

// fail ends a run that does not run here with an error. begin is that of follow.
func (l *liveRun) fail(why *host.Error, begin func() (*runLog, int64)) {
	ev := host.Event{
		Seq: l.beginLog(begin), Time: time.Now().UTC(), Run: l.info.ID,
		Data: &runevent.RunFinished{FinishReason: chat.FinishFailed, Thread: l.info.Thread, Error: why},
	}
	l.note(ev)
	l.events.add(ev)
	l.last = &ev
	l.end(why, nil)
	close(l.begun)
	close(l.over)
}

// add records that a run was refused at now, and reports whether it has been for MaxRefusal.
// Runs beyond maxStranded wait until others are given up.
func (g *givenUpRuns) add(key runKey, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	run, known := g.refused[key]
	if !known && len(g.refused) >= maxStranded {
		maps.DeleteFunc(g.refused, func(_ runKey, of refusal) bool { return of.ended(now) })
		if len(g.refused) >= maxStranded {
			return false
		}
	}
	if !known || run.ended(now) {
		run.first = now
	}
	run.last = now
	g.refused[key] = run
	return now.Sub(run.first) >= MaxRefusal
}

// remove forgets a run.
func (g *givenUpRuns) remove(key runKey) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.refused, key)
}

// dropTenant forgets the runs of a tenant.
func (g *givenUpRuns) dropTenant(tenant string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.DeleteFunc(g.refused, func(key runKey, _ refusal) bool { return key.tenant == tenant })
}

func errGivenUp(rec *host.RunRecord, cause error) *host.Error {
	code := host.FailedPrecondition
	if host.CodeOf(cause) == host.DataLoss {
		code = host.DataLoss
	}
	return host.Errorf(code, "run %.100q was given up, as no host could continue it for %s: %w", rec.Run, MaxRefusal, cause).
		WithHint("mend the cause, and send the input again")
}

func errTooManyOwners(rec *host.RunRecord) *host.Error {
	e := host.Errorf(host.ResourceExhausted, "run %.100q was given up: %d hosts have ended while they ran it", rec.Run, rec.Fence).
		WithHint("look in the logs of these hosts for what ended them before the input is sent again")
	e.Limit = "MaxOwners"
	return e
}

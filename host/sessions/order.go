package sessions

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads"
)

// MaxBackgroundOfSession is how many turns of one session may be in the background
// at one time.
const MaxBackgroundOfSession = 64

// maxForeignWaits is how many turns of one session wait in this service for
// background turns of other processes.
const maxForeignWaits = threads.DefaultMaxWaiting + MaxBackgroundOfSession

// firstPoll is the first wait between two reads of the record of a turn in another
// process; the wait doubles up to pollEvery.
const firstPoll = 10 * time.Millisecond

// turnOrder runs the turns of a session one after the other: background turns in the
// order in which they were acknowledged, and every other turn after those that were
// acknowledged before it came.
//
// In one process the places in the queue of the session's thread keep that order. The
// stored order is for turns of a process that ended, and of other processes: a turn
// that finds one of them ahead of itself gives the thread back until that one has
// ended, and takes it over if its process is gone.
type turnOrder struct {
	threads *threads.Store
	records *records
	running *runningTurns
	// takeOver continues a turn whose process is gone. lent says that the turn which
	// waits for it lends it its room under the limit.
	takeOver func(ctx context.Context, tenant string, p *record, revision uint64, lent bool) (bool, error)

	mu           sync.Mutex
	foreignWaits map[runKey]int // turns that wait for turns of other processes, by session
}

// lock waits until a turn is first and returns with the session's thread locked.
func (o *turnOrder) lock(ctx context.Context, req *host.HistoryRequest) (unlock func(), err error) {
	before, _, err := o.records.order(ctx, req.Tenant, req.Thread)
	if err != nil {
		return nil, err
	}
	place, err := o.threads.TakePlace(ctx, req)
	if err != nil {
		return nil, err
	}
	return o.lockFrom(ctx, req, place, func(runs []string) []string {
		return slices.DeleteFunc(runs, func(run string) bool { return !slices.Contains(before, run) && o.running.beganHere(req.Tenant, run) })
	})
}

// lockFrom is lock for a turn that has a place in the queue of the thread. ahead
// picks those of the session's background turns that go first.
func (o *turnOrder) lockFrom(ctx context.Context, req *host.HistoryRequest, place *threads.Place, ahead func(runs []string) []string) (unlock func(), err error) {
	background := o.running.find(req.Tenant, req.Run) != nil
	for {
		unlock, run, err := o.lockIfFirst(ctx, req, place, ahead)
		switch {
		case err == nil && run == "":
			return unlock, nil
		case err == nil && req.Racing != "" && req.Racing != host.RaceWait:
			return nil, host.Errorf(host.Conflict, "another turn of session %.100q is in the background", req.Thread)
		case err == nil:
			err = o.waitForForeign(ctx, req, run)
		}
		if err == nil {
			place, err = o.threads.TakePlace(ctx, req)
		}
		for background && host.CodeOf(err) == host.ResourceExhausted { // it was acknowledged, so it waits for a place
			if err = o.running.waitFor(ctx, req.Tenant, "", pollEvery); err == nil {
				place, err = o.threads.TakePlace(ctx, req)
			}
		}
		if err != nil {
			return nil, err
		}
	}
}

// lockIfFirst waits for a place in the queue of a thread. If a background turn goes
// first, it unlocks the thread and returns the run of that turn.
func (o *turnOrder) lockIfFirst(ctx context.Context, req *host.HistoryRequest, place *threads.Place, ahead func([]string) []string) (unlock func(), run string, err error) {
	if unlock, err = place.Lock(ctx); err != nil {
		return nil, "", err
	}
	if run, err = o.firstOpen(ctx, req, ahead); err != nil || run != "" {
		unlock()
		return nil, run, err
	}
	return unlock, "", nil
}

// firstOpen returns the first run ahead of a turn that has not ended; empty if all
// have.
func (o *turnOrder) firstOpen(ctx context.Context, req *host.HistoryRequest, ahead func([]string) []string) (string, error) {
	runs, _, err := o.records.order(ctx, req.Tenant, req.Thread)
	if err != nil || len(runs) == 0 {
		return "", err
	}
	for _, run := range ahead(runs) {
		p, _, err := o.records.readUndamaged(ctx, req.Tenant, run)
		if err != nil {
			return "", err
		}
		if p != nil && !p.Status.Settled() {
			return run, nil
		}
	}
	return "", nil
}

// waitForForeign waits for the end of a background turn, without a place in the
// queue of the thread, which that turn takes.
func (o *turnOrder) waitForForeign(ctx context.Context, req *host.HistoryRequest, run string) error {
	done, err := o.countForeignWait(req)
	if err != nil {
		return err
	}
	defer done()
	for poll := firstPoll; ; poll = min(2*poll, pollEvery) {
		p, revision, err := o.records.readUndamaged(ctx, req.Tenant, run)
		if err != nil || p == nil || p.Status.Settled() {
			return err
		}
		if err := o.takeOverAhead(ctx, req, p, revision); err != nil {
			return err
		}
		if err := o.running.waitFor(ctx, req.Tenant, run, poll); err != nil {
			return err
		}
	}
}

// countForeignWait counts a turn that begins to wait. Code resource_exhausted if too
// many of its session do.
func (o *turnOrder) countForeignWait(req *host.HistoryRequest) (done func(), err error) {
	key := runKey{req.Tenant, req.Thread}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.foreignWaits[key] >= maxForeignWaits {
		return nil, host.Errorf(host.ResourceExhausted, "session %.100q: %d turns wait for it already", req.Thread, maxForeignWaits).
			WithHint("send the next message when an answer has come")
	}
	o.foreignWaits[key]++
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.foreignWaits[key]--; o.foreignWaits[key] == 0 {
			delete(o.foreignWaits, key)
		}
	}, nil
}

// takeOverAhead continues a background turn whose process is gone and that another
// turn waits for.
func (o *turnOrder) takeOverAhead(ctx context.Context, req *host.HistoryRequest, p *record, revision uint64) error {
	if !o.records.expired(ctx, p) || o.running.find(req.Tenant, p.Run) != nil {
		return nil
	}
	background := o.running.find(req.Tenant, req.Run) != nil
	if p.Agent != o.records.agent {
		if background { // it has time
			return nil
		}
		return host.Errorf(host.FailedPrecondition, "session %.100q has a turn of agent %.100q in the background, %.300q, whose host is gone", req.Thread, p.Agent, SnapshotID(p.Session, p.Run)).
			WithHint("abort it, or let a host of that agent recover it")
	}
	// A background turn lends its room: the limit MaxBackground could be full of turns
	// that wait like this one. Each waits for one at a time, so there are at most twice
	// as many, half of which wait.
	_, err := o.takeOver(ctx, req.Tenant, p, revision, background)
	switch host.CodeOf(err) {
	case host.Conflict, host.ResourceExhausted: // another process was faster, or there is no room yet
		return nil
	}
	return err
}

package runs

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
)

// strandedEvery is how often a registry without a cluster tries to continue the durable runs
// that it lost, and strandedTimeout bounds one look at the journal.
const (
	strandedEvery   = 5 * time.Second
	strandedTimeout = 5 * time.Second
)

// strandedRuns are durable runs of a process which is alone, that do not run and that its
// journal has: their last commits failed, since the device was full or the store did not
// answer, or an earlier process was killed and they cannot be continued yet. The members of a
// cluster continue theirs in their sweeps. It is safe for concurrent use.
type strandedRuns struct {
	journal  host.Journal
	takeOver func(ctx context.Context, rec *host.RunRecord) error
	runs     *liveRuns
	logger   *slog.Logger
	timers   sync.WaitGroup

	mu      sync.Mutex
	waiting map[runKey]*liveRun // with the run that has ended here, if the journal did not answer then
	timer   *time.Timer         // nil if no run waits
	closed  bool
}

// newStrandedRuns returns those of a registry; nil if it cannot continue runs.
func newStrandedRuns(r *Registry) *strandedRuns {
	if r.shared != nil || r.opts.Journal == nil || r.opts.Target == nil {
		return nil
	}
	return &strandedRuns{journal: r.opts.Journal, takeOver: r.takeOver, runs: r.runs, logger: r.opts.Logger, waiting: map[runKey]*liveRun{}}
}

// fate says where a run stands that has ended here.
type fate int

const (
	hasEnded  fate = iota
	continues      // it is open in the journal: another host has it, or this one continues it
	unknown        // the journal does not answer
)

// add returns the fate of a run that has failed here, and has it continued if the journal has
// it as open, or may have.
func (s *strandedRuns) add(l *liveRun) fate {
	info := l.snapshot()
	if s == nil || !info.Durable || info.Status != Failed {
		return hasEnded
	}
	ctx, cancel := context.WithTimeout(context.Background(), strandedTimeout)
	defer cancel()
	key := runKey{info.Tenant, info.ID}
	rec, err := s.journal.ReadRun(ctx, key.tenant, key.run)
	switch {
	case host.CodeOf(err) == host.NotFound || err == nil && rec.Status != host.RunOpen:
		return hasEnded
	case err == nil && s.tryLater(key, nil):
		return continues
	case err != nil && s.tryLater(key, l):
		return unknown
	}
	return hasEnded
}

// tryLater has a run continued soon, unless the registry is being closed.
func (s *strandedRuns) tryLater(key runKey, ended *liveRun) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.waiting[key] = ended
	s.schedule()
	return true
}

// continueNow continues a run, or tries it again soon where that may succeed later. A run
// that waits for its next try is left alone.
func (s *strandedRuns) continueNow(ctx context.Context, rec *host.RunRecord) error {
	key := runKey{rec.Tenant, rec.Run}
	s.mu.Lock()
	_, waits := s.waiting[key]
	s.mu.Unlock()
	if waits || s.runs.find(key.tenant, key.run) != nil {
		return nil
	}
	err := s.takeOver(ctx, rec)
	switch host.CodeOf(err) {
	case host.Unavailable, host.ResourceExhausted, host.DeadlineExceeded:
		s.logger.WarnContext(ctx, "an interrupted run does not continue yet", "run", key.run, "tenant", key.tenant, "error", err)
		if s.tryLater(key, nil) {
			return nil
		}
	}
	return err
}

// schedule has the runs looked at soon. s.mu is held.
func (s *strandedRuns) schedule() {
	if s.timer != nil || s.closed || len(s.waiting) == 0 {
		return
	}
	s.timers.Add(1)
	s.timer = time.AfterFunc(strandedEvery, func() {
		defer s.timers.Done()
		s.continueAll()
	})
}

// continueAll tries to continue each run.
func (s *strandedRuns) continueAll() {
	s.mu.Lock()
	tries := s.waiting
	s.waiting = map[runKey]*liveRun{} // a run that fails again while it is continued is added again
	s.mu.Unlock()
	for key, ended := range tries {
		if s.continueRun(key, ended) {
			delete(tries, key)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(s.waiting, tries)
	s.timer = nil
	s.schedule()
}

// continueRun reports whether a run continues, or need not.
func (s *strandedRuns) continueRun(key runKey, ended *liveRun) bool {
	ctx, cancel := context.WithTimeout(context.Background(), strandedTimeout)
	defer cancel()
	err := s.resumeOpen(ctx, key, ended)
	if err != nil {
		s.logger.WarnContext(ctx, "a durable run whose last commit failed does not continue yet", "run", key.run, "tenant", key.tenant, "error", err)
	}
	return err == nil
}

// resumeOpen continues a run unless it has ended.
func (s *strandedRuns) resumeOpen(ctx context.Context, key runKey, ended *liveRun) error {
	rec, err := s.journal.ReadRun(ctx, key.tenant, key.run)
	switch {
	case host.CodeOf(err) == host.NotFound || err == nil && rec.Status != host.RunOpen:
		if ended != nil {
			ended.storedLog().end(ended.last)
		}
		return nil
	case err != nil:
		return err
	}
	if ended != nil {
		ended.storedLog().stop()
		s.runs.remove(ended)
	}
	return s.takeOver(ctx, rec)
}

// close ends the tries.
func (s *strandedRuns) close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.closed = true
	if s.timer != nil && s.timer.Stop() {
		s.timers.Done()
	}
	s.mu.Unlock()
	s.timers.Wait()
}

// dropTenant forgets the runs of a tenant that is being erased.
func (s *strandedRuns) dropTenant(tenant string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.waiting {
		if key.tenant == tenant {
			delete(s.waiting, key)
		}
	}
}

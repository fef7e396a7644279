package runs

import (
	"context"
	"log/slog"
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

// strandedRuns are durable runs that have ended in a process which is alone, and that its
// journal still has: their last commits failed, since the device was full or the store did
// not answer. The members of a cluster continue theirs in their sweeps. It is safe for
// concurrent use.
type strandedRuns struct {
	journal host.Journal
	resume  func(ctx context.Context, rec *host.RunRecord) error
	logger  *slog.Logger
	timers  sync.WaitGroup

	mu      sync.Mutex
	waiting map[runKey]bool
	timer   *time.Timer // nil if no run waits
	closed  bool
}

// newStrandedRuns returns those of a registry; nil if it cannot continue runs.
func newStrandedRuns(r *Registry) *strandedRuns {
	if r.shared != nil || r.opts.Journal == nil || r.opts.Target == nil {
		return nil
	}
	return &strandedRuns{journal: r.opts.Journal, resume: r.takeOver, logger: r.opts.Logger, waiting: map[runKey]bool{}}
}

// add reports whether the journal still has a run that has failed here, and has it continued.
func (s *strandedRuns) add(l *liveRun) bool {
	info := l.snapshot()
	if s == nil || !info.Durable || info.Status != Failed {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), strandedTimeout)
	defer cancel()
	rec, err := s.journal.ReadRun(ctx, info.Tenant, info.ID)
	if host.CodeOf(err) == host.NotFound || err == nil && rec.Status != host.RunOpen {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.waiting[runKey{info.Tenant, info.ID}] = true
	s.schedule()
	return true
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
	keys := make([]runKey, 0, len(s.waiting))
	for key := range s.waiting {
		keys = append(keys, key)
	}
	s.waiting = map[runKey]bool{} // a run that fails again while it is continued is added again
	s.mu.Unlock()
	var failed []runKey
	for _, key := range keys {
		if !s.continueRun(key) {
			failed = append(failed, key)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range failed {
		s.waiting[key] = true
	}
	s.timer = nil
	s.schedule()
}

// continueRun reports whether a run continues, or need not.
func (s *strandedRuns) continueRun(key runKey) bool {
	ctx, cancel := context.WithTimeout(context.Background(), strandedTimeout)
	defer cancel()
	err := s.resumeOpen(ctx, key)
	if err != nil {
		s.logger.WarnContext(ctx, "a durable run whose last commit failed does not continue yet", "run", key.run, "tenant", key.tenant, "error", err)
	}
	return err == nil
}

// resumeOpen continues a run unless it has ended, or failed too often.
func (s *strandedRuns) resumeOpen(ctx context.Context, key runKey) error {
	rec, err := s.journal.ReadRun(ctx, key.tenant, key.run)
	switch {
	case host.CodeOf(err) == host.NotFound:
		return nil
	case err != nil:
		return err
	case rec.Status != host.RunOpen:
		return nil
	case rec.Fence >= MaxOwners:
		s.logger.ErrorContext(ctx, "a durable run does not continue: its last commits failed too often", "run", key.run, "tenant", key.tenant, "times", rec.Fence)
		return nil
	}
	return s.resume(ctx, rec)
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

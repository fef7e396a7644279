package runs

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
)

// The bounds of a registry without a cluster that continues the durable runs which it lost.
const (
	strandedEvery    = 5 * time.Second // between tries of a run at first; each failed one doubles it
	maxStrandedDelay = time.Minute     // between tries of a run
	strandedTimeout  = 5 * time.Second // of one look at the journal
	maxStranded      = 10_000          // runs that wait; others continue when the process starts again
)

// strandedRuns are durable runs of a process which is alone, that do not run and that its
// journal has: their last commits failed, since the device was full or the store did not
// answer, or an earlier process was killed and they cannot be continued yet. The members of a
// cluster continue theirs in their sweeps. It is safe for concurrent use.
type strandedRuns struct {
	ctx      context.Context // the lifetime of the tries: ends with Drain
	journal  host.Journal
	takeOver func(ctx context.Context, rec *host.RunRecord) error
	runs     *liveRuns
	logger   *slog.Logger
	timers   sync.WaitGroup

	mu      sync.Mutex
	waiting map[runKey]*strandedRun
	timer   *time.Timer // nil if no run waits
	closed  bool
}

// strandedRun is a run that is to be continued.
type strandedRun struct {
	refused error         // of the last try, for a reason that does not pass by itself
	ended   *liveRun      // the run that has ended here, if the journal did not answer then
	delay   time.Duration // before the next try
	next    time.Time     // the next try, at the earliest
}

// newStrandedRuns returns those of a registry; nil if it cannot continue runs.
func newStrandedRuns(r *Registry) *strandedRuns {
	if r.shared != nil || r.opts.Journal == nil || r.opts.Target == nil {
		return nil
	}
	return &strandedRuns{ctx: r.ctx, journal: r.opts.Journal, takeOver: r.takeOver, runs: r.runs, logger: r.opts.Logger, waiting: map[runKey]*strandedRun{}}
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
	case err == nil && s.tryLater(key, &strandedRun{delay: strandedEvery}):
		return continues
	case err != nil && s.tryLater(key, &strandedRun{ended: l, delay: strandedEvery}):
		return unknown
	}
	return hasEnded
}

// tryLater has a run continued soon, unless the registry is being closed or too many wait.
func (s *strandedRuns) tryLater(key runKey, run *strandedRun) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.waiting) >= maxStranded {
		return false
	}
	s.waiting[key] = run
	s.schedule()
	return true
}

// passes reports whether a run that cannot be continued for a reason may be later.
func passes(err error) bool {
	switch host.CodeOf(err) {
	case host.Unavailable, host.ResourceExhausted, host.DeadlineExceeded, host.Canceled, host.Internal:
		return true
	}
	return false
}

// continueNow continues a run, or has it tried again soon. A run that waits for its next try
// is left alone. The error is that of a run which was refused for a reason that does not pass
// by itself.
func (s *strandedRuns) continueNow(ctx context.Context, rec *host.RunRecord) error {
	key := runKey{rec.Tenant, rec.Run}
	if waits, refused := s.waits(key); waits {
		return refused
	}
	if s.runs.find(key.tenant, key.run) != nil {
		return nil
	}
	err := s.takeOver(ctx, rec)
	if err == nil {
		return nil
	}
	s.logger.WarnContext(ctx, "an interrupted run does not continue yet", "run", key.run, "tenant", key.tenant, "error", err)
	refused := err
	if passes(err) {
		refused = nil
	}
	if s.tryLater(key, &strandedRun{delay: strandedEvery, refused: refused}) {
		return refused
	}
	return err
}

// waits reports whether a run waits for its next try, and why it was refused at the last one.
func (s *strandedRuns) waits(key runKey) (waits bool, refused error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if run := s.waiting[key]; run != nil {
		return true, run.refused
	}
	return false, nil
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

// continueAll tries to continue each run whose time has come.
func (s *strandedRuns) continueAll() {
	for key, run := range s.due(time.Now()) {
		err := s.continueRun(key, run)
		switch {
		case err == nil || s.ctx.Err() != nil:
		default:
			s.logger.WarnContext(s.ctx, "a durable run does not continue yet", "run", key.run, "tenant", key.tenant, "error", err, "again", run.delay)
			if run.refused = nil; !passes(err) {
				run.refused = err
			}
			s.wait(key, run)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = nil
	s.schedule()
}

// due takes the runs out whose time has come. A run that fails again while it is continued is
// added again.
func (s *strandedRuns) due(now time.Time) map[runKey]*strandedRun {
	s.mu.Lock()
	defer s.mu.Unlock()
	tries := map[runKey]*strandedRun{}
	for key, run := range s.waiting {
		if !run.next.After(now) {
			tries[key] = run
			delete(s.waiting, key)
		}
	}
	return tries
}

// wait has a run tried again after a longer time, unless it was added meanwhile.
func (s *strandedRuns) wait(key runKey, run *strandedRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting[key] == nil {
		run.next = time.Now().Add(run.delay)
		run.delay = min(2*run.delay, maxStrandedDelay)
		s.waiting[key] = run
	}
}

// continueRun continues a run unless it has ended.
func (s *strandedRuns) continueRun(key runKey, run *strandedRun) error {
	ctx, cancel := context.WithTimeout(s.ctx, strandedTimeout)
	defer cancel()
	rec, err := s.journal.ReadRun(ctx, key.tenant, key.run)
	switch {
	case host.CodeOf(err) == host.NotFound || err == nil && rec.Status != host.RunOpen:
		run.endLog()
		return nil
	case host.CodeOf(err) == host.DataLoss:
		s.logger.ErrorContext(ctx, "a durable run cannot be continued: its record is damaged", "run", key.run, "tenant", key.tenant, "error", err)
		run.endLog()
		return nil
	case err != nil:
		return err
	}
	if run.ended != nil {
		run.ended.storedLog().stop()
		s.runs.remove(run.ended)
		run.ended = nil
	}
	return s.takeOver(ctx, rec)
}

// endLog writes the end of a run that has ended here behind its events.
func (r *strandedRun) endLog() {
	if r.ended != nil {
		r.ended.storedLog().end(r.ended.last)
	}
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

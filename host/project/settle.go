package project

import (
	"context"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/runlog"
	"github.com/agenthost/agenthost/host/runs"
	"github.com/agenthost/agenthost/host/threads"
)

// The pace at which runs whose questions have expired are settled.
const (
	settleEvery  = 5 * time.Minute  // between two looks at all tenants
	settleSoon   = 10 * time.Second // between two looks at the tenants with runs that the last one has left
	settlingTime = 5 * time.Second  // of one tenant in one look
	settlingRuns = 4                // of one tenant that are continued at one time, of any host
	orphanTime   = time.Hour        // after which a run ends whose network or agent is gone: another host may have it yet
)

// settlement continues or ends runs whose questions have expired, in the background: those of
// approvals with a timeout, and those of unstored runs whose clients do not come back.
type settlement struct {
	threads    *threads.Store
	runs       settledRuns
	target     func(name string) (host.Target, error)
	partitions func(context.Context) iter.Seq2[string, error] // all tenants that have data
	logger     *slog.Logger

	live  map[string]chan struct{} // places of the runs that were continued and have not ended, by tenant
	after map[string]string        // the run behind which the next look begins, of tenants with runs that were left
	work  sync.WaitGroup           // waits for the ends of runs
}

// settledRuns is what a settlement needs of a [runs.Registry].
type settledRuns interface {
	Waiting(ctx context.Context, tenant, id string) (*runs.Run, error)
	Answer(ctx context.Context, tenant, id string, answers []host.Answer, opts *runs.StartOptions) (*runs.Run, error)
	Wait(ctx context.Context, tenant, id string) (*runs.Run, error)
}

func newSettlement(runs settledRuns, threads *threads.Store, target func(string) (host.Target, error), partitions func(context.Context) iter.Seq2[string, error], logger *slog.Logger) *settlement {
	return &settlement{
		threads: threads, runs: runs, target: target, partitions: partitions, logger: logger,
		live: map[string]chan struct{}{}, after: map[string]string{},
	}
}

// run settles now and every settleEvery, until ctx ends.
func (s *settlement) run(ctx context.Context) {
	defer s.work.Wait()
	every, soon := time.NewTicker(settleEvery), time.NewTicker(settleSoon)
	defer every.Stop()
	defer soon.Stop()
	s.settle(ctx)
	for {
		select {
		case <-every.C:
			s.settle(ctx)
		case <-soon.C:
			for _, tenant := range slices.Sorted(maps.Keys(s.after)) {
				s.settleTenant(ctx, tenant)
			}
		case <-ctx.Done():
			return
		}
	}
}

// settle resumes the runs of all tenants whose questions have expired. A run that cannot be
// resumed now is tried again the next time.
func (s *settlement) settle(ctx context.Context) {
	for tenant, err := range s.partitions(ctx) {
		if err != nil {
			s.failed(ctx, tenant, err)
			continue
		}
		s.settleTenant(ctx, tenant)
	}
}

func (s *settlement) failed(ctx context.Context, tenant string, err error) {
	if ctx.Err() == nil {
		s.logger.WarnContext(ctx, "settle runs whose questions have expired", "tenant", tenant, "error", err)
	}
}

// settleTenant resumes the runs of a tenant, settlingRuns at a time, and leaves those that
// settlingTime is too short for to the next look: other tenants have their turn.
func (s *settlement) settleTenant(ctx context.Context, tenant string) {
	places := s.live[tenant]
	if places == nil {
		places = make(chan struct{}, settlingRuns)
		s.live[tenant] = places
	}
	defer func() {
		if len(places) == 0 {
			delete(s.live, tenant)
		}
	}()
	turn, end := context.WithTimeout(ctx, settlingTime)
	defer end()
	due := host.WaitingFilter{Due: time.Now(), After: s.after[tenant]}
	delete(s.after, tenant)
	for {
		page, err := s.threads.WaitingRuns(ctx, tenant, due)
		if err != nil {
			s.failed(ctx, tenant, err)
			return
		}
		for _, rec := range page {
			select {
			case places <- struct{}{}:
			case <-turn.Done():
			}
			if turn.Err() != nil {
				s.after[tenant] = due.After
				return
			}
			s.settleRun(ctx, rec, places)
			due.After = rec.Run
		}
		if len(page) < host.MaxWaitingRuns {
			return
		}
	}
}

// settleRun resumes a run without answers: its expired questions have their defaults, or end
// it. The run has one of its tenant's places, until it ends.
func (s *settlement) settleRun(ctx context.Context, rec *host.RunRecord, places <-chan struct{}) {
	begun, err := s.resume(ctx, rec)
	if begun != nil {
		s.work.Go(func() {
			defer func() { <-places }()
			_, _ = s.runs.Wait(ctx, begun.Tenant, begun.ID) // a run that fails says so itself
		})
		return
	}
	<-places
	if err != nil && ctx.Err() == nil {
		s.logger.WarnContext(ctx, "settle a run whose question has expired", "tenant", rec.Tenant, "run", rec.Run, "error", err)
	}
}

// resume begins the run that continues or ends another. It returns nil, without an error, for a
// run that asks another question, which has not expired, for one that has ended, and for one that
// another host has resumed first.
func (s *settlement) resume(ctx context.Context, rec *host.RunRecord) (*runs.Run, error) {
	if _, err := s.target(rec.Target); err != nil {
		return nil, s.endOrphan(ctx, rec, err)
	}
	waits, err := s.waitsForOthers(ctx, rec)
	var begun *runs.Run
	if err == nil && !waits {
		begun, err = s.runs.Answer(ctx, rec.Tenant, rec.Run, nil, nil)
	}
	switch host.CodeOf(err) {
	case host.Conflict, host.NotFound, host.AlreadyExists, host.DeadlineExceeded:
		return nil, nil
	}
	return begun, err
}

// waitsForOthers reports whether a run asks, beside its expired questions with defaults,
// another that must be answered with them.
func (s *settlement) waitsForOthers(ctx context.Context, rec *host.RunRecord) (bool, error) {
	run, err := s.runs.Waiting(ctx, rec.Tenant, rec.Run)
	if err != nil {
		return false, err
	}
	answers, over, err := runlog.Settle(run.Questions, nil, time.Now())
	return err == nil && over == nil && len(answers) < len(run.Questions), err
}

// endOrphan ends a run whose network or agent the configuration does not have any more, once its
// question has expired for orphanTime. missing is the error that names it.
func (s *settlement) endOrphan(ctx context.Context, rec *host.RunRecord, missing error) error {
	before := time.Now().Add(-orphanTime)
	if host.CodeOf(missing) != host.NotFound || !(host.WaitingFilter{Due: before}).Takes(rec.Asks) {
		return missing
	}
	err := s.threads.For(rec.Tenant).DropWaiting(ctx, rec.Run)
	switch host.CodeOf(err) {
	case "":
		s.logger.WarnContext(ctx, "ended a run whose question has expired: its network or agent is gone", "tenant", rec.Tenant, "run", rec.Run, "target", rec.Target)
		return nil
	case host.Conflict, host.NotFound:
		return nil
	}
	return err
}

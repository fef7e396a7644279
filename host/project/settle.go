package project

import (
	"context"
	"iter"
	"log/slog"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/runs"
	"github.com/agenthost/agenthost/host/threads"
)

// settleEvery is the time between two looks for questions that have expired.
const settleEvery = 5 * time.Minute

// settlement continues or ends runs whose questions have expired, in the background: those of
// approvals with a timeout, and those of unstored runs whose clients do not come back.
type settlement struct {
	threads    *threads.Store
	runs       *runs.Registry
	partitions func(context.Context) iter.Seq2[string, error] // all tenants that have data
	logger     *slog.Logger
}

// run settles now and every settleEvery, until ctx ends.
func (s *settlement) run(ctx context.Context) {
	ticks := time.NewTicker(settleEvery)
	defer ticks.Stop()
	for {
		s.settle(ctx)
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
	}
}

// settle resumes the runs of all tenants whose questions have expired. A run that cannot be
// resumed now is tried again the next time.
func (s *settlement) settle(ctx context.Context) {
	for tenant, err := range s.partitions(ctx) {
		if err == nil {
			err = s.settleTenant(ctx, tenant)
		}
		if err != nil && ctx.Err() == nil {
			s.logger.WarnContext(ctx, "settle runs whose questions have expired", "tenant", tenant, "error", err)
		}
	}
}

func (s *settlement) settleTenant(ctx context.Context, tenant string) error {
	due := host.WaitingFilter{Due: time.Now()}
	for {
		page, err := s.threads.WaitingRuns(ctx, tenant, due)
		if err != nil {
			return err
		}
		for _, rec := range page {
			if ctx.Err() != nil {
				return nil
			}
			s.settleRun(ctx, rec)
		}
		if len(page) < host.MaxWaitingRuns {
			return nil
		}
		due.After = page[len(page)-1].Run
	}
}

// settleRun resumes a run without answers: its expired questions have their defaults, or end
// it. The registry follows it to its end.
func (s *settlement) settleRun(ctx context.Context, rec *host.RunRecord) {
	_, err := s.runs.Answer(ctx, rec.Tenant, rec.Run, nil, nil)
	switch host.CodeOf(err) {
	case "", host.Conflict, host.NotFound, host.AlreadyExists, host.FailedPrecondition, host.InvalidArgument, host.DeadlineExceeded:
		return // it continues, has ended, or another host was faster; or it waits for another answer
	}
	if ctx.Err() == nil {
		s.logger.WarnContext(ctx, "settle a run whose question has expired", "tenant", rec.Tenant, "run", rec.Run, "error", err)
	}
}

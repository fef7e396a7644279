package journalguard_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/journalguard"
	"github.com/agenthost/agenthost/host/runlimit"
	"github.com/agenthost/agenthost/host/runlog"
)

// overdue is a context past its deadline that has not ended yet.
type overdue struct{ context.Context }

func (overdue) Deadline() (time.Time, bool) { return time.Unix(0, 0), true }

// punctual is a journal that looks at the clock.
type punctual struct{ runlog.Journal }

func (punctual) ReadRun(ctx context.Context, _, _ string) (*runlog.Record, error) {
	if deadline, ok := ctx.Deadline(); ok && time.Now().After(deadline) {
		return nil, context.DeadlineExceeded
	}
	return &runlog.Record{}, nil
}

func TestAJournalMaySeeTheDeadlineBeforeTheContextEnds(t *testing.T) {
	limits := runlimit.Default()
	g := journalguard.Guard{Journal: punctual{}, Limits: &limits, Logger: slog.New(slog.DiscardHandler)}
	if _, err := g.ReadRun(overdue{t.Context()}, "acme", "r"); fault.CodeOf(err) != fault.DeadlineExceeded || strings.Contains(err.Error(), "HistoryTimeout") {
		t.Errorf("ReadRun: %v, want code deadline_exceeded for the deadline of the caller", err)
	}
	if _, err := g.ReadRun(t.Context(), "acme", "r"); err != nil {
		t.Errorf("ReadRun in time: %v", err)
	}
}

package host

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/foreign"
)

// guardedJournal calls a journal within a time, and so that one that panics or
// never returns ends the run and not the process: see [foreign.Call].
type guardedJournal struct {
	journal Journal
	limits  *Limits
	logger  *slog.Logger
}

// callJournal calls a method of the journal.
func callJournal[T any](ctx context.Context, g *guardedJournal, method, run string, fn func(context.Context) (T, error)) (T, error) {
	var none T
	limit := commitLimit(g.limits)
	if method == "ReadRun" || method == "WaitingRuns" {
		limit = historyLimit(g.limits)
	}
	callCtx, cancel := context.WithTimeoutCause(ctx, limit.of, journalTimeout(limit))
	defer cancel()
	call := foreign.Call[T]{Who: "journal", Name: fmt.Sprintf("%T", g.journal), Method: method, Run: run, Logger: g.logger, Fn: fn}
	value, err := call.Await(callCtx)
	if err == nil || !foreign.EndedBy(callCtx, err) {
		return value, err
	}
	if ctx.Err() != nil {
		return none, fault.ContextError(ctx)
	}
	return none, &Error{Code: DeadlineExceeded, Retryable: true, Err: err, Message: context.Cause(callCtx).Error()}
}

// journalTimeout is why a call of a journal ends at the host's limit.
type journalTimeout timeLimit

func (t journalTimeout) Error() string {
	return "the journal took longer than the limit " + t.name + " of " + t.of.String()
}

// Is makes it a context.DeadlineExceeded.
func (journalTimeout) Is(target error) bool { return target == context.DeadlineExceeded }

// OwnText lets clients read the text.
func (journalTimeout) OwnText() {}

var _ fault.OwnText = journalTimeout{}

func (g *guardedJournal) CreateRun(ctx context.Context, rec *RunRecord) error {
	_, err := callJournal(ctx, g, "CreateRun", rec.Run, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, g.journal.CreateRun(ctx, rec)
	})
	return err
}

func (g *guardedJournal) ReadRun(ctx context.Context, tenant, run string) (*RunRecord, error) {
	rec, err := callJournal(ctx, g, "ReadRun", run, func(ctx context.Context) (*RunRecord, error) {
		return g.journal.ReadRun(ctx, tenant, run)
	})
	if err == nil && rec == nil {
		err = Errorf(Internal, "the journal returned no run and no error")
	}
	return rec, err
}

func (g *guardedJournal) TakeRun(ctx context.Context, ref RunRef) (int64, error) {
	return callJournal(ctx, g, "TakeRun", ref.Run, func(ctx context.Context) (int64, error) {
		return g.journal.TakeRun(ctx, ref)
	})
}

func (g *guardedJournal) AppendSteps(ctx context.Context, ref RunRef, at int, steps []json.RawMessage) error {
	_, err := callJournal(ctx, g, "AppendSteps", ref.Run, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, g.journal.AppendSteps(ctx, ref, at, steps)
	})
	return err
}

func (g *guardedJournal) EndRun(ctx context.Context, ref RunRef, status RunStatus, rest json.RawMessage) error {
	_, err := callJournal(ctx, g, "EndRun", ref.Run, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, g.journal.EndRun(ctx, ref, status, rest)
	})
	return err
}

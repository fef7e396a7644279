// Package journalguard calls journals of runs within a time, and so that one that panics
// or never returns ends the run and not the process: see package foreign.
package journalguard

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/foreign"
	"github.com/agenthost/agenthost/host/runlimit"
	"github.com/agenthost/agenthost/host/runlog"
)

// Guard calls a journal. Its zero value has none.
type Guard struct {
	Journal runlog.Journal
	Limits  *runlimit.Limits
	Logger  *slog.Logger
}

var (
	_ runlog.Journal        = (*Guard)(nil)
	_ runlog.QuestionKeeper = (*Guard)(nil)
)

// await calls a method of the journal.
func await[T any](ctx context.Context, g *Guard, method, run string, fn func(context.Context) (T, error)) (T, error) {
	var none T
	limit := timeout{"CommitTimeout", g.Limits.CommitTimeout}
	if method == "ReadRun" || method == "WaitingRuns" {
		limit = timeout{"HistoryTimeout", g.Limits.HistoryTimeout}
	}
	callCtx, cancel := context.WithTimeoutCause(ctx, limit.of, limit)
	defer cancel()
	call := foreign.Call[T]{Who: "journal", Name: fmt.Sprintf("%T", g.Journal), Method: method, Run: run, Logger: g.Logger, Fn: fn}
	value, err := call.Await(callCtx)
	if err == nil || !foreign.EndedBy(callCtx, err) {
		return value, err
	}
	if ctx.Err() != nil {
		return none, fault.ContextError(ctx)
	}
	// A journal may see a deadline before its context ends.
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return none, fault.AsError(context.DeadlineExceeded)
	}
	return none, &fault.Error{Code: fault.DeadlineExceeded, Retryable: true, Err: err, Message: limit.Error()}
}

// timeout is why a call of a journal ends at the host's limit.
type timeout struct {
	name string
	of   time.Duration
}

func (t timeout) Error() string {
	return "the journal took longer than the limit " + t.name + " of " + t.of.String()
}

// Is makes it a context.DeadlineExceeded.
func (timeout) Is(target error) bool { return target == context.DeadlineExceeded }

// OwnText lets clients read the text.
func (timeout) OwnText() {}

var _ fault.OwnText = timeout{}

// CreateRun implements the interface.
func (g *Guard) CreateRun(ctx context.Context, rec *runlog.Record) error {
	_, err := await(ctx, g, "CreateRun", rec.Run, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, g.Journal.CreateRun(ctx, rec)
	})
	return err
}

// ReadRun implements the interface.
func (g *Guard) ReadRun(ctx context.Context, tenant, run string) (*runlog.Record, error) {
	rec, err := await(ctx, g, "ReadRun", run, func(ctx context.Context) (*runlog.Record, error) {
		return g.Journal.ReadRun(ctx, tenant, run)
	})
	if err == nil && rec == nil {
		err = fault.Errorf(fault.Internal, "the journal returned no run and no error")
	}
	return rec, err
}

// TakeRun implements the interface.
func (g *Guard) TakeRun(ctx context.Context, ref runlog.Ref, steps int) (int64, error) {
	return await(ctx, g, "TakeRun", ref.Run, func(ctx context.Context) (int64, error) {
		return g.Journal.TakeRun(ctx, ref, steps)
	})
}

// AppendSteps implements the interface.
func (g *Guard) AppendSteps(ctx context.Context, ref runlog.Ref, at int, steps []json.RawMessage) error {
	_, err := await(ctx, g, "AppendSteps", ref.Run, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, g.Journal.AppendSteps(ctx, ref, at, steps)
	})
	return err
}

// EndRun implements the interface.
func (g *Guard) EndRun(ctx context.Context, ref runlog.Ref, status runlog.Status, rest json.RawMessage) error {
	_, err := await(ctx, g, "EndRun", ref.Run, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, g.Journal.EndRun(ctx, ref, status, rest)
	})
	return err
}

// LeaveRun stores the questions too, if the journal keeps them.
func (g *Guard) LeaveRun(ctx context.Context, ref runlog.Ref, rest json.RawMessage, asks []runlog.Asked) error {
	keeper, ok := g.Journal.(runlog.QuestionKeeper)
	if !ok {
		return g.EndRun(ctx, ref, runlog.Interrupted, rest)
	}
	_, err := await(ctx, g, "LeaveRun", ref.Run, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, keeper.LeaveRun(ctx, ref, rest, asks)
	})
	return err
}

// WaitingRuns implements the interface.
func (g *Guard) WaitingRuns(ctx context.Context, tenant string, filter runlog.WaitingFilter) ([]*runlog.Record, error) {
	keeper, ok := g.Journal.(runlog.QuestionKeeper)
	if !ok {
		return nil, fault.Errorf(fault.FailedPrecondition, "the journal finds no questions by their keys or times").
			WithHint("use one that is a QuestionKeeper, such as a threads.Store")
	}
	return await(ctx, g, "WaitingRuns", "", func(ctx context.Context) ([]*runlog.Record, error) {
		return keeper.WaitingRuns(ctx, tenant, filter)
	})
}

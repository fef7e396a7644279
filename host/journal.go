package host

import (
	"context"

	"github.com/agenthost/agenthost/host/internal/journalguard"
	"github.com/agenthost/agenthost/host/internal/replay"
	"github.com/agenthost/agenthost/host/runlog"
)

// The journal's contract is that of the package runlog, which stores import alone.
type (
	// Journal keeps the data of a run that must outlive its process: the questions of
	// an interrupted run with its checkpoint, and the steps of a durable one. See
	// [runlog.Journal] for its methods and promises.
	Journal = runlog.Journal

	// QuestionKeeper is an optional interface of a [Journal], so that questions are
	// found by their keys and times: see [runlog.QuestionKeeper].
	QuestionKeeper = runlog.QuestionKeeper

	// RunRecord is a run as a journal has it: see [runlog.Record].
	RunRecord = runlog.Record

	// RunRef names a run and its owner: see [runlog.Ref].
	RunRef = runlog.Ref

	// RunStatus is the status of a journaled run.
	RunStatus = runlog.Status

	// AskedQuestion is the record of a question in a [QuestionKeeper].
	AskedQuestion = runlog.Asked

	// WaitingFilter chooses runs that wait for answers: see [runlog.WaitingFilter].
	WaitingFilter = runlog.WaitingFilter
)

// The statuses of a run.
const (
	RunOpen        = runlog.Open        // it is running, or its process has ended
	RunInterrupted = runlog.Interrupted // it waits for answers
	RunAnswered    = runlog.Answered    // another run continues with the answers
	RunEnded       = runlog.Ended
)

// MaxWaitingRuns is how many runs a [QuestionKeeper] returns at once.
const MaxWaitingRuns = runlog.MaxWaitingRuns

// journalOf returns the journal of a network's runs, or nil: the host's, or its
// history's. It is guarded: see [journalguard.Guard].
func (h *Host) journalOf(history *History) *journalguard.Guard {
	if g := h.guardJournal(history); g.Journal != nil {
		return &g
	}
	return nil
}

// guardJournal is journalOf without an allocation for a host without a journal.
func (h *Host) guardJournal(history *History) journalguard.Guard {
	j := h.opts.Journal
	if j == nil && history != nil {
		j = history.journal
	}
	return journalguard.Guard{Journal: j, Limits: &h.opts.Limits, Logger: h.opts.Logger}
}

// KeepsRuns reports whether interrupted runs of a target are in a journal, the
// host's or its history's. If not, each leaves a [runevent.Checkpoint].
func (h *Host) KeepsRuns(target Target) bool {
	return h.journalOf(h.historyOf(target.network())) != nil
}

func errAnswered(rec *RunRecord) error {
	return Errorf(Conflict, "the questions of run %q are answered already, by run %q", rec.Run, rec.AnsweredBy).
		WithHint("an answer counts once; what came of it is in thread %q, and what else is wanted is a new message there", rec.Thread)
}

// Questions returns the questions of an interrupted run of a target, for a caller
// that has not read its events. Code not_found for a run that does not exist,
// conflict for one whose questions are answered, failed_precondition for one that
// asks nothing and for a host without a journal.
func (h *Host) Questions(ctx context.Context, target Target, tenant, run string) ([]*Question, error) {
	tenant, err := h.Tenant(tenant)
	if err != nil {
		return nil, err
	}
	j := h.journalOf(h.historyOf(target.network()))
	if j == nil {
		return nil, errNoJournal()
	}
	rec, err := j.ReadRun(ctx, tenant, run)
	if err != nil {
		return nil, wrapError(err, "read run %q", run)
	}
	if rec.Status == RunAnswered {
		return nil, errAnswered(rec)
	}
	if rec.Status != RunInterrupted {
		return nil, Errorf(FailedPrecondition, "run %q asks nothing: its status is %s", run, rec.Status)
	}
	c, err := replay.ReadCheckpoint(rec)
	if err != nil {
		return nil, err
	}
	return replay.QuestionsOf(c.Calls), nil
}

func errNoJournal() *Error {
	return Errorf(FailedPrecondition, "the host has no journal, so no run can be gone on with").
		WithHint("give the host the option Journal, or a history that is one, such as a threads.Store, or bring the run's Checkpoint")
}

package host

import (
	"context"
	"encoding/json"
	"time"
)

// Journal keeps the data of a run that must outlive its process: the questions of
// an interrupted run with its checkpoint, and the steps of a durable one. Records
// are the host's: a journal stores and returns them unchanged.
//
// Implementations are safe for concurrent use, keep tenants apart, and have
// stored what they return without an error. They prove themselves with
// hosttest.TestJournal. A history adapter that is a journal as well is the
// journal of its runs: see [NewHistory].
//
// Each call must heed its context, which ends after [Limits].CommitTimeout, for
// ReadRun after HistoryTimeout. A call that does not return then is abandoned, and
// one that panics fails; the run ends in both cases.
type Journal interface {
	// CreateRun stores a new run with its first steps, under fence 1; the fence
	// of rec is not looked at. If rec.Answers names a run, that one is marked as
	// answered by the new one in the same commit; code conflict if it is not
	// interrupted (any more), not_found if it does not exist. Code already_exists if
	// the new run exists.
	CreateRun(ctx context.Context, rec *RunRecord) error

	// ReadRun returns a run with all its steps; code not_found if it does not exist.
	ReadRun(ctx context.Context, tenant, run string) (*RunRecord, error)

	// TakeRun makes the caller the owner of an open run: ref.Fence must be the
	// run's, and the next one is returned. An owner with the old fence can store
	// nothing any more. Code conflict if another was faster, or if the run is not
	// open.
	TakeRun(ctx context.Context, ref RunRef) (fence int64, err error)

	// AppendSteps stores steps behind the first at ones, all or none; the same
	// steps at the same place again change nothing. Code conflict if ref.Fence is
	// not the run's, or if it is not open.
	AppendSteps(ctx context.Context, ref RunRef, at int, steps []json.RawMessage) error

	// EndRun gives an open run its last status, interrupted or ended, and replaces
	// all its steps by rest; with a nil rest it has none. Code conflict if ref.Fence
	// is not the run's, or if it is not open. A run that has ended may be forgotten.
	EndRun(ctx context.Context, ref RunRef, status RunStatus, rest json.RawMessage) error
}

// RunRef names a run and its owner: a commit with a fence that is not the run's is
// refused, so that a host that was taken for dead changes nothing.
type RunRef struct {
	Tenant string
	Thread string // "" for a run without a history
	Run    string
	Fence  int64 // counts the owners, from 1
}

// RunStatus is the status of a journaled run.
type RunStatus string

// The statuses of a run.
const (
	RunOpen        RunStatus = "open"        // it is running, or its process has ended
	RunInterrupted RunStatus = "interrupted" // it waits for answers
	RunAnswered    RunStatus = "answered"    // another run continues with the answers
	RunEnded       RunStatus = "ended"
)

// RunRecord is a run as a journal has it.
type RunRecord struct {
	RunRef
	Target     string // the network or agent
	Status     RunStatus
	Answers    string // the run whose questions this one has answers to
	AnsweredBy string // the run that has answers to this one's questions
	Created    time.Time
	Updated    time.Time
	Asks       []AskedQuestion // of an interrupted run, for a [QuestionKeeper]
	Steps      []json.RawMessage
}

// journalOf returns the journal of a network's runs, or nil: the host's, or its
// history's. It is guarded: see [guardedJournal].
func (h *Host) journalOf(history *History) *guardedJournal {
	if g := h.guardJournal(history); g.journal != nil {
		return &g
	}
	return nil
}

// guardJournal is journalOf without an allocation for a host without a journal.
func (h *Host) guardJournal(history *History) guardedJournal {
	j := h.opts.Journal
	if j == nil && history != nil {
		j = history.journal
	}
	return guardedJournal{j, &h.opts.Limits, h.opts.Logger}
}

// KeepsRuns reports whether interrupted runs of a target are in a journal, the
// host's or its history's. If not, each leaves a [Checkpoint].
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
	c, err := readCheckpoint(rec)
	if err != nil {
		return nil, err
	}
	return questionsOf(c.Calls), nil
}

func errNoJournal() *Error {
	return Errorf(FailedPrecondition, "the host has no journal, so no run can be gone on with").
		WithHint("give the host the option Journal, or a history that is one, such as a threads.Store, or bring the run's Checkpoint")
}

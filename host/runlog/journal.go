package runlog

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
// journal of its runs: see host.NewHistory.
//
// Each call must heed its context, which ends after the limit CommitTimeout of the
// host, for ReadRun after HistoryTimeout. A call that does not return then is
// abandoned, and one that panics fails; the run ends in both cases.
type Journal interface {
	// CreateRun stores a new run with its first steps, under fence 1; the fence
	// of rec is not looked at. If rec.Answers names a run, that one is marked as
	// answered by the new one in the same commit; code conflict if it is not
	// interrupted (any more), not_found if it does not exist. Code already_exists if
	// the new run exists.
	CreateRun(ctx context.Context, rec *Record) error

	// ReadRun returns a run with all its steps; code not_found if it does not exist.
	ReadRun(ctx context.Context, tenant, run string) (*Record, error)

	// TakeRun makes the caller the owner of an open run: ref.Fence must be the
	// run's, and the next one is returned. An owner with the old fence can store
	// nothing any more. The run must have no more steps than the caller has read, or
	// any number for [AnySteps]: an owner that was taken for dead may have stored
	// further ones meanwhile. Code conflict if it has more, if another was faster, or if
	// the run is not open.
	TakeRun(ctx context.Context, ref Ref, steps int) (fence int64, err error)

	// AppendSteps stores steps behind the first at ones, all or none; the same
	// steps at the same place again change nothing. Code conflict if ref.Fence is
	// not the run's, or if it is not open.
	AppendSteps(ctx context.Context, ref Ref, at int, steps []json.RawMessage) error

	// EndRun gives an open run its last status, interrupted or ended, and replaces
	// all its steps by rest; with a nil rest it has none. Code conflict if ref.Fence
	// is not the run's, or if it is not open. A run that has ended may be forgotten.
	EndRun(ctx context.Context, ref Ref, status Status, rest json.RawMessage) error
}

// AnySteps is the number of steps of a run that is taken to be ended, whatever its steps are.
const AnySteps = -1

// QuestionKeeper is an optional interface of a [Journal], so that questions are
// found by their keys and times, across restarts. Without it they are answered by
// the id of their run alone.
type QuestionKeeper interface {
	// LeaveRun is EndRun with the status interrupted for a run that asks; its
	// questions are stored in the same commit. (Of CreateRun that is Record.Asks.)
	LeaveRun(ctx context.Context, ref Ref, rest json.RawMessage, asks []Asked) error

	// WaitingRuns returns runs of a tenant that are interrupted and that filter
	// takes, in the order of their ids and without their steps: the first
	// [MaxWaitingRuns].
	WaitingRuns(ctx context.Context, tenant string, filter WaitingFilter) ([]*Record, error)
}

// Ref names a run and its owner: a commit with a fence that is not the run's is
// refused, so that a host that was taken for dead changes nothing.
type Ref struct {
	Tenant string
	Thread string // "" for a run without a history
	Run    string
	Fence  int64 // counts the owners, from 1

	// Host is the process that owns the run, by its id in a cluster; empty if the host
	// is in none. CreateRun and TakeRun store it, ReadRun returns it, and no other method
	// looks at it.
	Host string
}

// Status is the status of a journaled run.
type Status string

// The statuses of a run.
const (
	Open        Status = "open"        // it is running, or its process has ended
	Interrupted Status = "interrupted" // it waits for answers
	Answered    Status = "answered"    // another run continues with the answers
	Ended       Status = "ended"
)

// Record is a run as a journal has it.
type Record struct {
	Ref
	Branch     string // of the thread; "" is its own line
	Target     string // the network or agent
	Status     Status
	Answers    string // the run whose questions this one has answers to
	AnsweredBy string // the run that has answers to this one's questions
	Created    time.Time
	Updated    time.Time
	Asks       []Asked // of an interrupted run, for a [QuestionKeeper]
	Steps      []json.RawMessage
}

// Asked is the record of a question in a [QuestionKeeper].
type Asked struct {
	ID      string     `json:"id"`
	Key     string     `json:"key,omitempty"`
	Expires *time.Time `json:"expires_at,omitempty"`
}

// AsksOf returns the records of questions.
func AsksOf(questions []*Question) []Asked {
	asks := make([]Asked, len(questions))
	for i, q := range questions {
		asks[i] = Asked{ID: q.ID, Key: q.Key, Expires: q.Expires}
	}
	return asks
}

// WaitingFilter chooses runs that wait for answers. An empty field excludes none.
type WaitingFilter struct {
	Key   string    // of a question of theirs
	Due   time.Time // a question of theirs expires at this time or before
	After string    // the id of a run: those behind it, in the order of ids
}

// Takes reports whether the questions of a run are chosen, for implementations of
// [QuestionKeeper].
func (f WaitingFilter) Takes(asks []Asked) bool {
	key, due := f.Key == "", f.Due.IsZero()
	for _, a := range asks {
		key = key || a.Key == f.Key
		due = due || a.Expires != nil && !a.Expires.After(f.Due)
	}
	return key && due
}

// MaxWaitingRuns is how many runs a [QuestionKeeper] returns at once.
const MaxWaitingRuns = 100

package host

import (
	"context"
	"encoding/json"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/journalguard"
	"github.com/agenthost/agenthost/host/internal/replay"
	"github.com/agenthost/agenthost/host/runevent"
)

// runJournal writes a run into the journal, and reads it from there when the run
// resumes.
type runJournal struct {
	scope   *Scope
	resume  *resumption
	guarded journalguard.Guard // without a journal if the host has none

	clientAnswers bool // answers to questions come with a checkpoint that a client had
	storesResults bool // the run's results are stored in a thread after its end is written down

	recorder   *replay.Recorder // nil if the run is not in the journal
	steps      *replay.Steps
	resumes    string               // the id of the run that this one resumes
	saved      *replay.SavedTurn    // the agent's turn to continue
	nested     *replay.Nested       // calls that tools make of others
	branches   *replay.Branches     // agents used as tools that had begun; nil if none had
	openCalls  []*replay.OpenCall   // the calls that wait for an answer
	checkpoint *runevent.Checkpoint // of an interrupted run that no journal keeps
	ended      *replay.EndStep      // how the run ended before its results were stored
}

// store returns the journal of the run, or nil.
func (j *runJournal) store() *journalguard.Guard {
	if j.guarded.Journal == nil {
		return nil
	}
	return &j.guarded
}

// newRecord returns the record of a run that begins to be in the journal.
func (j *runJournal) newRecord(status RunStatus, branch string, step replay.Entry) (*RunRecord, error) {
	raw, err := json.Marshal(step)
	if err != nil {
		return nil, Errorf(Internal, "write down run %q: %w", j.scope.Run, err)
	}
	now := time.Now().UTC()
	return &RunRecord{Ref: RunRef{Tenant: j.scope.Tenant, Thread: j.scope.Thread, Run: j.scope.Run, Fence: 1}, Branch: branch, Target: j.scope.Network,
		Status: status, Created: now, Updated: now, Steps: []json.RawMessage{raw}}, nil
}

// startRecording makes w the recorder of the run's steps from here on.
func (j *runJournal) startRecording(w *replay.Recorder) {
	j.recorder = w
	j.steps.Record(w)
}

// recordEnd writes down how the run ends, before that is stored in the thread.
func (j *runJournal) recordEnd(ctx context.Context, reason FinishReason, failure error) error {
	if j.recorder == nil || j.ended != nil {
		return nil
	}
	if err := j.recorder.Err(); err != nil {
		return err
	}
	if !j.storesResults {
		return nil
	}
	return j.recorder.Commit(ctx, replay.Entry{End: &replay.EndStep{Finish: reason, Error: fault.ForClient(failure, j.scope.Run)}})
}

// endRun ends the run in the journal: it cannot be resumed.
func (j *runJournal) endRun(ctx context.Context) {
	if j.recorder == nil {
		return
	}
	if err := j.store().EndRun(context.WithoutCancel(ctx), j.recorder.Ref(), RunEnded, nil); err != nil {
		j.guarded.Logger.ErrorContext(ctx, "run has ended and stays in the journal", "tenant", j.scope.Tenant, "run", j.scope.Run, "thread", j.scope.Thread, "error", err)
	}
}

func (j *runJournal) readRun(ctx context.Context) (*RunRecord, error) {
	rec, err := j.readRecord(ctx)
	if err != nil {
		return nil, wrapError(err, "read run %q", j.resume.run)
	}
	if rec.Target != j.scope.Network {
		return nil, Errorf(FailedPrecondition, "run %q is one of %q, not of %q", rec.Run, rec.Target, j.scope.Network)
	}
	return rec, nil
}

func (j *runJournal) readRecord(ctx context.Context) (*RunRecord, error) {
	c := j.resume.checkpoint
	switch {
	case c == nil:
		return j.store().ReadRun(ctx, j.scope.Tenant, j.resume.run)
	case !c.Kept().Unowned && c.Kept().Tenant != j.scope.Tenant:
		return nil, Errorf(NotFound, "there is no run %q", c.Kept().Run)
	}
	return c.Kept().Record()
}

// continuesRun reports whether the run is one whose process has ended.
func (j *runJournal) continuesRun() bool { return j.resumes == j.scope.Run }

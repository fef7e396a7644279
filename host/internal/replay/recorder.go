package replay

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"sync"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/statedoc"
	"github.com/agenthost/agenthost/host/runlog"
)

// StepAppender is the part of a [runlog.Journal] that stores steps.
type StepAppender interface {
	AppendSteps(ctx context.Context, ref runlog.Ref, at int, steps []json.RawMessage) error
}

// Recorder writes the steps of a run to the journal. A nil recorder is a run that
// is not durable: it writes nothing. Safe for concurrent use.
type Recorder struct {
	journal StepAppender
	state   *statedoc.View
	storing sync.Mutex // held while steps are stored, so that they stay in order

	mu      sync.Mutex
	ref     runlog.Ref
	next    int // how many steps are stored
	waiting []json.RawMessage
	undo    [sha256.Size]byte // of the last step's Undo; zero if it has none
	failed  error
}

// NewRecorder returns the recorder of a run that has a number of steps in the journal
// already. The changes of the state from here on are part of the steps to come.
func NewRecorder(state *statedoc.View, j StepAppender, ref runlog.Ref, steps int) *Recorder {
	state.KeepUnsaved()
	return &Recorder{journal: j, state: state, ref: ref, next: steps}
}

// Ref returns the run and its owner.
func (w *Recorder) Ref() runlog.Ref { return w.ref }

// Note has a step stored with the next commit: it is needed only if another step
// follows.
func (w *Recorder) Note(e Entry) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	e.State, e.Undo = w.state.TakeUnsaved(e.Ended)
	err := w.omitSameUndo(&e)
	var raw []byte
	if err == nil {
		raw, err = json.Marshal(e)
	}
	if err != nil {
		w.keepFailure(fault.Errorf(fault.Internal, "write down a step of run %q: %w", w.ref.Run, err))
		return
	}
	w.waiting = append(w.waiting, raw)
}

// omitSameUndo leaves out an Undo that the step before has: it holds what the state had before,
// which may be large, and a call may make thousands of others without another change. w.mu is
// held.
func (w *Recorder) omitSameUndo(e *Entry) error {
	before := w.undo
	w.undo = [sha256.Size]byte{}
	if len(e.Undo) == 0 {
		return nil
	}
	raw, err := json.Marshal(e.Undo)
	if err != nil {
		return err
	}
	if w.undo = sha256.Sum256(raw); w.undo == before {
		e.Undo, e.SameUndo = nil, true
	}
	return nil
}

// keepFailure keeps the first failure. w.mu is held.
func (w *Recorder) keepFailure(err error) {
	if w.failed == nil {
		w.failed = err
	}
}

// Err returns the first failure: no step may follow one that was not written down.
func (w *Recorder) Err() error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

// Commit stores a step and those before it. Its context is not canceled with
// the run's: a finished step is written down after a cancel too. Steps of several
// calls at once are stored together.
func (w *Recorder) Commit(ctx context.Context, e Entry) error {
	if w == nil {
		return nil
	}
	w.Note(e)
	w.storing.Lock()
	defer w.storing.Unlock()
	w.mu.Lock()
	steps, at, ref, err := w.waiting, w.next, w.ref, w.failed
	w.waiting = nil
	w.mu.Unlock()
	if err != nil || len(steps) == 0 {
		return err
	}
	err = w.journal.AppendSteps(context.WithoutCancel(ctx), ref, at, steps)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		failed := fault.Errorf(fault.CodeOf(err), "write down what run %q has done: %w", ref.Run, err)
		w.keepFailure(failed.WithHint("what was written down before is kept: resume the run when the journal works, unless another host has it"))
		return w.failed
	}
	w.next += len(steps)
	return nil
}

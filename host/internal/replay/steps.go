package replay

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// ErrOutcomeUnknown says that the process ended during work that must not run
// twice, so that its outcome cannot be known.
var ErrOutcomeUnknown = errors.New("the outcome is unknown")

// The bounds of the steps of one run.
const (
	maxSteps     = 10_000
	maxStepBytes = 32 << 20 // of their results together
)

// Steps remembers the results of the steps of one run.
type Steps struct {
	rec *Recorder // nil if the run is not in the journal; set before anything runs

	mu    sync.Mutex
	done  map[string]*Step
	bytes int
}

// Step is one named step. A caller that has it from [Steps.Begin] leaves it.
type Step struct {
	turn    chan struct{} // holds one while it runs
	ok      bool
	unknown bool // it began in another process
	result  json.RawMessage
}

func newStep() *Step { return &Step{turn: make(chan struct{}, 1)} }

// inStep is the key of a context in which a step runs.
type inStep struct{ *Step }

// enterStep waits until no other call runs the step.
func (st *Step) enterStep(ctx context.Context, name string) error {
	if ctx.Value(inStep{st}) != nil {
		return fault.Errorf(fault.FailedPrecondition, "step %s is begun within itself", stepName(name)).WithHint("give each step a name of its own")
	}
	select {
	case st.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fault.ContextError(ctx)
	}
}

// Result returns the result of a step that is done.
func (st *Step) Result() json.RawMessage { return st.result }

// Leave lets the next call have the step.
func (st *Step) Leave() { <-st.turn }

// NewSteps returns the steps of a run that has begun none.
func NewSteps() *Steps { return &Steps{done: map[string]*Step{}} }

// Record has steps written down from here on. It is called before anything runs.
func (s *Steps) Record(w *Recorder) { s.rec = w }

// Restore takes over the steps that another process recorded.
func (s *Steps) Restore(named map[string]*NamedStep) {
	for name, n := range named {
		st := newStep()
		st.ok, st.unknown, st.result = n.Done, !n.Done && !n.Failed, n.Result
		s.bytes += len(n.Result)
		s.done[name] = st
	}
}

// Do runs fn once per name and returns its result: a later call of the name returns the
// first result. A failure is not kept. Calls of one name wait for each other; one inside
// itself has code failed_precondition. So has one that began in a process that has ended,
// unless it is idempotent: that error is [ErrOutcomeUnknown].
func (s *Steps) Do(ctx context.Context, name string, idempotent bool, fn func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	st, done, err := s.Begin(ctx, name, idempotent)
	switch {
	case err != nil:
		return nil, err
	case done:
		return st.result, nil
	}
	defer st.Leave()
	result, err := fn(context.WithValue(ctx, inStep{st}, true))
	if err != nil {
		s.Failed(name)
		return result, err
	}
	return result, s.End(ctx, name, st, result)
}

// Begin waits for a step's turn. Unless it is done, the caller has the step and
// must leave it.
func (s *Steps) Begin(ctx context.Context, name string, idempotent bool) (st *Step, done bool, err error) {
	if st, err = s.step(name); err != nil {
		return nil, false, err
	}
	if err := st.enterStep(ctx, name); err != nil {
		return nil, false, err
	}
	switch {
	case st.ok:
		st.Leave()
		return st, true, nil
	case st.unknown && !idempotent:
		st.Leave()
		return nil, false, &fault.Error{Code: fault.FailedPrecondition, Err: ErrOutcomeUnknown,
			Message: "step " + stepName(name) + " was running when its process ended, so its outcome is unknown",
			Hint:    "look up what it did, or make it idempotent"}
	}
	if err := s.Begun(ctx, name, idempotent); err != nil {
		st.Leave()
		return nil, false, err
	}
	return st, false, nil
}

// Begun writes down that a step begins which must not happen twice.
func (s *Steps) Begun(ctx context.Context, name string, idempotent bool) error {
	if idempotent {
		return nil
	}
	return s.rec.Commit(ctx, Entry{Step: &NamedStep{Name: name}})
}

// step returns the step of that name.
func (s *Steps) step(name string) (*Step, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.done[name]
	if st == nil {
		if len(s.done) >= maxSteps {
			return nil, fault.Errorf(fault.ResourceExhausted, "the run has %d steps, and there may be no more", maxSteps)
		}
		st = newStep()
		s.done[name] = st
	}
	return st, nil
}

// End keeps the result of a step. The caller has the step.
func (s *Steps) End(ctx context.Context, name string, st *Step, result json.RawMessage) error {
	if s.rec != nil && jsondoc.Check(result) != nil {
		return fault.Errorf(fault.InvalidArgument, "result of step %s is not JSON", stepName(name))
	}
	s.mu.Lock()
	tooMuch := len(result) > maxStepBytes-s.bytes
	if !tooMuch {
		s.bytes += len(result)
	}
	s.mu.Unlock()
	if tooMuch {
		s.Failed(name)
		return fault.Errorf(fault.ResourceExhausted, "the steps of the run return more than %d bytes", maxStepBytes)
	}
	st.result, st.ok, st.unknown = result, true, false
	return s.rec.Commit(ctx, Entry{Step: &NamedStep{Name: name, Done: true, Result: result}})
}

// Failed records that a step failed, so that the next call runs it again.
func (s *Steps) Failed(name string) {
	s.rec.Note(Entry{Step: &NamedStep{Name: name, Failed: true}})
}

// stepName is a step's name for people.
func stepName(name string) string { return strconv.Quote(strings.TrimPrefix(name, "/")) }

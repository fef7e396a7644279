package host

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// ErrOutcomeUnknown says that the process ended during work that must not run
// twice, so that its outcome cannot be known. A [Step] answers with it; a tool call
// becomes a question of the kind [AskUnknown].
var ErrOutcomeUnknown = errors.New("the outcome is unknown")

// StepOptions are the optional parts of a [Step].
type StepOptions struct {
	// Idempotent says that running fn twice is running it once: it is run again
	// if the process ended while it ran.
	Idempotent bool
}

// Step runs fn once per run and name, and returns its result as JSON reads it. A
// second Step of the name returns the first one's result, in a durable run also in
// another process. Failures are not kept: the next Step of the name runs fn again.
// Steps of one name wait for each other, as long as their contexts last; one inside
// itself is an error of code failed_precondition.
//
// If the process ended while fn ran, its effect is unknown: Step returns an error
// that is [ErrOutcomeUnknown], unless the step is idempotent. Steps work in
// everything that runs in a run (tools, routers, hooks, processors); outside of one
// fn just runs. Code invalid_argument for a result that is not JSON,
// resource_exhausted beyond 10,000 steps of a run or 32 MiB of results.
func Step[T any](ctx context.Context, name string, fn func(ctx context.Context) (T, error), opts *StepOptions) (T, error) {
	var out T
	raw, err := stepsOf(ctx).do(ctx, "/"+name, opts != nil && opts.Idempotent, func(ctx context.Context) (json.RawMessage, error) {
		v, err := fn(ctx)
		if err != nil {
			return nil, err
		}
		raw, err := jsondoc.Marshal(v)
		if err != nil {
			return nil, Errorf(InvalidArgument, "result of step %q: %w", name, err)
		}
		return raw, nil
	})
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return out, Errorf(InvalidArgument, "result of step %q: %w", name, err)
	}
	return out, nil
}

func stepsOf(ctx context.Context) *steps {
	if s, _ := ctx.Value(servicesKey{}).(*services); s != nil {
		return s.steps
	}
	return newSteps()
}

// The bounds of the steps of one run.
const (
	maxSteps     = 10_000
	maxStepBytes = 32 << 20 // of their results together
)

// steps remembers the results of the steps of one run.
type steps struct {
	rec *recorder // set before anything runs

	mu    sync.Mutex
	done  map[string]*step
	bytes int
}

type step struct {
	turn    chan struct{} // holds one while it runs
	ok      bool
	unknown bool // it began in another process
	result  json.RawMessage
}

func newStep() *step { return &step{turn: make(chan struct{}, 1)} }

// inStep is the key of a context in which a step runs.
type inStep struct{ *step }

// enterStep waits until no other call runs the step.
func (st *step) enterStep(ctx context.Context, name string) error {
	if ctx.Value(inStep{st}) != nil {
		return Errorf(FailedPrecondition, "step %s is begun within itself", stepName(name)).WithHint("give each step a name of its own")
	}
	select {
	case st.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ContextError(ctx)
	}
}

func (st *step) leaveStep() { <-st.turn }

func newSteps() *steps { return &steps{done: map[string]*step{}} }

// restore takes over the steps that another process recorded.
func (s *steps) restore(named map[string]*namedStep) {
	for name, n := range named {
		st := newStep()
		st.ok, st.unknown, st.result = n.Done, !n.Done && !n.Failed, n.Result
		s.bytes += len(n.Result)
		s.done[name] = st
	}
}

func (s *steps) do(ctx context.Context, name string, idempotent bool, fn func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	st, done, err := s.beginStep(ctx, name, idempotent)
	switch {
	case err != nil:
		return nil, err
	case done:
		return st.result, nil
	}
	defer st.leaveStep()
	result, err := fn(context.WithValue(ctx, inStep{st}, true))
	if err != nil {
		s.failed(name)
		return result, err
	}
	return result, s.endStep(ctx, name, st, result)
}

// beginStep waits for a step's turn. Unless it is done, the caller has the step and
// must leave it.
func (s *steps) beginStep(ctx context.Context, name string, idempotent bool) (st *step, done bool, err error) {
	if st, err = s.step(name); err != nil {
		return nil, false, err
	}
	if err := st.enterStep(ctx, name); err != nil {
		return nil, false, err
	}
	switch {
	case st.ok:
		st.leaveStep()
		return st, true, nil
	case st.unknown && !idempotent:
		st.leaveStep()
		return nil, false, &Error{Code: FailedPrecondition, Err: ErrOutcomeUnknown,
			Message: "step " + stepName(name) + " was running when its process ended, so its outcome is unknown",
			Hint:    "look up what it did, or make it idempotent"}
	}
	if err := s.begun(ctx, name, idempotent); err != nil {
		st.leaveStep()
		return nil, false, err
	}
	return st, false, nil
}

// begun writes down that a step begins which must not happen twice.
func (s *steps) begun(ctx context.Context, name string, idempotent bool) error {
	if idempotent {
		return nil
	}
	return s.rec.commitStep(ctx, entry{Step: &namedStep{Name: name}})
}

// step returns the step of that name.
func (s *steps) step(name string) (*step, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.done[name]
	if st == nil {
		if len(s.done) >= maxSteps {
			return nil, Errorf(ResourceExhausted, "the run has %d steps, and there may be no more", maxSteps)
		}
		st = newStep()
		s.done[name] = st
	}
	return st, nil
}

// endStep keeps the result of a step. The caller has the step.
func (s *steps) endStep(ctx context.Context, name string, st *step, result json.RawMessage) error {
	if s.rec != nil && jsondoc.Check(result) != nil {
		return Errorf(InvalidArgument, "result of step %s is not JSON", stepName(name))
	}
	s.mu.Lock()
	tooMuch := len(result) > maxStepBytes-s.bytes
	if !tooMuch {
		s.bytes += len(result)
	}
	s.mu.Unlock()
	if tooMuch {
		s.failed(name)
		return Errorf(ResourceExhausted, "the steps of the run return more than %d bytes", maxStepBytes)
	}
	st.result, st.ok, st.unknown = result, true, false
	return s.rec.commitStep(ctx, entry{Step: &namedStep{Name: name, Done: true, Result: result}})
}

// failed records that a step failed, so that the next call runs it again.
func (s *steps) failed(name string) {
	s.rec.noteStep(entry{Step: &namedStep{Name: name, Failed: true}})
}

// stepName is a step's name for people.
func stepName(name string) string { return strconv.Quote(strings.TrimPrefix(name, "/")) }

package host

import (
	"context"
	"encoding/json"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/internal/replay"
)

// ErrOutcomeUnknown says that the process ended during work that must not run
// twice, so that its outcome cannot be known. A [Step] answers with it; a tool call
// becomes a question of the kind [AskUnknown].
var ErrOutcomeUnknown = replay.ErrOutcomeUnknown

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
// fn just runs.
//
// What fn changes in the state of a call is the call's, not the step's: it is taken back
// when the call fails or starts again, and fn does not run again. So a tool changes the
// state after Step, by the result.
//
// Code invalid_argument for a result that is not JSON, resource_exhausted beyond 10,000
// steps of a run or 32 MiB of results.
func Step[T any](ctx context.Context, name string, fn func(ctx context.Context) (T, error), opts *StepOptions) (T, error) {
	var out T
	raw, err := stepsOf(ctx).Do(ctx, "/"+name, opts != nil && opts.Idempotent, func(ctx context.Context) (json.RawMessage, error) {
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

func stepsOf(ctx context.Context) *replay.Steps {
	if s, _ := ctx.Value(servicesKey{}).(*services); s != nil {
		return s.steps
	}
	return replay.NewSteps()
}

package host

import (
	"context"
	"encoding/json"
)

// The steps of a tool's call. Plugins take them through the plugin contract.

// Step is the function [Step] for raw JSON, with a name that belongs to the agent
// and the tool.
func (c *Call) Step(ctx context.Context, name string, fn func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	return c.steps.Do(ctx, name, fn)
}

// BeginStep begins a step as [Call.Step] does, for callers that cannot pass a
// function. If done, the step was done before, and result is its result. Otherwise
// the caller does it now and says so with [Call.EndStep]; until then others that
// begin it wait. One that the call begins again, or that is not ended when the call
// ends, has failed. Errors are those of [Step].
func (c *Call) BeginStep(ctx context.Context, name string, opts *StepOptions) (result json.RawMessage, done bool, err error) {
	return c.steps.Begin(ctx, name, opts != nil && opts.Idempotent)
}

// EndStep keeps the result of a step that the call has begun: any JSON. Code
// failed_precondition for a step that it has not.
func (c *Call) EndStep(ctx context.Context, name string, result json.RawMessage) error {
	return c.steps.End(ctx, name, result)
}

package host

import (
	"context"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/agenthost/agenthost/host/internal/callbatch"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/internal/replay"
)

// The steps of a tool's call. Plugins take them through the plugin contract.

// maxStepName bounds the name of a tool's step.
const maxStepName = 256

// Step is the function [Step] for raw JSON, with a name that belongs to the agent
// and the tool.
func (c *Call) Step(ctx context.Context, name string, fn func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	key, err := c.stepKey(name)
	if err != nil {
		return nil, err
	}
	return c.steps.Do(ctx, key, false, fn)
}

// stepKey is the name of a step in the run: other tools, and other agents', have
// theirs.
func (c *Call) stepKey(name string) (string, error) {
	if name == "" || len(name) > maxStepName || !utf8.ValidString(name) {
		return "", Errorf(InvalidArgument, "the name of a step has %d bytes, not 1 to %d of UTF-8", len(name), maxStepName)
	}
	return strconv.Quote(c.Scope.Agent) + "/" + c.Tool + "/" + name, nil
}

// BeginStep begins a step as [Call.Step] does, for callers that cannot pass a
// function. If done, the step was done before, and result is its result. Otherwise
// the caller does it now and says so with [Call.EndStep]; until then others that
// begin it wait. One that the call begins again, or that is not ended when the call
// ends, has failed. Errors are those of [Step].
func (c *Call) BeginStep(ctx context.Context, name string, opts *StepOptions) (result json.RawMessage, done bool, err error) {
	key, err := c.stepKey(name)
	if err != nil {
		return nil, false, err
	}
	idempotent := opts != nil && opts.Idempotent
	c.mu.Lock()
	again := c.begun[name] != nil
	c.mu.Unlock()
	if again {
		c.steps.Failed(key)
		return nil, false, c.steps.Begun(ctx, key, idempotent)
	}
	st, done, err := c.steps.Begin(ctx, key, idempotent)
	if err != nil || done {
		if done {
			result = st.Result()
		}
		return result, done, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stepsOver { // the call was given up while the step waited
		c.steps.Failed(key)
		st.Leave()
		return nil, false, callbatch.ErrCallEnded()
	}
	if c.begun == nil {
		c.begun = map[string]*replay.Step{}
	}
	c.begun[name] = st
	return nil, false, nil
}

// EndStep keeps the result of a step that the call has begun: any JSON. Code
// failed_precondition for a step that it has not.
func (c *Call) EndStep(ctx context.Context, name string, result json.RawMessage) error {
	key, err := c.stepKey(name)
	if err != nil {
		return err
	}
	if jsondoc.Check(result) != nil {
		return Errorf(InvalidArgument, "result of step %q is not JSON", name)
	}
	c.mu.Lock()
	st := c.begun[name]
	delete(c.begun, name)
	c.mu.Unlock()
	if st == nil {
		return Errorf(FailedPrecondition, "step %q has not begun", name)
	}
	defer st.Leave()
	return c.steps.End(ctx, key, st, result)
}

// endSteps gives up the steps that the call has begun and not ended.
func (c *Call) endSteps() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stepsOver = true
	for name, st := range c.begun {
		if key, err := c.stepKey(name); err == nil {
			c.steps.Failed(key)
		}
		st.Leave()
	}
	c.begun = nil
}

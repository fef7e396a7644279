package replay

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/callbatch"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// maxStepName bounds the name of a tool's step.
const maxStepName = 256

// CallSteps are the steps that one call of a tool takes: their names belong to the agent
// and the tool. Safe for concurrent use.
type CallSteps struct {
	Of          *Steps // of the run
	Agent, Tool string

	mu    sync.Mutex
	begun map[string]*Step // by name
	over  bool
}

// Again returns the steps of another attempt.
func (c *CallSteps) Again() CallSteps { return CallSteps{Of: c.Of, Agent: c.Agent, Tool: c.Tool} }

// Do is [Steps.Do].
func (c *CallSteps) Do(ctx context.Context, name string, fn func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	key, err := c.key(name)
	if err != nil {
		return nil, err
	}
	return c.Of.Do(ctx, key, false, fn)
}

// key is the name of a step in the run: other tools, and other agents', have theirs.
func (c *CallSteps) key(name string) (string, error) {
	if name == "" || len(name) > maxStepName || !utf8.ValidString(name) {
		return "", fault.Errorf(fault.InvalidArgument, "the name of a step has %d bytes, not 1 to %d of UTF-8", len(name), maxStepName)
	}
	return strconv.Quote(c.Agent) + "/" + c.Tool + "/" + name, nil
}

// Begin begins a step that End ends. If done, result is that of the step. One that the
// call begins again has failed.
func (c *CallSteps) Begin(ctx context.Context, name string, idempotent bool) (result json.RawMessage, done bool, err error) {
	key, err := c.key(name)
	if err != nil {
		return nil, false, err
	}
	c.mu.Lock()
	again := c.begun[name] != nil
	c.mu.Unlock()
	if again {
		c.Of.Failed(key)
		return nil, false, c.Of.Begun(ctx, key, idempotent)
	}
	st, done, err := c.Of.Begin(ctx, key, idempotent)
	if err != nil || done {
		if done {
			result = st.Result()
		}
		return result, done, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over { // the call was given up while the step waited
		c.Of.Failed(key)
		st.Leave()
		return nil, false, callbatch.ErrCallEnded()
	}
	if c.begun == nil {
		c.begun = map[string]*Step{}
	}
	c.begun[name] = st
	return nil, false, nil
}

// End keeps the result of a step that the call has begun. Code failed_precondition for a
// step that it has not.
func (c *CallSteps) End(ctx context.Context, name string, result json.RawMessage) error {
	key, err := c.key(name)
	if err != nil {
		return err
	}
	if jsondoc.Check(result) != nil {
		return fault.Errorf(fault.InvalidArgument, "result of step %q is not JSON", name)
	}
	c.mu.Lock()
	st := c.begun[name]
	delete(c.begun, name)
	c.mu.Unlock()
	if st == nil {
		return fault.Errorf(fault.FailedPrecondition, "step %q has not begun", name)
	}
	defer st.Leave()
	return c.Of.End(ctx, key, st, result)
}

// GiveUp gives up the steps that the call has begun and not ended.
func (c *CallSteps) GiveUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	for name, st := range c.begun {
		if key, err := c.key(name); err == nil {
			c.Of.Failed(key)
		}
		st.Leave()
	}
	c.begun = nil
}

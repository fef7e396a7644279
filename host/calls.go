package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// eventQueue is how many events running tools may be ahead of the reader.
const eventQueue = 64

// toolCall is one call of a batch on its way.
type toolCall struct {
	part   *ToolCall
	call   *Call
	output *ToolOutput
	err    error
	took   time.Duration
}

// runTools runs the calls of one answer in parallel and adds their results in
// the order of the calls. Only what must end the run is an error: the run's own
// end, and a schedule the network cannot follow is the tool's failure.
func (t *turn) runTools(ctx context.Context, parts []*ToolCall) error {
	if t.toolCalls += len(parts); t.toolCalls > t.limits.MaxToolCalls {
		return Errorf(ResourceExhausted, "run calls more tools than the limit MaxToolCalls of %d", t.limits.MaxToolCalls)
	}
	calls := t.newCalls(parts)
	t.runBatch(ctx, calls)
	for _, c := range calls {
		t.addResult(c)
	}
	t.emitState()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

func (t *turn) newCalls(parts []*ToolCall) []*toolCall {
	calls := make([]*toolCall, len(parts))
	for i, part := range parts {
		calls[i] = &toolCall{part: part, call: &Call{
			ID: part.ID, Tool: part.Name, Attempt: 1,
			IdempotencyKey: fmt.Sprintf("%s/%d/%d/%d", t.id, t.iterations, t.result.Rounds, i),
			Arguments:      part.Arguments, Scope: t.scope(), State: t.state, limits: t.limits, steps: t.steps,
		}}
	}
	return calls
}

// runBatch runs calls at most ParallelTools at a time and passes on what they
// emit. It returns when all have returned.
func (t *turn) runBatch(ctx context.Context, calls []*toolCall) {
	events := make(chan EventData, eventQueue)
	done := make(chan struct{}, len(calls))
	slots := make(chan struct{}, t.limits.ParallelTools)
	for _, c := range calls {
		c.call.emit = func(ev EventData) error {
			select {
			case events <- ev:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		go func() {
			slots <- struct{}{}
			defer func() { <-slots; done <- struct{}{} }()
			started := time.Now()
			events <- &ToolStarted{ID: c.part.ID, Name: c.part.Name, Arguments: c.part.Arguments}
			c.output, c.err = t.callTool(ctx, c)
			c.took = time.Since(started)
			c.finish(t.limits)
			events <- c.finished()
		}()
	}
	for left := len(calls); left > 0; {
		select {
		case ev := <-events:
			t.emit(ev)
		case <-done:
			left--
		}
	}
	for len(events) > 0 {
		t.emit(<-events)
	}
}

// callTool finds the tool, checks the arguments and runs the handler.
func (t *turn) callTool(ctx context.Context, c *toolCall) (out *ToolOutput, err error) {
	tool := t.tools.byName[c.part.Name]
	if tool == nil {
		return nil, Errorf(NotFound, "There is no tool %q; the tools are: %s.", c.part.Name, toolNames(t.tools.specs))
	}
	if c.call.Arguments, err = tool.arguments(c.part.Arguments, t.limits.ArgumentBytes); err != nil {
		return nil, err
	}
	timeout := t.limits.ToolTimeout
	if tool.Timeout > 0 {
		timeout = min(timeout, tool.Timeout)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			t.host.opts.Logger.Error("tool panicked", "tool", tool.Name, "panic", p, "stack", string(debug.Stack()))
			out, err = nil, Errorf(Internal, "The tool %s failed.", tool.Name)
		}
	}()
	if out, err = tool.handler(ctx, c.call); err != nil {
		if ctx.Err() != nil {
			err = Errorf(DeadlineExceeded, "The tool %s took longer than %s.", tool.Name, timeout)
		}
		return out, err
	}
	if out == nil {
		out = &ToolOutput{}
	}
	return out, t.accept(c, out)
}

func toolNames(specs []ToolSpec) string {
	names := make([]string, len(specs))
	for i, s := range specs {
		names[i] = s.Name
	}
	return strings.Join(names, ", ")
}

// accept checks an answer and applies what it does to the state: all of it or
// none.
func (t *turn) accept(c *toolCall, out *ToolOutput) error {
	if n := len(out.Content); n > t.limits.ResultBytes {
		return Errorf(ResourceExhausted, "The result of %s is %d bytes, more than the %d that are allowed.", c.part.Name, n, t.limits.ResultBytes)
	}
	if len(out.Content) == 0 {
		out.Content = json.RawMessage("null")
	} else if checkJSON(out.Content) != nil {
		return Errorf(Internal, "The result of %s is not JSON.", c.part.Name)
	}
	for _, name := range slices.Concat(c.call.out.schedule, out.Schedule) {
		if t.net.byName[name] == nil {
			return Errorf(InvalidArgument, "The tool %s schedules the agent %q, which does not exist.", c.part.Name, name)
		}
	}
	for _, a := range out.Artifacts {
		if err := c.call.AddArtifact(a); err != nil {
			return err
		}
	}
	return t.state.Patch(out.State)
}

// finish makes sure that there is an output: a failure becomes a sentence for
// the model.
func (c *toolCall) finish(limits Limits) {
	if c.err == nil {
		return
	}
	var cost *Cost
	if c.output != nil {
		cost = c.output.Cost
	}
	c.output = &ToolOutput{Content: jsonString(toolSentence(c.err)), Cost: cost}
}

func (c *toolCall) finished() *ToolFinished {
	return &ToolFinished{
		ID: c.part.ID, Name: c.part.Name, Content: c.output.Content, IsError: c.err != nil,
		DurationUS: c.took.Microseconds(), Cost: c.output.Cost,
	}
}

// addResult joins one call's result to the conversation and the run.
func (t *turn) addResult(c *toolCall) {
	t.cost.Add(c.output.Cost)
	if c.err == nil {
		t.stack = append(t.stack, c.call.out.schedule...)
		t.stack = append(t.stack, c.output.Schedule...)
		t.stack = t.stack[:min(len(t.stack), maxScheduledAgents)]
	}
	for i := range c.call.out.artifacts {
		a := c.call.out.artifacts[i]
		t.artifacts = putArtifact(t.artifacts, a)
		t.emit(&ArtifactMade{Artifact: &a})
	}
	if c.output.Interrupt != nil {
		t.interrupt(c)
		return
	}
	m := NewMessage(ToolRole, &ToolResult{ID: c.part.ID, Name: c.part.Name, Content: c.output.Content, IsError: c.err != nil})
	m.Agent = t.agent.name
	t.result.Messages = append(t.result.Messages, m)
	t.emit(&MessageDone{Message: m})
}

// interrupt leaves the call open and ends the run: a person is asked.
func (t *turn) interrupt(c *toolCall) {
	ask := *c.output.Interrupt
	if ask.ID == "" {
		ask.ID = NewID()
	}
	t.interrupted = true
	t.emit(&Interrupted{ToolCall: c.part.ID, Interrupt: &ask})
}

// maxToolSentence bounds what a model is told of a failure.
const maxToolSentence = 500

// toolSentence is what a model is told of a failure: one line, without paths,
// addresses or stacks. The whole error stays on the host's side.
func toolSentence(err error) string {
	var own *Error
	var pathErr *fs.PathError
	var linkErr *os.LinkError
	var sysErr *os.SyscallError
	var netErr net.Error
	switch {
	case errors.As(err, &own):
		return shorten(own.Message)
	case errors.Is(err, context.Canceled):
		return "The tool was stopped."
	case errors.Is(err, context.DeadlineExceeded):
		return "The tool took too long."
	case errors.As(err, &pathErr), errors.As(err, &linkErr), errors.As(err, &sysErr):
		return "The tool could not use a file it needs."
	case errors.As(err, &netErr):
		return "The tool could not reach a server it needs."
	}
	return shorten(err.Error())
}

func shorten(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	if len(s) > maxToolSentence {
		s = strings.ToValidUTF8(s[:maxToolSentence], "") + "…"
	}
	return s
}

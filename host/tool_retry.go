package host

import (
	"context"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/foreign"
	"github.com/agenthost/agenthost/host/internal/toolfault"
	"github.com/agenthost/agenthost/host/runevent"
)

// The waits between the attempts of a call.
const (
	firstToolWait   = 200 * time.Millisecond
	longestToolWait = 5 * time.Second
)

// runAttempts runs the handler, again after a failure that the tool may retry.
func (tc *toolCalls) runAttempts(ctx context.Context, tool *Tool, c *toolCall) (*ToolOutput, error) {
	for wait := firstToolWait; ; wait = min(2*wait, longestToolWait) {
		c.attempt.hold(c.attempt.Attempt <= tool.Retries)
		out, timedOut, err := tc.runAttempt(ctx, tool, c)
		if c.asksNested() { // the call starts again when there is an answer
			return &ToolOutput{Cost: out.own().Cost, Usage: out.own().Usage}, nil
		}
		if err == nil || c.attempt.Attempt > tool.Retries || !tool.mayPass(err, timedOut) {
			return out, err
		}
		tc.logWithheld(ctx, tool.Name, err)
		c.batch.Send(&runevent.ToolRetried{ID: c.part.ID, Name: tool.Name, Attempt: c.attempt.Attempt, Code: CodeOf(err), Reason: toolfault.Sentence(err, tc.events.Scope.Run)})
		c.attempt.State.view().TakeBack()
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return out, err
		}
		c.attempt.steps.GiveUp()
		c.attempt.State.view().EndCall()
		c.attempt = c.attempt.again()
		c.attempt.State = (*State)(tc.state.view().ForCall(c.attempt.tellChange))
	}
}

// mayPass reports whether a failure is one that another attempt may not have.
func (t *Tool) mayPass(err error, timedOut bool) bool {
	if timedOut {
		return t.ReadOnly || t.Idempotent // the last attempt may still be at it
	}
	e := fault.AsError(err)
	return e.Retryable || e.Code == Unavailable
}

// timeout is the time of one attempt.
func (t *Tool) timeout(l *Limits) time.Duration {
	timeout := l.ToolTimeout
	if t.agent != nil {
		timeout = l.RunTimeout
	}
	if t.Timeout > 0 {
		timeout = min(timeout, t.Timeout)
	}
	return timeout
}

// runAttempt runs the handler once, within its time.
func (tc *toolCalls) runAttempt(ctx context.Context, tool *Tool, c *toolCall) (_ *ToolOutput, timedOut bool, _ error) {
	toolCtx, end := tc.timeCall(ctx, tool, c)
	defer end()
	out, err := tc.awaitHandler(toolCtx, tool, c)
	if failed := c.attempt.lists().Failure(); failed != nil {
		return out, false, failed
	}
	switch {
	case err == nil || !foreign.EndedBy(toolCtx, err):
		return out, false, err
	case ctx.Err() != nil:
		return out, false, Errorf(Canceled, "The tool %s was stopped.", tool.Name)
	}
	return out, true, Errorf(DeadlineExceeded, "The tool %s took longer than %s.", tool.Name, tool.timeout(tc.limits))
}

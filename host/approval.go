package host

import (
	"context"
	"log/slog"
	"time"
)

// ApprovalRule says whether a person must agree to a call of a tool before it
// runs. The person is shown the reason; an empty one lets the call run. The call's
// arguments have been checked; a rule may read the state and the scope, and must
// not emit, schedule or make anything. An error fails the call.
//
// A tool may have a rule, and so may a network and a host: the first that gives
// a reason is enough. Rules are asked one after another in the run's goroutine,
// before any call of the answer begins.
type ApprovalRule func(ctx context.Context, call *Call) (reason string, err error)

// ApproveAlways returns the rule that a person must agree to each call.
func ApproveAlways(reason string) ApprovalRule {
	return func(context.Context, *Call) (string, error) { return reason, nil }
}

// ApproveWhen returns the rule that a person must agree to the calls whose
// arguments fit a schema. A call whose check exceeds the schema's limit fails:
// arguments made to be that long do not get by.
func ApproveWhen(arguments *Schema, reason string) ApprovalRule {
	return func(_ context.Context, call *Call) (string, error) {
		switch err := arguments.Validate(call.Arguments); CodeOf(err) {
		case "":
			return reason, nil
		case InvalidArgument:
			return "", nil
		default:
			return "", err
		}
	}
}

// askPersons settles the calls that do not run now: those that a person must agree to
// first, and those that the client executes.
func (tc *toolCalls) askPersons(ctx context.Context, calls []*toolCall) {
	for _, c := range calls {
		if c.settled || c.admitted {
			continue
		}
		tool := tc.toolNamed(c.part.Name)
		if tool == nil || !tool.client && tool.approve == nil && tc.net.opts.Approve == nil && tc.host.opts.Approve == nil {
			continue
		}
		started := time.Now()
		ask, err := tc.questionBefore(ctx, tool, c)
		if ask == nil && err == nil {
			continue
		}
		c.settled, c.err, c.duration = true, err, time.Since(started)
		if ask != nil {
			c.question = ask
			c.output = &ToolOutput{}
		}
		c.ensureOutput(tc.events.Scope.Run)
	}
}

// questionBefore returns the question to ask before a call runs, or nil.
func (tc *toolCalls) questionBefore(ctx context.Context, tool *Tool, c *toolCall) (*Question, error) {
	var err error
	if c.attempt.Arguments, err = tool.arguments(ctx, c.part.Arguments, tc.limits.ArgumentBytes); err != nil {
		return nil, err
	}
	c.checked = true
	if tool.client && (tc.events.Depth > 0 || c.caller != nil) && tc.clientAnswers {
		return nil, Errorf(FailedPrecondition, "The tool %s is executed by the client, which cannot be asked here.", tool.Name)
	}
	if tool.client {
		return tc.newQuestion(c, AskResult, "", nil), nil
	}
	for _, rule := range []ApprovalRule{tc.host.opts.Approve, tc.net.opts.Approve, tool.approve} {
		if rule == nil {
			continue
		}
		var reason string
		if err := tc.guardCall(ctx, tool.Name, func() (err error) { reason, err = rule(ctx, c.attempt); return err }); err != nil {
			return nil, wrapError(err, "whether %s may run cannot be decided", tool.Name)
		}
		if reason != "" && tc.clientAnswers {
			tc.events.Log(ctx, slog.LevelWarn, "nobody can be asked for an approval: seal what clients keep, or give the host a journal", "tool", tool.Name)
			return nil, Errorf(PermissionDenied, "A person must agree to this call, and cannot be asked here.")
		}
		if reason != "" {
			return tc.newQuestion(c, AskApproval, reason, nil), nil
		}
	}
	return nil, nil
}

// newQuestion makes a question about a call.
func (tc *toolCalls) newQuestion(c *toolCall, kind QuestionKind, reason string, data []byte) *Question {
	return &Question{ID: newQuestionID(), Kind: kind, Agent: tc.agent.name, ToolCall: c.part.ID, Tool: c.part.Name,
		Arguments: c.attempt.Arguments, Reason: reason, Data: data}
}

package host

import (
	"context"
	"encoding/json"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/hookedit"
	"github.com/agenthost/agenthost/host/internal/schema"
	"github.com/agenthost/agenthost/host/llm"
)

// Hooks are functions that are called at fixed points of each run of an agent.
// Any may be nil. The names follow AgentKit's lifecycle: start, response, finish,
// and one before and one after each tool call.
//
// Start, Response and Finish run in the goroutine of the run, ToolStart and
// ToolEnd in that of their call, so several at once. A hook makes its changes in
// the value it is given, which is its own: the messages of Start and Finish are copies,
// and one that the hook writes to is a changed message; answers, results and parts are
// shared and must be replaced, not written to. An error from Start, Response or Finish ends
// the run with it; one from a tool's hook fails that call and reaches the model
// like a tool's. A hook's changes of the state stay, also if its call fails.
//
// Events already sent to a reader of the stream are not taken back.
type Hooks struct {
	// Start is called before each model call.
	Start func(ctx context.Context, at *StartHook) error

	// Response is called with each answer of the model, before its tools run and
	// before it joins the conversation.
	Response func(ctx context.Context, at *ResponseHook) error

	// ToolStart is called before each call of a tool whose arguments fit.
	ToolStart func(ctx context.Context, at *ToolStartHook) error

	// ToolEnd is called after each call of a tool that has run, also after a failed
	// one. One that waits for the answer to a nested call has not: it starts again.
	ToolEnd func(ctx context.Context, at *ToolEndHook) error

	// Finish is called when the agent has said everything. It is not called for a
	// run that fails, asks a person or was stopped by Start.
	Finish func(ctx context.Context, at *FinishHook) error
}

// StartHook is the state of an agent's run before a model call.
type StartHook struct {
	Scope Scope
	State *State
	Input *Message // the user's message of this turn; may be nil
	Round int      // the model call to come, from 1
	SoFar *SoFar   // the results and the agents, and the conversation as no hook has changed it

	// Instructions is the system prompt, and Messages the conversation before the
	// processors, so that a redacting processor sees the messages that a hook adds.
	// Both come without the hook's earlier changes. A change holds for this model
	// call and for all later ones of the agent's run, and the same change made
	// before each call is one change: a hook need not look at Round. Messages that
	// are added keep their place. No change is stored: a run that is resumed, after
	// a question or in another process, has the changes that the hook makes from
	// there on.
	Instructions string
	Messages     []*Message

	// Stop, set to true, ends the agent's run here: the model is not asked, and
	// Finish is not called.
	Stop bool
}

// ResponseHook is a model's answer.
type ResponseHook struct {
	Scope        Scope
	State        *State
	SoFar        *SoFar
	Round        int
	Parts        []Part // may be replaced; a tool call that is taken out does not run
	FinishReason FinishReason
	Usage        Usage
}

// ToolStartHook is a call of a tool that is about to run.
type ToolStartHook struct {
	Scope Scope
	State *State
	SoFar *SoFar
	ID    string
	Tool  string

	// Arguments may be replaced; they are checked against the tool's schema
	// again.
	Arguments json.RawMessage

	// Output, if set, is the answer: the tool does not run.
	Output *ToolOutput
}

// ToolEndHook is a call of a tool that has run.
type ToolEndHook struct {
	Scope     Scope
	State     *State
	SoFar     *SoFar // at the beginning of the call
	ID        string
	Tool      string
	Arguments json.RawMessage
	Took      time.Duration

	// Output and Err are the tool's answer. Either may be replaced, also to make an
	// answer of a failure: the effects that the tool asks for (a change of the
	// state, an artifact, agents to schedule) happen after the hook.
	Output *ToolOutput
	Err    error
}

// FinishHook is a run of an agent that has ended well.
type FinishHook struct {
	Scope Scope
	State *State
	SoFar *SoFar

	// Messages are the answers and tool results of the run. They may be replaced
	// by others, which must be whole: every call answered, every result after its
	// call. Later agents see the messages that remain, and only those are stored.
	Messages     []*Message
	FinishReason FinishReason
	Rounds       int
	Usage        Usage
}

// StopAfterTool returns a condition for [AgentOptions].StopWhen: one of these
// tools was called and has answered without an error.
func StopAfterTool(names ...string) func(context.Context, *Result) (bool, error) {
	return func(_ context.Context, result *Result) (bool, error) {
		for _, r := range result.ToolResults() {
			if !r.IsError && slices.Contains(names, r.Name) {
				return true, nil
			}
		}
		return false, nil
	}
}

// hookMessages checks the messages that a hook returns: they may have no more
// faults than before.
func (a *Agent) hookMessages(after, before []*Message, name string) ([]*Message, error) {
	out, err := hookedit.Check(after, before, a.name)
	if err != nil {
		return nil, a.hookError(err, name)
	}
	return out, nil
}

func (a *Agent) hookError(err error, name string) error {
	return wrapError(err, "hook %s of agent %q", name, a.name)
}

// hookStart asks the Start hook and returns the conversation with its changes and
// those of the rounds before.
func (t *turn) hookStart(ctx context.Context, messages []*Message) (_ []*Message, stop bool, err error) {
	hook := t.agent.opts.Hooks.Start
	if hook == nil {
		return messages, false, nil
	}
	lent := chat.Lend(messages)
	at := &StartHook{Scope: t.run.scope, State: t.run.state, Input: t.run.conv.input, SoFar: t.soFar(), Round: t.result.Rounds + 1,
		Instructions: t.prompt.instructions, Messages: slices.Clone(lent.Copies)}
	if err := hook(ctx, at); err != nil {
		return nil, false, t.agent.hookError(err, "start")
	}
	t.run.events.SendState(t.run.state.view())
	if at.Stop {
		t.result.FinishReason = chat.FinishStop
		return nil, true, nil
	}
	edited, err := t.agent.hookMessages(lent.Return(at.Messages), messages, "start")
	if err != nil {
		return nil, false, err
	}
	e := &t.prompt.edits
	if t.run.service.id != "" { // the model's service has those of the rounds before
		e.ForgetFirst()
	}
	e.EditInstructions(t.prompt.instructions, at.Instructions)
	e.EditMessages(messages, edited)
	edited, err = t.agent.hookMessages(e.Messages(messages), messages, "start")
	return edited, false, err
}

// hookResponse asks the Response hook.
func (t *turn) hookResponse(ctx context.Context, resp *llm.Response) error {
	hook := t.agent.opts.Hooks.Response
	if hook == nil {
		return nil
	}
	at := &ResponseHook{Scope: t.run.scope, State: t.run.state, SoFar: t.soFar(), Round: t.result.Rounds,
		Parts: slices.Clone(resp.Parts), FinishReason: resp.FinishReason, Usage: resp.Usage}
	if err := hook(ctx, at); err != nil {
		return t.agent.hookError(err, "response")
	}
	t.run.events.SendState(t.run.state.view())
	own := *resp
	own.Parts, own.FinishReason = at.Parts, at.FinishReason
	checked, err := llm.Normalize(&llm.Request{}, &own, t.run.limits.ResponseBytes)
	if err != nil {
		return t.agent.hookError(err, "response")
	}
	resp.Parts, resp.FinishReason = checked.Parts, checked.FinishReason
	return nil
}

// hookFinish asks the Finish hook.
func (t *turn) hookFinish(ctx context.Context) error {
	hook := t.agent.opts.Hooks.Finish
	if hook == nil {
		return nil
	}
	r := t.result
	lent := chat.Lend(r.Messages)
	at := &FinishHook{Scope: t.run.scope, State: t.run.state, SoFar: t.soFar(), Messages: slices.Clone(lent.Copies),
		FinishReason: r.FinishReason, Rounds: r.Rounds, Usage: r.Usage}
	if err := hook(ctx, at); err != nil {
		return t.agent.hookError(err, "finish")
	}
	messages, err := t.agent.hookMessages(lent.Return(at.Messages), r.Messages, "finish")
	if err != nil {
		return err
	}
	t.replaced = !slices.Equal(messages, r.Messages)
	r.Messages, r.FinishReason = messages, at.FinishReason
	return nil
}

// hookToolStart asks the ToolStart hook. An output is the answer to give instead
// of running the tool.
func (tc *toolCalls) hookToolStart(ctx context.Context, tool *Tool, c *toolCall) (*ToolOutput, error) {
	hook := tc.agent.opts.Hooks.ToolStart
	if hook == nil {
		return nil, nil
	}
	at := &ToolStartHook{Scope: c.attempt.Scope, State: (*State)(c.attempt.State.view().ForHooks()), SoFar: c.attempt.SoFar, ID: c.part.ID, Tool: tool.Name, Arguments: slices.Clone(c.attempt.Arguments)}
	if err := tc.guardCall(ctx, tool.Name, func() error { return hook(ctx, at) }); err != nil {
		return nil, err
	}
	if at.Output != nil {
		return at.Output.own(), nil
	}
	if string(at.Arguments) == string(c.attempt.Arguments) {
		return nil, nil
	}
	if err := tool.schema.Validate(context.Background(), at.Arguments); err != nil {
		return nil, Errorf(InvalidArgument, "the arguments do not fit the schema: %w", err)
	}
	c.attempt.Arguments = schema.CanonicalIntegers(at.Arguments)
	return nil, nil
}

// hookToolEnd asks the ToolEnd hook.
func (tc *toolCalls) hookToolEnd(ctx context.Context, c *toolCall, started time.Time, out *ToolOutput, err error) (*ToolOutput, error) {
	hook := tc.agent.opts.Hooks.ToolEnd
	if hook == nil {
		return out, err
	}
	at := &ToolEndHook{Scope: c.attempt.Scope, State: (*State)(c.attempt.State.view().ForHooks()), SoFar: c.attempt.SoFar, ID: c.part.ID, Tool: c.part.Name,
		Arguments: c.attempt.Arguments, Took: time.Since(started), Output: out, Err: err}
	var spent ToolOutput // whatever becomes of the answer
	if out != nil {
		spent.Cost, spent.Usage = out.Cost, out.Usage
	}
	if err := tc.guardCall(ctx, c.part.Name, func() error { return hook(ctx, at) }); err != nil {
		return &spent, err
	}
	own := at.Output.own()
	own.Cost, own.Usage = spent.Cost, spent.Usage
	return own, at.Err
}

// guardCall makes an error of a panic, which would end the process in a call's
// goroutine: that of a hook or a rule, or of a value that a tool has returned.
func (tc *toolCalls) guardCall(ctx context.Context, tool string, hook func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			tc.events.Log(ctx, slog.LevelError, "panic around a tool", "tool", tool, "panic", p, "stack", string(debug.Stack()))
			err = Errorf(Internal, "The tool %s failed.", tool)
		}
	}()
	return hook()
}

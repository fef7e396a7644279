package host

import (
	"context"
	"log/slog"
	"slices"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/instrument"
	"github.com/agenthost/agenthost/host/internal/report"
	"github.com/agenthost/agenthost/host/internal/runusage"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
)

// How a run asks a model: processors, reservation, the answer as it streams.

// modelCalls asks models for a run: within its limits and its tenant's, with the
// conversation as processors leave it, and with events of the answer.
type modelCalls struct {
	events     *report.Reporter
	ledger     *runusage.Counter
	limits     *Limits
	tokens     TokenCounter
	instrument *instrument.Guard // nil is none
}

type levels []struct {
	name       string
	processors []Processor
}

// viewSource is a conversation that processors make the view of for a model.
type viewSource struct {
	model    string
	input    *Message   // the user's message of this turn; may be nil
	messages []*Message // the conversation
	own      []*Message // the messages that the agent about to be asked has made
}

// process applies processors level by level, each to the messages that the one
// before left. Own are the messages that the agent about to be asked has made.
func (c *modelCalls) process(ctx context.Context, v viewSource, levels levels) ([]*Message, error) {
	for _, level := range levels {
		for _, p := range level.processors {
			out, err := c.applyProcessor(ctx, p, level.name, v)
			if err != nil {
				return nil, err
			}
			v.messages = out
		}
	}
	return v.messages, nil
}

// processView applies one processor. It fills in the event, and sends it.
func (c *modelCalls) processView(ctx context.Context, p Processor, v viewSource, ev *runevent.ProcessorRan) ([]*Message, error) {
	messages := v.messages
	view := llm.NewView(messages, v.model, c.tokens)
	view.Scope, view.Own = *c.events.Scope, llm.CountOwn(messages, v.own)
	if v.input != nil {
		view.Input = v.input.ID
	}
	out, done, err := llm.ProcessLent(ctx, p, view)
	if err != nil {
		if !llm.IsOptional(p) || ctx.Err() != nil {
			ev.Error, ev.MessagesAfter, ev.TokensBefore, ev.TokensAfter = fault.AsError(err), len(messages), -1, -1
			c.events.Emit(ev)
			return nil, wrapError(err, "processor %q", p.Name())
		}
		c.events.LogMasked(ctx, "processor failed", err, "processor", p.Name())
		out, done, ev.Skipped = messages, &llm.Processed{}, fault.AsError(err)
	}
	c.ledger.AddCost(done.Cost)
	ev.MessagesAfter, ev.Report, ev.Cost = len(out), done.Report, done.Cost
	ev.Changed = !slices.Equal(messages, out)
	ev.TokensBefore, ev.Approximate = llm.CountMessages(ctx, c.tokens, v.model, messages)
	ev.TokensAfter = ev.TokensBefore
	if ev.Changed {
		ev.TokensAfter, _ = llm.CountMessages(ctx, c.tokens, v.model, out)
	}
	c.events.Emit(ev)
	return out, nil
}

// generate sends one request to a model and passes its deltas on. An answer without a
// reader of its deltas may come whole. The request gets a maximum of output
// from the ledger if it has none.
func (c *modelCalls) generate(ctx context.Context, model Model, req *llm.Request, round int, show bool) (*llm.Response, error) {
	req, call, err := c.ledger.ReserveModel(ctx, model, req)
	if err != nil {
		return nil, err
	}
	req.Whole = c.events.Whole || !show
	c.events.Emit(&runevent.ModelCalled{Model: model.Name(), Round: round, Messages: len(req.Messages), Tools: len(req.Tools)})
	return c.ask(ctx, model, req, call, show)
}

// listenAndBook reads an answer and books its tokens, also those of one that broke off. op
// takes note of the chunks; it may be nil.
func (c *modelCalls) listenAndBook(ctx context.Context, model Model, req *llm.Request, call *ModelCall, show bool, op *instrument.Model) (*llm.Response, Usage, error) {
	resp, shown, err := c.listen(ctx, model, req, show, op)
	if err != nil {
		return nil, c.ledger.BookUnfinished(ctx, call, req, resp, shown), err
	}
	c.ledger.BookTokens(call, resp.Usage)
	return resp, resp.Usage, nil
}

// listen reads an answer and checks it. shown is the number of its bytes received;
// beside an error resp is the rejected answer, or nil.
func (c *modelCalls) listen(ctx context.Context, model Model, req *llm.Request, show bool, op *instrument.Model) (resp *llm.Response, shown int, err error) {
	for chunk, err := range model.Generate(ctx, req) {
		if err != nil {
			return nil, shown, fault.Withhold(err)
		}
		if op != nil {
			op.Note(&chunk)
		}
		shown += c.pass(ctx, &chunk, show)
		if chunk.Response != nil {
			resp = chunk.Response
		} else if ctx.Err() != nil {
			return nil, shown, fault.ContextError(ctx)
		}
		if shown > c.limits.ResponseBytes {
			return resp, shown, llm.TooLong(c.limits.ResponseBytes)
		}
	}
	if resp == nil {
		return nil, shown, errNoAnswer()
	}
	own, err := llm.Normalize(req, resp, c.limits.ResponseBytes)
	if err != nil {
		return resp, shown, err
	}
	return own, shown, nil
}

// pass shows a delta to the reader and returns its size.
func (c *modelCalls) pass(ctx context.Context, chunk *llm.Chunk, show bool) int {
	n := len(chunk.Text) + len(chunk.Reasoning)
	if chunk.Retry != nil {
		c.events.Log(ctx, slog.LevelWarn, "model retried", "attempt", chunk.Retry.Attempt, "code", chunk.Retry.Code, "reason", chunk.Retry.Reason)
		c.events.Emit(&runevent.ModelRetried{Attempt: chunk.Retry.Attempt, Code: chunk.Retry.Code, Reason: chunk.Retry.Reason})
	}
	if f := chunk.Fallback; f != nil {
		c.events.Log(ctx, slog.LevelWarn, "model fell back", "from", f.From, "to", f.To, "code", f.Code, "reason", f.Reason)
		c.events.Emit(&runevent.ModelFellBack{From: f.From, To: f.To, Code: f.Code, Reason: f.Reason})
	}
	if chunk.ToolCall != nil {
		n += len(chunk.ToolCall.Arguments)
	}
	if !show {
		return n
	}
	if chunk.Reasoning != "" {
		c.events.Emit(&runevent.ReasoningDelta{Text: chunk.Reasoning})
	}
	if chunk.Text != "" {
		c.events.Emit(&runevent.TextDelta{Text: chunk.Text})
	}
	if chunk.ToolCall != nil {
		c.events.Emit(chunk.ToolCall)
	}
	return n
}

func withInstructions(instructions string, view []*Message) []*Message {
	return withSystem(instructionsMessage(instructions), view)
}

// instructionsMessage returns the system message of instructions, nil if there are none.
func instructionsMessage(text string) *Message {
	if text == "" {
		return nil
	}
	return &Message{ID: "instructions", Role: System, Parts: []Part{&Text{Text: text}}}
}

func withSystem(system *Message, view []*Message) []*Message {
	out := make([]*Message, 0, 1+len(view))
	if system != nil {
		out = append(out, system)
	}
	return append(out, view...)
}

// withoutOrphans is [chat.WithoutOrphans] for a request to a model, with a word in the log.
func (c *modelCalls) withoutOrphans(ctx context.Context, messages []*Message) []*Message {
	out, dropped := chat.WithoutOrphans(messages)
	if dropped > 0 {
		c.events.Log(ctx, slog.LevelWarn, "tool results without a call are left out of a request to a model", "results", dropped)
	}
	return out
}

// Package modelcall asks models for a run.
//
// A conversation goes in and comes out as processors leave it for a model. A request goes
// in and a checked answer comes out, within the limits of the run and those of its tenant.
// Events of the answer are sent as it streams, and its usage is counted, also when it breaks
// off or is refused.
//
// The package chooses no model and runs no tool.
package modelcall

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
	"github.com/agenthost/agenthost/host/runledger"
)

// Calls asks models for a run: within its limits and its tenant's, with the
// conversation as processors leave it, and with events of the answer.
type Calls struct {
	Events     *report.Reporter
	Usage      *runusage.Counter
	Instrument *instrument.Guard // nil is none
}

// Level is where processors were given to a host, such as a network.
type Level struct {
	Name       string
	Processors []llm.Processor
}

// Source is a conversation that processors make the view of for a model.
type Source struct {
	Model    string
	Input    *chat.Message   // the user's message of this turn; may be nil
	Messages []*chat.Message // the conversation
	Own      []*chat.Message // the messages that the agent about to be asked has made
}

// Process applies processors level by level, each to the messages that the one before
// left.
func (c *Calls) Process(ctx context.Context, v Source, levels []Level) ([]*chat.Message, error) {
	for _, level := range levels {
		for _, p := range level.Processors {
			out, err := c.applyProcessor(ctx, p, level.Name, v)
			if err != nil {
				return nil, err
			}
			v.Messages = out
		}
	}
	return v.Messages, nil
}

// applyProcessor applies one processor and sends the event of it.
func (c *Calls) applyProcessor(ctx context.Context, p llm.Processor, level string, v Source) ([]*chat.Message, error) {
	ev := &runevent.ProcessorRan{Processor: p.Name(), Level: level, MessagesBefore: len(v.Messages)}
	g := c.Instrument
	if g == nil {
		return c.processView(ctx, p, v, ev)
	}
	op := &instrument.Processor{Scope: *c.Events.Scope, Name: p.Name(), Level: level}
	return instrument.Do(ctx, g, op, func(ctx context.Context) ([]*chat.Message, error) {
		out, err := c.processView(ctx, p, v, ev)
		op.MessagesBefore, op.MessagesAfter, op.TokensBefore, op.TokensAfter = ev.MessagesBefore, ev.MessagesAfter, ev.TokensBefore, ev.TokensAfter
		if ev.Skipped != nil {
			op.Skipped = ev.Skipped
		}
		return out, err
	})
}

// processView applies one processor. It fills in the event, and sends it.
func (c *Calls) processView(ctx context.Context, p llm.Processor, v Source, ev *runevent.ProcessorRan) ([]*chat.Message, error) {
	messages := v.Messages
	view := llm.NewView(messages, v.Model, c.Usage.Tokens)
	view.Scope, view.Own = *c.Events.Scope, llm.CountOwn(messages, v.Own)
	if v.Input != nil {
		view.Input = v.Input.ID
	}
	out, done, err := llm.ProcessLent(ctx, p, view)
	if err != nil {
		if !llm.IsOptional(p) || ctx.Err() != nil {
			ev.Error, ev.MessagesAfter, ev.TokensBefore, ev.TokensAfter = fault.AsError(err), len(messages), -1, -1
			c.Events.Emit(ev)
			return nil, fault.Wrap(err, "processor %q", p.Name())
		}
		c.Events.LogMasked(ctx, "processor failed", err, "processor", p.Name())
		out, done, ev.Skipped = messages, &llm.Processed{}, fault.AsError(err)
	}
	c.Usage.AddCost(done.Cost)
	ev.MessagesAfter, ev.Report, ev.Cost = len(out), done.Report, done.Cost
	ev.Changed = !slices.Equal(messages, out)
	ev.TokensBefore, ev.Approximate = llm.CountMessages(ctx, c.Usage.Tokens, v.Model, messages)
	ev.TokensAfter = ev.TokensBefore
	if ev.Changed {
		ev.TokensAfter, _ = llm.CountMessages(ctx, c.Usage.Tokens, v.Model, out)
	}
	c.Events.Emit(ev)
	return out, nil
}

// Generate sends one request to a model and passes its deltas on. An answer without a
// reader of its deltas may come whole. The request gets a maximum of output
// from the tenant's record if it has none.
func (c *Calls) Generate(ctx context.Context, model llm.Model, req *llm.Request, round int, show bool) (*llm.Response, error) {
	req, call, err := c.Usage.ReserveModel(ctx, model, req)
	if err != nil {
		return nil, err
	}
	req.Whole = c.Events.Whole || !show
	c.Events.Emit(&runevent.ModelCalled{Model: model.Name(), Round: round, Messages: len(req.Messages), Tools: len(req.Tools)})
	return c.ask(ctx, model, req, call, show)
}

// ask asks a model. Agents show their answers, routers do not.
func (c *Calls) ask(ctx context.Context, model llm.Model, req *llm.Request, call *runledger.ModelCall, show bool) (*llm.Response, error) {
	g := c.Instrument
	if g == nil {
		resp, _, err := c.listenAndBook(ctx, model, req, call, show, nil)
		return resp, err
	}
	op := instrument.NewModel(model, req, instrument.ForRouter)
	if show {
		op.Purpose = instrument.ForAgent
	}
	return instrument.Do(ctx, g, op, func(ctx context.Context) (resp *llm.Response, err error) {
		op.Response, op.Usage, err = c.listenAndBook(ctx, model, req, call, show, op)
		return op.Response, err
	})
}

// listenAndBook reads an answer and books its tokens, also those of one that broke off. op
// takes note of the chunks; it may be nil.
func (c *Calls) listenAndBook(ctx context.Context, model llm.Model, req *llm.Request, call *runledger.ModelCall, show bool, op *instrument.Model) (*llm.Response, chat.Usage, error) {
	resp, shown, err := c.listen(ctx, model, req, show, op)
	if err != nil {
		return nil, c.Usage.BookUnfinished(ctx, call, req, resp, shown), err
	}
	c.Usage.BookTokens(call, resp.Usage)
	return resp, resp.Usage, nil
}

// listen reads an answer and checks it. shown is the number of its bytes received;
// beside an error resp is the rejected answer, or nil.
func (c *Calls) listen(ctx context.Context, model llm.Model, req *llm.Request, show bool, op *instrument.Model) (resp *llm.Response, shown int, err error) {
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
		if shown > c.Usage.Limits.ResponseBytes {
			return resp, shown, llm.TooLong(c.Usage.Limits.ResponseBytes)
		}
	}
	if resp == nil {
		return nil, shown, fault.Errorf(fault.Unavailable, "answer ends without a result").WithHint("the model's server broke off; try again")
	}
	own, err := llm.Normalize(req, resp, c.Usage.Limits.ResponseBytes)
	if err != nil {
		return resp, shown, err
	}
	return own, shown, nil
}

// pass shows a delta to the reader and returns its size.
func (c *Calls) pass(ctx context.Context, chunk *llm.Chunk, show bool) int {
	n := len(chunk.Text) + len(chunk.Reasoning)
	if chunk.Retry != nil {
		c.Events.Log(ctx, slog.LevelWarn, "model retried", "attempt", chunk.Retry.Attempt, "code", chunk.Retry.Code, "reason", chunk.Retry.Reason)
		c.Events.Emit(&runevent.ModelRetried{Attempt: chunk.Retry.Attempt, Code: chunk.Retry.Code, Reason: chunk.Retry.Reason})
	}
	if f := chunk.Fallback; f != nil {
		c.Events.Log(ctx, slog.LevelWarn, "model fell back", "from", f.From, "to", f.To, "code", f.Code, "reason", f.Reason)
		c.Events.Emit(&runevent.ModelFellBack{From: f.From, To: f.To, Code: f.Code, Reason: f.Reason})
	}
	if chunk.ToolCall != nil {
		n += len(chunk.ToolCall.Arguments)
	}
	if !show {
		return n
	}
	if chunk.Reasoning != "" {
		c.Events.Emit(&runevent.ReasoningDelta{Text: chunk.Reasoning})
	}
	if chunk.Text != "" {
		c.Events.Emit(&runevent.TextDelta{Text: chunk.Text})
	}
	if chunk.ToolCall != nil {
		c.Events.Emit(chunk.ToolCall)
	}
	return n
}

// WithoutOrphans is [chat.WithoutOrphans] for a request to a model, with a word in the log.
func (c *Calls) WithoutOrphans(ctx context.Context, messages []*chat.Message) []*chat.Message {
	out, dropped := chat.WithoutOrphans(messages)
	if dropped > 0 {
		c.Events.Log(ctx, slog.LevelWarn, "tool results without a call are left out of a request to a model", "results", dropped)
	}
	return out
}

package llm

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/foreign"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// Processor changes the view of history that a model receives: it drops, shortens,
// redacts, summarises. It runs before every model call, on stored
// history, the turn's input and the turn's tool rounds, without the system
// prompt. Stored history is never changed by it.
//
// Implementations are safe for concurrent use. The result may not be worse
// formed than the view: see [Processed].
type Processor interface {
	Name() string
	Process(ctx context.Context, view *View) (*Processed, error)
}

// Processed is the report of a processor. At most one of Messages and Edits is set;
// neither, or a nil *Processed, means unchanged. Afterwards the host checks that
// roles are known, ids unique, every tool result after its call, every call
// answered (or still open at the very end), and that the current input is still
// there: it may be edited but not dropped. A result that breaks a rule which the
// view kept fails the processor.
type Processed struct {
	Messages []*chat.Message
	Edits    []chat.Edit
	Report   json.RawMessage // any JSON, shown on the run
	Cost     *chat.Cost      // set by sandboxed processors
}

// Reader is an optional interface of processors, and of context providers, that never
// write to the messages they are given. They get the messages of the conversation, with
// the sizes and token counts that those remember; others get copies.
type Reader interface{ ReadsOnly() }

// ReadsOnly reports whether p is a [Reader], or one that [Optional] has wrapped.
func ReadsOnly(p any) bool {
	if o, ok := p.(optionalProcessor); ok {
		p = o.Processor
	}
	_, ok := p.(Reader)
	return ok
}

// View is the input of a processor. In a run its messages are copies, unless the processor
// is a [Reader]: a copy that the processor writes to and returns is a change of that
// message, and the conversation stays unchanged.
type View struct {
	Scope    Scope
	Model    string // the model the view is for
	Messages []*chat.Message
	Input    string // id of this turn's input, which may be edited but not dropped; "" for none

	// Own is the number of Messages, the last ones, from the first that the agent
	// about to be asked, or one of its tools, has added since its router picked it.
	// A processor that filters the messages of agents leaves these alone: an agent
	// that does not see its own calls makes them again until a limit ends the run. 0
	// is none.
	Own int

	counter chat.TokenCounter
}

// NewView returns a view outside any run, for testing processors. counter may
// be nil.
func NewView(messages []*chat.Message, model string, counter chat.TokenCounter) *View {
	return &View{Model: model, Messages: messages, counter: counter}
}

// Tokens returns each message's number of tokens in an encoding or a custom
// tokenizer; "" is the model's encoding. Each message is counted once and
// remembers. Code failed_precondition if the host has no token counter.
func (v *View) Tokens(ctx context.Context, encoding string) ([]int, error) {
	if v.counter == nil {
		return nil, fault.Errorf(fault.FailedPrecondition, "count tokens: the host has no token counter").
			WithHint("set host.Options.Tokens")
	}
	if encoding == "" {
		encoding, _ = v.counter.EncodingFor(v.Model)
	}
	counts := make([]int, len(v.Messages))
	for i, m := range v.Messages {
		n, err := m.CountTokens(ctx, v.counter, encoding)
		if err != nil {
			return nil, err
		}
		counts[i] = n
	}
	return counts, nil
}

// Encoding returns the model's encoding and whether its tables are exact.
func (v *View) Encoding() (name string, exact bool) {
	if v.counter == nil {
		return "", false
	}
	return v.counter.EncodingFor(v.Model)
}

// CountTokens returns the number of tokens of any text.
func (v *View) CountTokens(ctx context.Context, encoding string, text []byte) (int, error) {
	if v.counter == nil {
		return 0, fault.Errorf(fault.FailedPrecondition, "count tokens: the host has no token counter")
	}
	if encoding == "" {
		encoding, _ = v.counter.EncodingFor(v.Model)
	}
	return v.counter.CountTokens(ctx, encoding, text)
}

// ProcessorFunc returns a processor from a function from messages to messages.
// The messages are copies in a run: one that the function writes to and returns is changed.
func ProcessorFunc(name string, fn func(ctx context.Context, messages []*chat.Message) ([]*chat.Message, error)) Processor {
	return &funcProcessor{name, fn}
}

type funcProcessor struct {
	name string
	fn   func(context.Context, []*chat.Message) ([]*chat.Message, error)
}

func (p *funcProcessor) Name() string { return p.name }

func (p *funcProcessor) Process(ctx context.Context, view *View) (*Processed, error) {
	in := append(make([]*chat.Message, 0, len(view.Messages)), view.Messages...)
	out, err := p.fn(ctx, in)
	if err != nil {
		return nil, err
	}
	if out == nil {
		out = []*chat.Message{}
	}
	return &Processed{Messages: out}, nil
}

// Optional returns p with another answer to failure: the processor is skipped,
// which is an event of the run, and the run continues. That is right for a
// processor that saves tokens and wrong for one that redacts.
func Optional(p Processor) Processor { return optionalProcessor{p} }

type optionalProcessor struct{ Processor }

// IsOptional reports whether [Optional] made p.
func IsOptional(p Processor) bool {
	_, optional := p.(optionalProcessor)
	return optional
}

// ProcessLent is [Process] on copies of a view's messages, unless the processor never
// writes to them.
func ProcessLent(ctx context.Context, p Processor, view *View) ([]*chat.Message, *Processed, error) {
	if ReadsOnly(p) {
		return Process(ctx, p, view)
	}
	messages, lent := view.Messages, chat.Lend(view.Messages)
	view.Messages = slices.Clone(lent.Copies)
	out, done, err := Process(ctx, p, view)
	if err == nil && done.Messages == nil && len(done.Edits) == 0 {
		return messages, done, nil
	}
	return lent.Return(out), done, err
}

// Process applies one processor to a view and checks the result. It returns the new
// messages and the processor's report. A run does the same at each level, on copies.
func Process(ctx context.Context, p Processor, view *View) ([]*chat.Message, *Processed, error) {
	done, err := foreign.NamePanic("processor "+strconv.Quote(p.Name()), func() (*Processed, error) { return p.Process(ctx, view) })
	if err != nil {
		return nil, nil, err
	}
	if done == nil {
		done = &Processed{}
	}
	if len(done.Report) > 0 && jsondoc.Check(done.Report) != nil {
		return nil, nil, fault.Errorf(fault.Internal, "processor %q reports what is not JSON", p.Name())
	}
	out := view.Messages
	switch {
	case done.Messages != nil && done.Edits != nil:
		return nil, nil, fault.Errorf(fault.Internal, "processor %q returned both messages and edits", p.Name())
	case done.Messages != nil:
		out = make([]*chat.Message, len(done.Messages))
		for i, m := range done.Messages {
			if m == nil {
				return nil, nil, fault.Errorf(fault.Internal, "processor %q returned no message at %d", p.Name(), i)
			}
			out[i] = m.WithIdentity()
		}
	case len(done.Edits) > 0:
		if out, err = chat.ApplyEdits(view.Messages, done.Edits); err != nil {
			return nil, nil, &fault.Error{Code: fault.Internal, Message: fmt.Sprintf("processor %q: %v", p.Name(), err), Err: err}
		}
	default:
		return out, done, nil
	}
	if n, first := chat.Faults(out); n > 0 {
		if was, _ := chat.Faults(view.Messages); n > was {
			return nil, nil, fault.Errorf(fault.Internal, "processor %q leaves a broken history: %w", p.Name(), first)
		}
	}
	if err := view.checkInputKept(out); err != nil {
		return nil, nil, err
	}
	return out, done, nil
}

// ProcessAll applies processors in their order, each to the messages that the one
// before has left, as a run does at each level. It returns the remaining messages
// and each processor's report: nil for one that is [Optional] and failed, which is
// skipped. The error of any other ends it, with the processor's name.
func ProcessAll(ctx context.Context, list []Processor, view *View) ([]*chat.Message, []*Processed, error) {
	own := view.Messages[max(0, len(view.Messages)-max(0, view.Own)):]
	at, reports := *view, make([]*Processed, len(list))
	for i, p := range list {
		out, done, err := Process(ctx, p, &at)
		switch {
		case err == nil:
			reports[i], at.Messages, at.Own = done, out, CountOwn(out, own)
		case !IsOptional(p) || ctx.Err() != nil:
			return nil, nil, fault.Wrap(err, "processor %q", p.Name())
		}
	}
	return at.Messages, reports, nil
}

// checkInputKept fails for a processor that dropped the user's input instead of
// editing it.
func (v *View) checkInputKept(after []*chat.Message) error {
	isInput := func(m *chat.Message) bool { return m.ID == v.Input && m.Role == chat.User && len(m.Parts) > 0 }
	if v.Input != "" && slices.ContainsFunc(v.Messages, isInput) && !slices.ContainsFunc(after, isInput) {
		return fault.Errorf(fault.Internal, "drops the current input").WithHint("edit it instead; the model must see what it answers")
	}
	return nil
}

// CountOwn returns the number of a view's messages from the first own one on.
// Processors may have edited, moved and dropped some, so ids tell.
func CountOwn(view, own []*chat.Message) int {
	if len(own) == 0 {
		return 0
	}
	ids := make(map[string]bool, len(own))
	for _, m := range own {
		ids[m.ID] = true
	}
	first := slices.IndexFunc(view, func(m *chat.Message) bool { return ids[m.ID] })
	if first < 0 {
		return 0
	}
	return len(view) - first
}

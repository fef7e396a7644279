package host

import (
	"context"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Processor changes the view of history that a model is sent: it drops,
// shortens, redacts, summarises. It runs before every model call, on stored
// history, the turn's input and the turn's tool rounds, without the system
// prompt. Stored history is never changed by it.
//
// Implementations are safe for concurrent use. The result may not be worse
// formed than the view: see [Processed].
type Processor interface {
	Name() string
	Process(ctx context.Context, view *View) (*Processed, error)
}

// Processed is what a processor did. At most one of Messages and Edits is set;
// neither, or a nil *Processed, means unchanged. Afterwards the host checks that
// roles are known, ids unique, every tool result after its call, every call
// answered (or still open at the very end), and that the current input is still
// there: it may be edited but not dropped. A result that breaks a rule which
// the view kept fails the processor.
type Processed struct {
	Messages []*Message
	Edits    []Edit
	Report   json.RawMessage // any JSON, shown on the run
	Cost     *Cost           // set by sandboxed processors
}

// View is what a processor sees. Messages must not be changed in place.
type View struct {
	Scope    Scope
	Model    string // the model the view is for
	Messages []*Message
	counter  TokenCounter
}

// NewView returns a view outside any run, for testing processors. counter may
// be nil.
func NewView(messages []*Message, model string, counter TokenCounter) *View {
	return &View{Model: model, Messages: messages, counter: counter}
}

// Tokens returns each message's number of tokens in an encoding or a custom
// tokenizer; "" is the model's encoding. Each message is counted once and
// remembers. Code failed_precondition if the host has no token counter.
func (v *View) Tokens(ctx context.Context, encoding string) ([]int, error) {
	if v.counter == nil {
		return nil, Errorf(FailedPrecondition, "count tokens: the host has no token counter").
			WithHint("set host.Options.Tokens")
	}
	if encoding == "" {
		encoding, _ = v.counter.EncodingFor(v.Model)
	}
	counts := make([]int, len(v.Messages))
	for i, m := range v.Messages {
		n, err := m.countTokens(ctx, v.counter, encoding)
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
		return 0, Errorf(FailedPrecondition, "count tokens: the host has no token counter")
	}
	if encoding == "" {
		encoding, _ = v.counter.EncodingFor(v.Model)
	}
	return v.counter.CountTokens(ctx, encoding, text)
}

// size is what is known of a message's counted text. It is made once a message.
type size struct {
	bytes, chars int
	tokens       []tokenCount
}

type tokenCount struct {
	counter  TokenCounter
	encoding string
	n        int
}

// Size returns the bytes and the characters (UTF-16 units) of m's counted text:
// see [Message.AppendCountedText].
func (m *Message) Size() (bytes, chars int) {
	s := m.sized()
	return s.bytes, s.chars
}

func (m *Message) sized() *size {
	if s := m.size.Load(); s != nil {
		return s
	}
	s := &size{}
	if t := m.onlyText(); t != nil {
		s.bytes, s.chars = len(t.Text), utf16Len(t.Text)
	} else {
		text := m.AppendCountedText(nil)
		s.bytes, s.chars = len(text), utf16Len(string(text))
	}
	m.size.Store(s)
	return s
}

// onlyText spares the most common message a copy.
func (m *Message) onlyText() *Text {
	if len(m.Parts) != 1 {
		return nil
	}
	t, _ := m.Parts[0].(*Text)
	return t
}

func utf16Len(s string) int {
	n := 0
	for _, r := range s {
		n++
		if r >= 0x10000 && r <= utf8.MaxRune {
			n++
		}
	}
	return n
}

func (m *Message) countTokens(ctx context.Context, counter TokenCounter, encoding string) (int, error) {
	s := m.sized()
	for _, c := range s.tokens {
		if c.encoding == encoding && c.counter == counter {
			return c.n, nil
		}
	}
	n, err := counter.CountTokens(ctx, encoding, m.AppendCountedText(nil))
	if err != nil {
		return 0, err
	}
	// A message that two views count at once is counted twice; either result is
	// the right one.
	tokens := append(append([]tokenCount(nil), s.tokens...), tokenCount{counter, encoding, n})
	m.size.Store(&size{bytes: s.bytes, chars: s.chars, tokens: tokens})
	return n, nil
}

// ProcessorFunc returns a processor from a function from messages to messages.
// The function must not change the messages it is given; to change one it
// clones it.
func ProcessorFunc(name string, fn func(ctx context.Context, messages []*Message) ([]*Message, error)) Processor {
	return &funcProcessor{name, fn}
}

type funcProcessor struct {
	name string
	fn   func(context.Context, []*Message) ([]*Message, error)
}

func (p *funcProcessor) Name() string { return p.name }

func (p *funcProcessor) Process(ctx context.Context, view *View) (*Processed, error) {
	in := append(make([]*Message, 0, len(view.Messages)), view.Messages...)
	out, err := p.fn(ctx, in)
	if err != nil {
		return nil, err
	}
	if out == nil {
		out = []*Message{}
	}
	return &Processed{Messages: out}, nil
}

// Optional returns p with another answer to failure: the processor is passed
// over, which the run tells as an event, and the run goes on. That is right
// for what saves tokens and wrong for what redacts.
func Optional(p Processor) Processor { return optionalProcessor{p} }

type optionalProcessor struct{ Processor }

// Process applies one processor to a view and checks the result. It returns the
// new messages and what was reported. It is what a run does at each level,
// without the run.
func Process(ctx context.Context, p Processor, view *View) ([]*Message, *Processed, error) {
	done, err := p.Process(ctx, view)
	if err != nil {
		return nil, nil, err
	}
	if done == nil {
		done = &Processed{}
	}
	out := view.Messages
	switch {
	case done.Messages != nil && done.Edits != nil:
		return nil, nil, Errorf(Internal, "processor %q returned both messages and edits", p.Name())
	case done.Messages != nil:
		out = make([]*Message, len(done.Messages))
		for i, m := range done.Messages {
			if m == nil {
				return nil, nil, Errorf(Internal, "processor %q returned no message at %d", p.Name(), i)
			}
			out[i] = withIdentity(m, nil)
		}
	case len(done.Edits) > 0:
		if out, err = ApplyEdits(view.Messages, done.Edits); err != nil {
			return nil, nil, &Error{Code: Internal, Message: fmt.Sprintf("processor %q: %v", p.Name(), err), Err: err}
		}
	default:
		return out, done, nil
	}
	if err := checkHistory(out); err != nil && checkHistory(view.Messages) == nil {
		return nil, nil, Errorf(Internal, "processor %q leaves a broken history: %w", p.Name(), err)
	}
	return out, done, nil
}

// checkHistory says what is wrong with a history, if anything.
func checkHistory(messages []*Message) error {
	ids := make(map[string]struct{}, len(messages))
	var pairs pairing
	for i, m := range messages {
		if !m.Role.Valid() {
			return fmt.Errorf("message %d has role %q", i, m.Role)
		}
		if _, twice := ids[m.ID]; twice {
			return fmt.Errorf("two messages have the id %q", m.ID)
		}
		ids[m.ID] = struct{}{}
		if err := pairs.next(m); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
	}
	return nil
}

// pairing follows which tool calls are open while a history is read. An id may
// be used again once its call is answered.
type pairing struct{ open []string }

func (p *pairing) next(m *Message) error {
	if len(p.open) > 0 && movesOn(m) {
		return fmt.Errorf("call %q is not answered before it", p.open[0])
	}
	for _, part := range m.Parts {
		switch part := part.(type) {
		case *ToolResult:
			if !p.answer(part.ID) {
				return fmt.Errorf("result %q of %s has no open call before it", part.ID, part.Name)
			}
		case *ToolCall:
			p.open = append(p.open, part.ID)
		}
	}
	return nil
}

// movesOn reports whether m can only come when no call is open. More calls of
// the same answer can still come: some providers give each a message.
func movesOn(m *Message) bool {
	return m.Role == User || m.Role == System ||
		m.Role == Assistant && len(m.ToolCalls()) < len(m.Parts)
}

func (p *pairing) answer(id string) bool {
	for i, open := range p.open {
		if open == id {
			p.open = append(p.open[:i:i], p.open[i+1:]...)
			return true
		}
	}
	return false
}

// closeOpenCalls returns messages with an error result for each call that an
// earlier run left open, at the place where providers want it.
func closeOpenCalls(messages []*Message) []*Message {
	var pairs pairing
	var out []*Message // nil until something must be added
	for i, m := range messages {
		if len(pairs.open) > 0 && movesOn(m) {
			out = appendClosing(out, messages[:i], &pairs, messages)
		}
		_ = pairs.next(m) // an orphan result is for a processor to judge
		if out != nil {
			out = append(out, m)
		}
	}
	if len(pairs.open) > 0 {
		out = appendClosing(out, messages, &pairs, messages)
	}
	if out == nil {
		return messages
	}
	return out
}

const lostResult = "There is no result: the run ended before this tool had answered."

func appendClosing(out, before []*Message, pairs *pairing, all []*Message) []*Message {
	if out == nil {
		out = append(make([]*Message, 0, len(all)+len(pairs.open)), before...)
	}
	names := map[string]*ToolCall{}
	for _, m := range before {
		for _, c := range m.ToolCalls() {
			names[c.ID] = c
		}
	}
	for _, id := range pairs.open {
		out = append(out, &Message{
			ID: "closed-" + id + "-" + before[len(before)-1].ID, Role: ToolRole,
			CreatedAt: before[len(before)-1].CreatedAt,
			Parts:     []Part{&ToolResult{ID: id, Name: names[id].Name, Content: jsonString(lostResult), IsError: true}},
		})
	}
	pairs.open = nil
	return out
}

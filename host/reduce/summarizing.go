package reduce

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/instrument"
	"github.com/agenthost/agenthost/host/internal/defaults"
	"github.com/agenthost/agenthost/host/llm"
)

// SummaryKey is the metadata member of a message that holds a summary of the
// conversation up to and including that message, as a JSON string. The name is
// Agent Framework's. Summarizing reads it, and sets it on its own messages.
const SummaryKey = "__summary__"

// DefaultPrompt asks for a summary.
const DefaultPrompt = "Summarize the conversation so far in at most five sentences, for an assistant that goes on with it and sees " +
	"nothing else of it. Keep names, numbers, decisions, what tools found out, and what is still open. Answer with the summary alone."

// MaxSummaryBytes bounds a summary: a longer one is cut.
const MaxSummaryBytes = 64 << 10

// DefaultSummaryInputBytes is the default of SummarizingOptions.InputBytes.
const DefaultSummaryInputBytes = 128 << 10

// SummarizingOptions are the optional parts of [Summarizing].
type SummarizingOptions struct {
	// Threshold is how many messages beyond the target are left alone.
	Threshold int

	// Prompt asks for the summary. Default: [DefaultPrompt].
	Prompt string

	// ToolPairs says whether the summarizing model sees tool calls and their
	// results, as text. Default: KeepToolPairs. They are never split.
	ToolPairs ToolPairs

	// InputBytes bounds the text of one summary. Text beyond it stays in the
	// conversation until the next summary; of a message that alone exceeds it, the
	// model sees the beginning. Default: DefaultSummaryInputBytes.
	InputBytes int

	// Summaries keeps each thread's newest summary, so that nothing is summarized
	// twice. Default: memory, for the last MaxRememberedThreads threads.
	Summaries Summaries

	// Logger receives warnings of blank summaries; nil discards.
	Logger *slog.Logger
}

// Summarizing puts a model's summary in place of old messages, once there are more
// than target and Options.Threshold, so that about target are left. It cuts before
// a user's message where it can, and never between a tool call and its results. The
// next time the model receives its own summary and the messages that have become
// old since. The result is the first system message, the summary as an assistant's
// message that carries [SummaryKey], and the rest; other system messages are
// dropped. A failing model fails the reducer. An answer without text leaves the
// conversation unchanged, which Options.Logger and the report of [Processor] say:
// no message is dropped without a summary.
//
// Where to cut is decided as Agent Framework's SummarizingChatReducer does. Code
// invalid_argument for a nil model, a target below 1 or a negative threshold.
func Summarizing(model host.Model, target int, opts *SummarizingOptions) (Reducer, error) {
	if opts == nil {
		opts = &SummarizingOptions{}
	}
	if model == nil {
		return nil, host.Errorf(host.InvalidArgument, "a summarizing reducer without a model")
	}
	if err := atLeast(1, target, "the target of a summarizing reducer"); err != nil {
		return nil, err
	}
	if err := atLeast(0, opts.Threshold, "the threshold of a summarizing reducer"); err != nil {
		return nil, err
	}
	if err := opts.ToolPairs.check(); err != nil {
		return nil, err
	}
	r := &summarizing{model: model, target: target, SummarizingOptions: *opts}
	if r.Prompt == "" {
		r.Prompt = DefaultPrompt
	}
	defaults.Set(&r.InputBytes, DefaultSummaryInputBytes)
	if r.Summaries == nil {
		r.Summaries = newRemembered()
	}
	if r.Logger == nil {
		r.Logger = slog.New(slog.DiscardHandler)
	}
	return r, nil
}

type summarizing struct {
	model  host.Model
	target int
	SummarizingOptions
}

// ReadsOnly implements [llm.Reader].
func (*summarizing) ReadsOnly() {}

func (r *summarizing) Reduce(ctx context.Context, view *host.View) ([]*host.Message, error) {
	if err := checkView(view); err != nil {
		return nil, err
	}
	past, turn := history(view)
	system, rest := takeSystem(past)
	known, err := r.Summaries.Load(ctx, view.Scope)
	if err != nil {
		return nil, err
	}
	summary, rest := latest(known, rest)
	if cut := r.cut(rest); cut > 0 {
		if cut = r.bounded(rest, cut); cut > 0 {
			summary, err = r.summarize(ctx, view.Scope, summary, rest[:cut])
			if errors.Is(err, errBlank) {
				tellProblem(ctx, err.Error())
				r.Logger.WarnContext(ctx, "a conversation is not reduced", "thread", view.Scope.Thread, "model", r.model.Name(), "error", err)
				return view.Messages, nil
			}
			if err != nil {
				return nil, err
			}
			rest = rest[cut:]
		}
	}
	out := system
	if summary != nil {
		out = append(out, summary.message())
	}
	return append(append(out, rest...), turn...), nil
}

// latest returns the newest summary that belongs to messages, and the messages
// after those that it covers.
func latest(known *Summary, messages []*host.Message) (*Summary, []*host.Message) {
	var summary *Summary
	var rest []*host.Message
	for _, m := range messages {
		if text, ok := marked(m); ok {
			summary, rest = &Summary{Text: text, Through: m.ID}, nil
			continue
		}
		rest = append(rest, m)
		if known != nil && m.ID != "" && m.ID == known.Through {
			summary, rest = known, nil
		}
	}
	return summary, rest
}

// marked returns the summary that a message carries. Only an assistant's message
// does: a user cannot send text that counts as a summary.
func marked(m *host.Message) (text string, ok bool) {
	raw, ok := m.Metadata[SummaryKey]
	ok = ok && m.Role == host.Assistant
	return text, ok && json.Unmarshal(raw, &text) == nil
}

// cut returns how many of the oldest messages to summarize.
func (r *summarizing) cut(messages []*host.Message) int {
	earliest := len(messages) - r.Threshold - r.target
	if earliest <= 0 {
		return 0
	}
	cut := len(messages) - r.target
	for cut > 0 && aboutTools(messages[cut-1]) {
		cut--
	}
	for i := cut; i >= earliest; i-- {
		if i < len(messages) && messages[i].Role == host.User {
			return i
		}
	}
	return cut
}

// bounded lowers a cut until the text before it is within InputBytes, but never
// below the first message with the results of its calls: that message would
// block every later summary.
func (r *summarizing) bounded(messages []*host.Message, cut int) int {
	bytes, last := 0, cut
	for i, m := range messages[:cut] {
		n, _ := m.Size()
		if bytes += n; bytes > r.InputBytes {
			last = i
			break
		}
	}
	for last > 0 && last < cut && aboutTools(messages[last-1]) {
		last--
	}
	if last == 0 {
		last = firstWhole(messages[:cut])
	}
	return last
}

// firstWhole returns how many messages there are up to the first place that parts
// no call from its results.
func firstWhole(messages []*host.Message) int {
	open := map[string]bool{}
	for i, m := range messages {
		for _, c := range m.ToolCalls() {
			open[c.ID] = true
		}
		for _, res := range m.ToolResults() {
			delete(open, res.ID)
		}
		if len(open) == 0 {
			return i + 1
		}
	}
	return len(messages)
}

// summarize asks the model, and keeps its answer.
func (r *summarizing) summarize(ctx context.Context, scope host.Scope, before *Summary, messages []*host.Message) (*Summary, error) {
	s, err := r.summary(ctx, scope, before, messages)
	if err != nil {
		return nil, err
	}
	return s, r.Summaries.Save(ctx, scope, s)
}

// summary asks the model.
func (r *summarizing) summary(ctx context.Context, scope host.Scope, before *Summary, messages []*host.Message) (*Summary, error) {
	req := &llm.Request{Scope: scope, Whole: true}
	if before != nil {
		req.Messages = append(req.Messages, host.AssistantText(before.Text))
	}
	for _, m := range messages {
		if shown := r.shown(m); shown != nil {
			req.Messages = append(req.Messages, shown)
		}
	}
	req.Messages = append(req.Messages, host.NewMessage(host.System, &host.Text{Text: r.Prompt}))
	text, err := ask(ctx, r.model, req)
	if err != nil {
		return nil, err
	}
	return &Summary{Text: text, Through: messages[len(messages)-1].ID}, nil
}

// shown returns the form of a message that the summarizing model sees, or nil.
// Models refuse calls of tools that they were not offered, so calls are shown as
// text.
func (r *summarizing) shown(m *host.Message) *host.Message {
	if !aboutTools(m) {
		return r.beginning(m)
	}
	if r.ToolPairs == DropToolPairs {
		return nil
	}
	var b strings.Builder
	for _, p := range m.Parts {
		switch p := p.(type) {
		case *host.Text:
			fmt.Fprintln(&b, p.Text)
		case *host.ToolCall:
			fmt.Fprintf(&b, "[called %s with %s]\n", p.Name, shortened(string(p.Arguments), MaxCollapsedChars))
		case *host.ToolResult:
			fmt.Fprintf(&b, "[%s answered: %s]\n", p.Name, shortened(p.ContentText(), MaxCollapsedChars))
		}
	}
	return &host.Message{ID: m.ID, Role: host.Assistant, Agent: m.Agent, CreatedAt: m.CreatedAt,
		Parts: []host.Part{&host.Text{Text: strings.TrimSuffix(b.String(), "\n")}}}
}

// beginning returns a message, with its text cut if it alone exceeds InputBytes.
func (r *summarizing) beginning(m *host.Message) *host.Message {
	if n, _ := m.Size(); n <= r.InputBytes {
		return m
	}
	return &host.Message{ID: m.ID, Role: m.Role, Agent: m.Agent, CreatedAt: m.CreatedAt,
		Parts: []host.Part{&host.Text{Text: cutTo(m.Text(), r.InputBytes)}}}
}

// cutTo cuts text to n bytes of whole characters.
func cutTo(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "")
}

// errBlank is of a model that answers with no text.
var errBlank = errors.New("the summary is blank")

// ask returns the text of a model's answer.
func ask(ctx context.Context, model host.Model, req *llm.Request) (string, error) {
	var answer *llm.Response
	for chunk, err := range instrument.Generate(ctx, model, req, instrument.ForSummary) {
		if err != nil {
			return "", fmt.Errorf("summarize: %w", err)
		}
		if chunk.Response != nil {
			answer = chunk.Response
		}
	}
	if answer == nil {
		return "", host.Errorf(host.Unavailable, "summarize: the model %s ended without an answer", model.Name())
	}
	text := (&host.Message{Parts: answer.Parts}).Text()
	if strings.TrimSpace(text) == "" {
		return "", &host.Error{Code: host.Unavailable, Message: "summarize: the model " + model.Name() + " answered with no text", Err: errBlank}
	}
	return cutTo(text, MaxSummaryBytes), nil
}

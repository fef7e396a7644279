package modelcall_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/modelcall"
	"github.com/agenthost/agenthost/host/internal/report"
	"github.com/agenthost/agenthost/host/internal/runusage"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/runlimit"
)

// run is a run without agents: the calls, and the names of their events.
type run struct {
	modelcall.Calls
	events []string
	log    strings.Builder
}

func newRun(limits runlimit.Limits) *run {
	limits = limits.WithDefaults()
	r := &run{}
	r.Events = &report.Reporter{Scope: &llm.Scope{Tenant: "acme", Run: "r"}, Logger: slog.New(slog.NewTextHandler(&r.log, nil)), Yield: func(ev runevent.Event, _ error) bool {
		text := strings.TrimPrefix(fmt.Sprintf("%T", ev.Data), "*runevent.")
		if d, ok := ev.Data.(*runevent.TextDelta); ok {
			text += " " + d.Text
		}
		r.events = append(r.events, text)
		return true
	}}
	r.Usage = &runusage.Counter{Events: r.Events, Limits: &limits, Total: &runusage.Total{}}
	return r
}

// model sends chunks and then an error, if it has one.
type model struct {
	chunks []llm.Chunk
	err    error
	asked  []*llm.Request
}

func (*model) Name() string { return "small" }

func (m *model) Generate(_ context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	m.asked = append(m.asked, req)
	return func(yield func(llm.Chunk, error) bool) {
		for _, c := range m.chunks {
			if !yield(c, nil) {
				return
			}
		}
		if m.err != nil {
			yield(llm.Chunk{}, m.err)
		}
	}
}

func answer(text string, tokens int) llm.Chunk {
	return llm.Chunk{Response: &llm.Response{Parts: []chat.Part{&chat.Text{Text: text}}, FinishReason: chat.FinishStop, Usage: chat.Usage{OutputTokens: tokens}}}
}

func TestAnAnswerStreamsAndIsCounted(t *testing.T) {
	for name, c := range map[string]struct {
		chunks []llm.Chunk
		err    error
		show   bool
		events []string
		code   fault.Code
		tokens int64 // at least
	}{
		"shown":               {[]llm.Chunk{{Text: "a"}, {Text: "b"}, answer("ab", 7)}, nil, true, []string{"ModelCalled", "TextDelta a", "TextDelta b"}, "", 7},
		"for a router":        {[]llm.Chunk{{Text: "a"}, answer("a", 7)}, nil, false, []string{"ModelCalled"}, "", 7},
		"that breaks off":     {[]llm.Chunk{{Text: strings.Repeat("x", 40)}}, errors.New("gone"), false, []string{"ModelCalled"}, fault.Internal, 1},
		"without a result":    {[]llm.Chunk{{Text: "a"}}, nil, true, []string{"ModelCalled", "TextDelta a"}, fault.Unavailable, 1},
		"of too many bytes":   {[]llm.Chunk{{Text: strings.Repeat("x", 200)}, answer("x", 7)}, nil, false, []string{"ModelCalled"}, fault.ResourceExhausted, 1},
		"that is not allowed": {nil, fault.Errorf(fault.InvalidArgument, "no"), true, []string{"ModelCalled"}, fault.InvalidArgument, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r, m := newRun(runlimit.Limits{ResponseBytes: 100}), &model{chunks: c.chunks, err: c.err}
			resp, err := r.Generate(t.Context(), m, &llm.Request{Messages: []*chat.Message{chat.UserText(strings.Repeat("word ", 20))}}, 1, c.show)
			if fault.CodeOf(err) != c.code || (resp == nil) != (err != nil) {
				t.Errorf("Generate: %v, %v, want code %q", resp, err, c.code)
			}
			if !slices.Equal(r.events, c.events) {
				t.Errorf("events %q, want %q", r.events, c.events)
			}
			if got := r.Usage.Total.Tokens.Load(); got < c.tokens || c.tokens == 0 && got != 0 {
				t.Errorf("%d tokens are counted, want at least %d", got, c.tokens)
			}
			if m.asked[0].Whole == c.show {
				t.Errorf("the model is asked for a whole answer: %t, and deltas are shown: %t", m.asked[0].Whole, c.show)
			}
		})
	}
}

// drop is a processor that drops the first message, or fails.
type drop struct{ fails error }

func (drop) Name() string { return "drop" }

func (d drop) Process(_ context.Context, v *llm.View) (*llm.Processed, error) {
	if d.fails != nil {
		return nil, d.fails
	}
	return &llm.Processed{Messages: v.Messages[1:], Cost: &chat.Cost{Instructions: 5}}, nil
}

func TestProcessorsWorkOnTheMessagesThatOthersLeft(t *testing.T) {
	messages := []*chat.Message{chat.UserText("a"), chat.UserText("b"), chat.UserText("c")}
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		levels []modelcall.Level
		want   string
		fails  bool
	}{
		"of two levels":          {[]modelcall.Level{{Name: "network", Processors: []llm.Processor{drop{}}}, {Name: "agent", Processors: []llm.Processor{drop{}}}}, "c", false},
		"one that may fail":      {[]modelcall.Level{{Processors: []llm.Processor{llm.Optional(drop{broken}), drop{}}}}, "b c", false},
		"one that must not fail": {[]modelcall.Level{{Processors: []llm.Processor{drop{broken}, drop{}}}}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(runlimit.Limits{})
			out, err := r.Process(t.Context(), modelcall.Source{Model: "small", Messages: messages}, c.levels)
			if (err != nil) != c.fails || c.fails && err.Error() != `processor "drop": broken` {
				t.Errorf("Process: %v", err)
			}
			var texts []string
			for _, m := range out {
				texts = append(texts, m.Text())
			}
			if got := strings.Join(texts, " "); got != c.want {
				t.Errorf("Process leaves %q, want %q", got, c.want)
			}
			if n := len(r.events); n == 0 || slices.ContainsFunc(r.events, func(e string) bool { return e != "ProcessorRan" }) {
				t.Errorf("events %q, want one for each processor that ran", r.events)
			}
		})
	}
}

func TestWithoutOrphansLogsTheResultsThatItLeavesOut(t *testing.T) {
	r := newRun(runlimit.Limits{})
	orphan := chat.NewMessage(chat.ToolRole, &chat.ToolResult{ID: "c", Name: "look"})
	if out := r.WithoutOrphans(t.Context(), []*chat.Message{chat.UserText("a"), orphan}); len(out) != 1 {
		t.Errorf("%d messages are left, want one", len(out))
	}
	if !strings.Contains(r.log.String(), "results=1") {
		t.Errorf("the log has %q, want the number of results", r.log.String())
	}
}

package reduce

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/llm"
)

// Reducer makes a view of a conversation shorter. It returns messages of the
// view, and such as stand for others; it changes none of them, and not the
// view's slice. Implementations are safe for concurrent use. One that is no [llm.Reader]
// gets copies of a conversation's messages.
type Reducer interface {
	Reduce(ctx context.Context, view *host.View) ([]*host.Message, error)
}

// ToolPairs says how a reducer by Agent Framework's rules treats tool calls and
// their results.
type ToolPairs string

const (
	// KeepToolPairs treats them as part of the conversation, and never splits
	// them. It is the default.
	KeepToolPairs ToolPairs = "keep"
	// DropToolPairs is Agent Framework's way: they are dropped (or hidden from
	// the summarizing model), however short the conversation is.
	DropToolPairs ToolPairs = "drop"
)

func (p ToolPairs) check() error {
	switch p {
	case "", KeepToolPairs, DropToolPairs:
		return nil
	}
	return host.Errorf(host.InvalidArgument, "tool pairs %q", string(p)).WithHint("use keep or drop")
}

// Processor returns r as a processor, to be run before every model call. It
// reports {"reducer", "dropped", "problem"?}: its name, how many messages fewer
// there are, and why it left the conversation unchanged, as after a blank summary.
// A nil r fails each run with code invalid_argument.
func Processor(name string, r Reducer) host.Processor {
	p := &processor{name, r}
	if llm.ReadsOnly(r) {
		return readingProcessor{p}
	}
	return p
}

type processor struct {
	name    string
	reducer Reducer
}

func (p *processor) Name() string { return p.name }

// readingProcessor is a processor whose reducer never writes to messages.
type readingProcessor struct{ *processor }

// ReadsOnly implements [llm.Reader].
func (readingProcessor) ReadsOnly() {}

func (p *processor) Process(ctx context.Context, view *host.View) (*llm.Processed, error) {
	if p.reducer == nil {
		return nil, errNilReducer("processor " + strconv.Quote(p.name))
	}
	if err := checkView(view); err != nil {
		return nil, err
	}
	problem := ""
	messages, err := p.reducer.Reduce(context.WithValue(ctx, problemKey{}, &problem), view)
	if err != nil {
		return nil, err
	}
	report, err := json.Marshal(struct {
		Reducer string `json:"reducer"`
		Dropped int    `json:"dropped"`
		Problem string `json:"problem,omitempty"`
	}{p.name, len(view.Messages) - len(messages), problem})
	if err != nil {
		return nil, err
	}
	if messages == nil {
		messages = []*host.Message{}
	}
	return &llm.Processed{Messages: messages, Report: report}, nil
}

// problemKey is where the context of a processor has room for a problem.
type problemKey struct{}

// tellProblem puts a problem into the report of the processor that reduces, if one
// does.
func tellProblem(ctx context.Context, problem string) {
	if p, ok := ctx.Value(problemKey{}).(*string); ok {
		*p = problem
	}
}

func errNilReducer(of string) error {
	return host.Errorf(host.InvalidArgument, "%s has a reducer that is nil", of)
}

// checkView refuses a view that no reducer can work on.
func checkView(view *host.View) error {
	if view == nil {
		return host.Errorf(host.InvalidArgument, "the view to reduce is nil").WithHint("use llm.NewView")
	}
	if i := slices.Index(view.Messages, nil); i >= 0 {
		return host.Errorf(host.InvalidArgument, "message %d of the view to reduce is nil", i)
	}
	return nil
}

// atLeast fails if a number that must be at least least is not.
func atLeast(least, n int, what string) error {
	if n < least {
		return host.Errorf(host.InvalidArgument, "%s is %d, less than %d", what, n, least)
	}
	return nil
}

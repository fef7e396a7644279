package reduce

import (
	"context"
	"encoding/json"

	"github.com/agenthost/agenthost/host"
)

// Reducer makes a view of a conversation shorter. It returns messages of the
// view, and such as stand for others; it changes none of them, and not the
// view's slice. Implementations are safe for concurrent use.
type Reducer interface {
	Reduce(ctx context.Context, view *host.View) ([]*host.Message, error)
}

// ToolPairs says what a reducer by Agent Framework's rules does with tool calls
// and their results.
type ToolPairs string

const (
	// KeepToolPairs treats them as part of the conversation, and never splits
	// them. It is the default.
	KeepToolPairs ToolPairs = "keep"
	// DropToolPairs is Agent Framework's way: they are dropped (or hidden from
	// who summarizes), however short the conversation is.
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
// reports {"reducer", "dropped"}: its name, and how many messages fewer there are.
func Processor(name string, r Reducer) host.Processor { return &processor{name, r} }

type processor struct {
	name    string
	reducer Reducer
}

func (p *processor) Name() string { return p.name }

func (p *processor) Process(ctx context.Context, view *host.View) (*host.Processed, error) {
	messages, err := p.reducer.Reduce(ctx, view)
	if err != nil {
		return nil, err
	}
	report, err := json.Marshal(struct {
		Reducer string `json:"reducer"`
		Dropped int    `json:"dropped"`
	}{p.name, len(view.Messages) - len(messages)})
	if err != nil {
		return nil, err
	}
	if messages == nil {
		messages = []*host.Message{}
	}
	return &host.Processed{Messages: messages, Report: report}, nil
}

// atLeast fails if a number that must be at least least is not.
func atLeast(least, n int, what string) error {
	if n < least {
		return host.Errorf(host.InvalidArgument, "%s is %d, less than %d", what, n, least)
	}
	return nil
}

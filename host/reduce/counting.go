package reduce

import (
	"context"

	"github.com/agenthost/agenthost/host"
)

// CountingOptions are the optional parts of [Counting].
type CountingOptions struct {
	ToolPairs ToolPairs // default: KeepToolPairs
}

// Counting keeps the first system message, which comes first and does not count,
// and the newest messages up to target. Tool calls and their results are kept or
// dropped whole; the newest group stays even if it alone is more than target.
// With DropToolPairs they are all dropped first, as Agent Framework's
// MessageCountingChatReducer does. Other system messages are dropped. Code
// invalid_argument for a target below 1.
func Counting(target int, opts *CountingOptions) (Reducer, error) {
	if opts == nil {
		opts = &CountingOptions{}
	}
	if err := atLeast(1, target, "the target of a counting reducer"); err != nil {
		return nil, err
	}
	if err := opts.ToolPairs.check(); err != nil {
		return nil, err
	}
	return &counting{target, opts.ToolPairs == DropToolPairs}, nil
}

type counting struct {
	target    int
	dropTools bool
}

// ReadsOnly implements [llm.Reader].
func (*counting) ReadsOnly() {}

func (r *counting) Reduce(_ context.Context, view *host.View) ([]*host.Message, error) {
	if err := checkView(view); err != nil {
		return nil, err
	}
	past, turn := history(view)
	first, rest := takeSystem(past)
	if r.dropTools {
		rest = without(rest, aboutTools)
	}
	out := append(first, newest(rest, r.target)...)
	return append(out, turn...), nil
}

// takeSystem returns the first system message, if any, and the messages without
// system messages.
func takeSystem(messages []*host.Message) (first, rest []*host.Message) {
	for _, m := range messages {
		switch {
		case m.Role != host.System:
			rest = append(rest, m)
		case first == nil:
			first = []*host.Message{m}
		}
	}
	return first, rest
}

func without(messages []*host.Message, is func(*host.Message) bool) (out []*host.Message) {
	for _, m := range messages {
		if !is(m) {
			out = append(out, m)
		}
	}
	return out
}

// newest returns the newest groups of messages that are at most n, and one at
// least.
func newest(messages []*host.Message, n int) []*host.Message {
	c := grouped(&host.View{Messages: messages})
	full := false
	for i := len(c.groups) - 1; i >= 0; i-- {
		g := c.groups[i]
		n -= len(g.members)
		full = full || n < 0
		g.dropped = full && i < len(c.groups)-1
	}
	return c.messages()
}

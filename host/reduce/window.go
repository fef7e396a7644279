package reduce

import (
	"context"

	"github.com/agenthost/agenthost/host"
)

// SlidingWindow keeps the newest groups that are no system messages, and the
// system messages. Code invalid_argument for fewer than 1.
func SlidingWindow(groups int) (Reducer, error) {
	if err := atLeast(1, groups, "the number of groups to keep"); err != nil {
		return nil, err
	}
	return slidingWindow(groups), nil
}

type slidingWindow int

// ReadsOnly implements [llm.Reader].
func (slidingWindow) ReadsOnly() {}

func (r slidingWindow) Reduce(_ context.Context, view *host.View) ([]*host.Message, error) {
	if err := checkView(view); err != nil {
		return nil, err
	}
	c := grouped(view)
	needed := c.needed()
	talk := c.kept(notSystem)
	for _, g := range talk[:max(len(talk)-int(r), 0)] {
		g.dropped = !needed[g]
	}
	return c.messages(), nil
}

// TruncationOptions are the optional parts of [Truncation].
type TruncationOptions struct {
	Tokens     bool // bound and goal are tokens, not messages
	DropSystem bool // system messages are dropped in their turn, like others
}

// Truncation does nothing to a conversation of up to most messages (or tokens).
// From a longer one it drops the oldest groups until at most goal are left. The
// newest group and the current input stay, even if that is more. Code
// invalid_argument unless 0 < goal <= most.
func Truncation(most, goal int, opts *TruncationOptions) (Reducer, error) {
	if opts == nil {
		opts = &TruncationOptions{}
	}
	if err := atLeast(1, goal, "what truncation leaves"); err != nil {
		return nil, err
	}
	if err := atLeast(goal, most, "the most that truncation leaves alone"); err != nil {
		return nil, err
	}
	return &truncation{most, goal, *opts}, nil
}

type truncation struct {
	most, goal int
	TruncationOptions
}

// ReadsOnly implements [llm.Reader].
func (*truncation) ReadsOnly() {}

func (r *truncation) Reduce(ctx context.Context, view *host.View) ([]*host.Message, error) {
	if err := checkView(view); err != nil {
		return nil, err
	}
	c := grouped(view)
	sizes, total, err := c.measure(ctx, r.Tokens)
	if err != nil {
		return nil, err
	}
	if total > r.most {
		droppable := notSystem
		if r.DropSystem {
			droppable = anything
		}
		c.dropOldest(droppable, sizes, total, r.goal)
	}
	return c.messages(), nil
}

// dropOldest drops groups until total is at most goal or all remaining groups
// are needed. It returns the remaining total.
func (c *conversation) dropOldest(droppable func(*group) bool, sizes map[*group]int, total, goal int) int {
	needed := c.needed()
	for _, g := range c.kept(droppable) {
		if total <= goal {
			break
		}
		if !needed[g] {
			g.dropped = true
			total -= sizes[g]
		}
	}
	return total
}

// measure returns how large each group and the conversation are, in messages or
// in tokens.
func (c *conversation) measure(ctx context.Context, tokens bool) (sizes map[*group]int, total int, err error) {
	sizes = make(map[*group]int, len(c.groups))
	var counts []int
	if tokens {
		if counts, err = c.view.Tokens(ctx, ""); err != nil {
			return nil, 0, err
		}
	}
	for _, g := range c.groups {
		sizes[g] = len(g.members)
		if tokens {
			sizes[g] = 0
			for _, i := range g.members {
				sizes[g] += counts[i]
			}
		}
		total += sizes[g]
	}
	return sizes, total, nil
}

package reduce

import (
	"context"
	"slices"
	"strconv"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/llm"
)

// Budget leaves a conversation within a number of tokens unchanged. Otherwise it
// runs steps in order, each on the result of the one before, until the
// conversation is within that number; if no step achieves that, the oldest
// groups are dropped, then system messages. The newest group and the current
// input stay, even if they alone are more. Tokens are counted in the encoding of
// the view's model: see [host.View.Tokens]. Code invalid_argument for a budget
// below 1 and a step that is nil.
func Budget(tokens int, steps ...Reducer) (Reducer, error) {
	if err := atLeast(1, tokens, "a budget of tokens"); err != nil {
		return nil, err
	}
	if i := slices.Index(steps, nil); i >= 0 {
		return nil, errNilReducer("step " + strconv.Itoa(i) + " of a budget")
	}
	b := &budget{tokens, steps}
	if slices.ContainsFunc(steps, func(step Reducer) bool { return !llm.ReadsOnly(step) }) {
		return b, nil
	}
	return readingBudget{b}, nil
}

type budget struct {
	tokens int
	steps  []Reducer
}

// readingBudget is a budget whose steps never write to messages.
type readingBudget struct{ *budget }

// ReadsOnly implements [llm.Reader].
func (readingBudget) ReadsOnly() {}

func (r *budget) Reduce(ctx context.Context, view *host.View) ([]*host.Message, error) {
	if err := checkView(view); err != nil {
		return nil, err
	}
	now := *view
	for _, step := range r.steps {
		total, err := count(ctx, &now)
		if err != nil {
			return nil, err
		}
		if total <= r.tokens {
			return now.Messages, nil
		}
		if now.Messages, err = step.Reduce(ctx, &now); err != nil {
			return nil, err
		}
	}
	c := grouped(&now)
	sizes, total, err := c.measure(ctx, true)
	if err != nil {
		return nil, err
	}
	total = c.dropOldest(notSystem, sizes, total, r.tokens)
	c.dropOldest(isSystem, sizes, total, r.tokens)
	return c.messages(), nil
}

func count(ctx context.Context, view *host.View) (total int, err error) {
	counts, err := view.Tokens(ctx, "")
	for _, n := range counts {
		total += n
	}
	return total, err
}

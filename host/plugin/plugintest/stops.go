package plugintest

import (
	"context"
	"fmt"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
)

// A plugin under test may loop, trap or flood, by mistake or on purpose. Each of its calls
// has limits; these are the limits of the whole check.
const (
	// maxRuleStops and maxStops are how many calls of a rule, and of a whole check,
	// may be ended by a limit of time or instructions. The rule, and the check, ends
	// then: a loop is the same loop in every other call.
	maxRuleStops, maxStops = 3, 12

	// maxRuleTime bounds the time of one rule. The rule about memory makes the most
	// calls: at 1 ms each, it takes half of that time.
	maxRuleTime = 2 * time.Minute

	// maxProblems bounds the problems of a rule.
	maxProblems = 1000
)

// stops counts the calls that limits have ended.
type stops struct{ rule, all int }

// longCall is the number of instructions of a long call. A call that ends sooner, such as
// by the limit on call depth, delays a check by less than a tenth of a second.
const longCall = 100_000_000

func (s *stops) count(r *plugin.CallResult, err error) {
	code := host.CodeOf(err)
	if code == host.DeadlineExceeded || code == host.ResourceExhausted && r.Cost != nil && r.Cost.Instructions >= longCall {
		s.rule++
		s.all++
	}
}

// reached returns why no further calls are made, or nil.
func (s *stops) reached() error {
	if s.rule < maxRuleStops {
		return nil
	}
	return host.Errorf(host.FailedPrecondition, "%d calls were ended by a limit, so the rule makes no others", s.rule)
}

// ended reports whether a check has been stopped so often that it ends.
func (s *stops) ended() bool { return s.all >= maxStops }

// bounded runs a rule for at most maxRuleTime.
func (g *guest) bounded(check func(*guest) []error) (broken []error) {
	whole := g.sandbox.ctx
	defer func() { g.sandbox.ctx = whole }()
	cause := host.Errorf(host.DeadlineExceeded, "the rule is not decided after %s", maxRuleTime)
	ctx, cancel := context.WithTimeoutCause(whole, maxRuleTime, cause)
	defer cancel()
	g.sandbox.ctx, g.sandbox.stops.rule = ctx, 0
	broken = check(g)
	late := context.Cause(ctx) == error(cause)
	if len(broken) > maxProblems {
		broken = append(broken[:maxProblems], fmt.Errorf("and %d more", len(broken)-maxProblems))
	}
	if late {
		broken = append([]error{cause.WithHint("make the plugin's calls faster, or with --repeats fewer of them")}, broken...)
	}
	if g.sandbox.stops.ended() {
		broken = append(broken, fmt.Errorf("%d calls were ended by a limit, so the check ends here; find out with plugin call why they do not come back", g.sandbox.stops.all))
	}
	return broken
}

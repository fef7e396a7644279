package host

import (
	"context"
	"slices"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/modelcall"
	"github.com/agenthost/agenthost/host/internal/replay"
	"github.com/agenthost/agenthost/host/internal/report"
	"github.com/agenthost/agenthost/host/internal/runusage"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
)

// How a run chooses the agent that runs next.

// routing holds the decisions of a run's routers.
type routing struct {
	net     *Network
	chosen  Router // of the request; nil if it names none
	models  *modelChoice
	asks    *modelcall.Calls
	events  *report.Reporter
	ledger  *runusage.Counter
	conv    *conversation
	journal *runJournal
	limits  *Limits

	iterations   int               // agent runs so far
	stack        []string          // the agents that run next
	routerAgents map[string]*Agent // that routers have brought
	modelAsked   bool              // a model was asked which agent is next
}

// first returns the router that is asked first: the request's, else the network's.
func (r *routing) first() Router {
	if r.chosen != nil {
		return r.chosen
	}
	return r.net.router
}

// pickAgent asks the router until an agent is on the stack, or returns why the run ends.
func (r *routing) pickAgent(ctx context.Context, state *State) (FinishReason, error) {
	if r.isAlone() && r.iterations > 0 && len(r.stack) == 0 {
		return r.conv.results[len(r.conv.results)-1].FinishReason, nil
	}
	if r.iterations >= r.maxIterations() {
		return chat.FinishMaxIterations, nil
	}
	if err := r.askRouters(ctx, state); err != nil {
		return "", err
	}
	if len(r.stack) == 0 {
		return chat.FinishStop, nil
	}
	return "", nil
}

// isAlone reports whether the run is of one agent without a router.
func (r *routing) isAlone() bool { return r.net.solo && r.chosen == nil }

func (r *routing) maxIterations() int {
	if n := r.net.opts.MaxIterations; n > 0 {
		return min(n, r.limits.MaxIterations)
	}
	return r.limits.MaxIterations
}

// askRouters asks the router and puts the agents that it names on the stack.
func (r *routing) askRouters(ctx context.Context, state *State) error {
	r.events.Scope.Agent = ""
	if r.isAlone() {
		if r.iterations == 0 {
			r.stack = append(r.stack, r.net.agents[0].name)
		}
		return nil
	}
	route, router, err := r.decide(ctx, state, r.first())
	if err != nil {
		return wrapError(err, "router %q", router.Name())
	}
	r.ledger.AddCost(route.Cost)
	next, err := r.addAgents(router, route)
	if err != nil {
		return err
	}
	r.events.Emit(&runevent.RouteChosen{Router: router.Name(), Call: r.iterations, Next: next, Reason: route.Reason, Cost: route.Cost})
	r.stack = append(r.stack, next...)
	r.events.SendState(state.view())
	return r.recordRoute(ctx, next)
}

// addAgents returns the names of the agents of a route. Agents that the router has
// brought become agents of the run.
func (r *routing) addAgents(router Router, route *Route) ([]string, error) {
	if len(r.stack)+len(route.Next)+len(route.Agents) > replay.MaxScheduledAgents {
		return nil, Errorf(ResourceExhausted, "router %q schedules more than %d agents", router.Name(), replay.MaxScheduledAgents)
	}
	if name, ok := r.unknownAgent(route.Next); ok {
		return nil, r.net.stranger(router.Name(), name)
	}
	next := append([]string{}, route.Next...)
	for _, a := range route.Agents {
		if err := r.addRouterAgent(a); err != nil {
			return nil, wrapError(err, "router %q", router.Name())
		}
		next = append(next, a.name)
	}
	return next, nil
}

// addRouterAgent makes an agent that a router has brought one of the run's.
func (r *routing) addRouterAgent(a *Agent) error {
	switch {
	case a == nil:
		return Errorf(InvalidArgument, "it returns an agent that is nil")
	case r.agentNamed(a.name) == a:
		return nil
	case r.agentNamed(a.name) != nil:
		return Errorf(InvalidArgument, "it returns an agent named %q, and network %q has another one of that name", a.name, r.net.name)
	}
	if err := r.net.checkHistory(a); err != nil {
		return err
	}
	if err := r.models.checkAgent(a); err != nil {
		return err
	}
	if r.routerAgents == nil {
		r.routerAgents = map[string]*Agent{}
	}
	r.routerAgents[a.name] = a
	return nil
}

// decide asks a router, and those it delegates to.
func (r *routing) decide(ctx context.Context, state *State, router Router) (*Route, Router, error) {
	req, err := r.routeRequest(ctx, state)
	if err != nil {
		return nil, router, err
	}
	for range maxDelegations {
		var route *Route
		err := r.events.Guard(ctx, "it", func() (err error) {
			route, err = r.askRouter(ctx, router, req)
			return err
		})
		if err != nil {
			return nil, router, err
		}
		if route == nil {
			route = &Route{}
		}
		if route.Delegate == "" {
			return route, router, nil
		}
		r.ledger.AddCost(route.Cost)
		next, err := r.net.delegate(router.Name(), route.Delegate)
		if err != nil {
			return nil, router, err
		}
		router = next
	}
	return nil, router, Errorf(FailedPrecondition, "routers delegate to each other more than %d times", maxDelegations)
}

func (r *routing) routeRequest(ctx context.Context, state *State) (*RouteRequest, error) {
	agents, err := r.enabledAgents(ctx, state)
	if err != nil {
		return nil, err
	}
	results := slices.Concat(r.conv.earlier, r.conv.results)
	req := &RouteRequest{
		Scope: *r.events.Scope, Input: r.conv.input, CallCount: r.iterations, Stack: slices.Clone(r.stack),
		Agents: agents, State: state, Results: results,
		Messages: r.conv.messages(), routing: r,
	}
	if n := len(results); n > 0 {
		req.Last = results[n-1]
	}
	return req, nil
}

// enabledAgents returns the agents that a router may choose from now.
func (r *routing) enabledAgents(ctx context.Context, state *State) ([]AgentInfo, error) {
	infos := make([]AgentInfo, 0, len(r.net.agents))
	for _, a := range r.net.agents {
		var ok bool
		err := r.events.Guard(ctx, "it", func() (err error) {
			ok, err = a.enabled(ctx, &InstructionsRequest{Scope: *r.events.Scope, State: state, Input: r.conv.input, SoFar: r.conv.soFar(nil, r.iterations, r.net.agents, state)})
			return err
		})
		if err != nil {
			return nil, wrapError(err, "ask whether agent %q is enabled", a.name)
		}
		if ok {
			infos = append(infos, a.Info())
		}
	}
	if len(infos) == 0 && r.iterations == 0 { // later it is how agents say that they are done
		return nil, Errorf(FailedPrecondition, "network %q has no agent that is enabled", r.net.name)
	}
	return infos, nil
}

// firstModel returns the name of the model that the run asks first, "" if a router
// decides that.
func (r *routing) firstModel() string {
	var model Model
	switch router, byModel := r.first().(*modelRouter); {
	case r.isAlone():
		model = r.models.forAgent(r.net.agents[0])
	case byModel:
		model = r.models.forRouter(router)
	}
	if model == nil {
		return ""
	}
	return model.Name()
}

// askRoutingModel asks a model router's model, or the run's, for the next agent.
func (r *routing) askRoutingModel(ctx context.Context, m *modelRouter, req *llm.Request, instructions string, view []*Message) (*llm.Response, error) {
	model := r.models.forRouter(m)
	if model == nil {
		return nil, errNoRoutingModel(m.name)
	}
	if err := r.ledger.CheckLeft(); err != nil {
		return nil, err
	}
	view, err := r.asks.Process(ctx, modelcall.Source{Model: model.Name(), Input: r.conv.input, Messages: view}, []modelcall.Level{{Name: "router", Processors: m.opts.Processors}})
	if err != nil {
		return nil, err
	}
	req.Messages = r.asks.WithoutOrphans(ctx, withInstructions(instructions, view))
	resp, err := r.asks.Generate(ctx, model, req, 1, false)
	if err != nil {
		return nil, wrapError(err, "model %q", model.Name())
	}
	r.ledger.Usage = r.ledger.Usage.Add(resp.Usage)
	r.modelAsked = true
	return resp, nil
}

// agentNamed returns the agent of that name: the network's, one on call, or one
// that a router brought along; or nil.
func (r *routing) agentNamed(name string) *Agent {
	if a := r.net.byName[name]; a != nil {
		return a
	}
	return r.routerAgents[name]
}

// unknownAgent returns the first of names that is no agent of the run.
func (r *routing) unknownAgent(names []string) (string, bool) {
	for _, name := range names {
		if r.agentNamed(name) == nil {
			return name, true
		}
	}
	return "", false
}

// checkResumed fails if a run that is resumed has to run an agent that is not there. with
// names the end of the agents that its routers brought along.
func (r *routing) checkResumed(run string, names []string, with string) error {
	name, unknown := r.unknownAgent(names)
	if !unknown {
		return nil
	}
	return Errorf(FailedPrecondition, "run %q has to run the agent %q, which %q does not have", run, name, r.net.name).
		WithHint("agents that a router brings along are gone with its %s: put them on call", with)
}

// recordRoute writes a decision down: at once if it was paid for.
func (r *routing) recordRoute(ctx context.Context, next []string) error {
	step := replay.Entry{Route: &replay.RouteStep{Next: next, Usage: r.ledger.Usage, Cost: r.ledger.Cost, Tokens: r.ledger.Total.Tokens.Load()}}
	if r.modelAsked {
		r.modelAsked = false
		return r.journal.recorder.Commit(ctx, step)
	}
	r.journal.recorder.Note(step)
	return nil
}

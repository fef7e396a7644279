package host

import (
	"context"
	"slices"
)

// How a run finds out who is next.

// checkRoutingModel asks whether a router that asks a model has one.
func (r *run) checkRoutingModel(router Router) error {
	if m, ok := router.(*modelRouter); ok && m.opts.Model == nil && r.routingModel() == nil {
		return errNoRoutingModel(m.name)
	}
	return nil
}

// router returns the router of the run: the request's beats the network's.
func (r *run) router() Router {
	if r.req.Router != nil {
		return r.req.Router
	}
	return r.net.router
}

// pick asks the router until the stack has somebody, or says why the run ends.
func (r *run) pick(ctx context.Context) (FinishReason, error) {
	if r.isAlone() && r.iterations > 0 && len(r.routes.stack) == 0 {
		return r.conv.results[len(r.conv.results)-1].FinishReason, nil
	}
	if r.iterations >= r.maxIterations() {
		return FinishMaxIterations, nil
	}
	if err := r.route(ctx); err != nil {
		return "", err
	}
	if len(r.routes.stack) == 0 {
		return FinishStop, nil
	}
	return "", nil
}

// isAlone reports whether the run is a lone agent's, which no router directs.
func (r *run) isAlone() bool { return r.net.solo && r.req.Router == nil }

func (r *run) maxIterations() int {
	if n := r.net.opts.MaxIterations; n > 0 {
		return min(n, r.limits.MaxIterations)
	}
	return r.limits.MaxIterations
}

// route asks the router and puts whom it names on the stack.
func (r *run) route(ctx context.Context) error {
	r.scope.Agent = ""
	if r.isAlone() {
		if r.iterations == 0 {
			r.routes.stack = append(r.routes.stack, r.net.agents[0].name)
		}
		return nil
	}
	route, router, err := r.decide(ctx, r.router())
	if err != nil {
		return wrapError(err, "router %q", router.Name())
	}
	r.addCost(route.Cost)
	next, err := r.named(router, route)
	if err != nil {
		return err
	}
	r.emit(&RouteChosen{Router: router.Name(), Call: r.iterations, Next: next, Reason: route.Reason, Cost: route.Cost})
	r.routes.stack = append(r.routes.stack, next...)
	r.emitState()
	return r.recordRoute(ctx, next)
}

// named returns the names of those a route leads to; each is an agent of the run
// then.
func (r *run) named(router Router, route *Route) ([]string, error) {
	if len(r.routes.stack)+len(route.Next)+len(route.Agents) > maxScheduledAgents {
		return nil, Errorf(ResourceExhausted, "router %q schedules more than %d agents", router.Name(), maxScheduledAgents)
	}
	if name, ok := r.unknownAgent(route.Next); ok {
		return nil, r.net.stranger(router.Name(), name)
	}
	next := append([]string{}, route.Next...)
	for _, a := range route.Agents {
		if err := r.bring(a); err != nil {
			return nil, wrapError(err, "router %q", router.Name())
		}
		next = append(next, a.name)
	}
	return next, nil
}

// bring makes an agent one of the run's.
func (r *run) bring(a *Agent) error {
	switch {
	case a == nil:
		return Errorf(InvalidArgument, "it returns an agent that is nil")
	case r.agent(a.name) == a:
		return nil
	case r.agent(a.name) != nil:
		return Errorf(InvalidArgument, "it returns an agent named %q, and network %q has another one of that name", a.name, r.net.name)
	}
	if err := r.net.checkHistory(a); err != nil {
		return err
	}
	if err := r.checkModel(a); err != nil {
		return err
	}
	if r.routes.routerAgents == nil {
		r.routes.routerAgents = map[string]*Agent{}
	}
	r.routes.routerAgents[a.name] = a
	return nil
}

// decide asks a router, and those it delegates to.
func (r *run) decide(ctx context.Context, router Router) (*Route, Router, error) {
	req, err := r.routeRequest(ctx)
	if err != nil {
		return nil, router, err
	}
	for range maxDelegations {
		var route *Route
		err := r.guard("it", func() (err error) {
			route, err = router.Route(ctx, req)
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
		r.addCost(route.Cost)
		next, err := r.net.delegate(router.Name(), route.Delegate)
		if err != nil {
			return nil, router, err
		}
		router = next
	}
	return nil, router, Errorf(FailedPrecondition, "routers delegate to each other more than %d times", maxDelegations)
}

func (r *run) routeRequest(ctx context.Context) (*RouteRequest, error) {
	agents, err := r.enabledAgents(ctx)
	if err != nil {
		return nil, err
	}
	results := slices.Concat(r.conv.earlier, r.conv.results)
	req := &RouteRequest{
		Scope: r.scope, Input: r.conv.input, CallCount: r.iterations, Stack: slices.Clone(r.routes.stack),
		Agents: agents, State: r.state, Results: results,
		Messages: r.messages(), run: r,
	}
	if n := len(results); n > 0 {
		req.Last = results[n-1]
	}
	return req, nil
}

// enabledAgents returns whom a router may choose from now.
func (r *run) enabledAgents(ctx context.Context) ([]AgentInfo, error) {
	infos := make([]AgentInfo, 0, len(r.net.agents))
	for _, a := range r.net.agents {
		var ok bool
		err := r.guard("it", func() (err error) {
			ok, err = a.enabled(ctx, &InstructionsRequest{Scope: r.scope, State: r.state, Input: r.conv.input, SoFar: r.soFar(nil)})
			return err
		})
		if err != nil {
			return nil, wrapError(err, "ask whether agent %q is enabled", a.name)
		}
		if ok {
			infos = append(infos, a.info())
		}
	}
	if len(infos) == 0 && r.iterations == 0 { // later it is how agents say that they are done
		return nil, Errorf(FailedPrecondition, "network %q has no agent that is enabled", r.net.name)
	}
	return infos, nil
}

// askRouter is how a model router asks: with the router's model, or the run's.
func (r *run) askRouter(ctx context.Context, m *modelRouter, req *ModelRequest, instructions string, view []*Message) (*ModelResponse, error) {
	model := m.opts.Model
	if model == nil {
		model = r.routingModel()
	}
	if model == nil {
		return nil, errNoRoutingModel(m.name)
	}
	if err := r.checkSpent(); err != nil {
		return nil, err
	}
	view, err := r.process(ctx, model.Name(), view, nil, levels{{"router", m.opts.Processors}})
	if err != nil {
		return nil, err
	}
	req.Messages = r.withoutOrphans(r.withInstructions(instructions, view))
	resp, err := r.generate(ctx, model, req, 1, false)
	if err != nil {
		return nil, wrapError(err, "model %q", model.Name())
	}
	r.ledger.usage = r.ledger.usage.Add(resp.Usage)
	r.routes.modelAsked = true
	return resp, nil
}

func errNoRoutingModel(router string) error {
	return Errorf(InvalidArgument, "model router %q has no model", router).
		WithHint("set one on the router, the network, the host or the request")
}

// routingModel returns the model that routers ask when they have none.
func (r *run) routingModel() Model {
	for _, m := range []Model{r.req.Model, r.net.opts.Model, r.host.opts.Model} {
		if m != nil {
			return m
		}
	}
	return nil
}

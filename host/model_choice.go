package host

import "slices"

// Which model an agent gets, and which one a router asks.

// modelChoice says which model an agent or a router is run with.
type modelChoice struct {
	request, network, host Model // nil where none is named
}

// forAgent returns the model for an agent: the request's, else the agent's, else the
// network's, else the host's; nil if none is named.
func (m *modelChoice) forAgent(a *Agent) Model {
	switch {
	case m.request != nil:
		return m.request
	case a.opts.Model != nil:
		return a.opts.Model
	}
	return m.forRouters()
}

// forRouters returns the model for routers that have none of their own: the request's,
// else the network's, else the host's; nil if none is named.
func (m *modelChoice) forRouters() Model {
	for _, model := range []Model{m.request, m.network, m.host} {
		if model != nil {
			return model
		}
	}
	return nil
}

// forRouter returns the model that a router asks: its own, else that of [modelChoice.forRouters].
func (m *modelChoice) forRouter(router *modelRouter) Model {
	if router.opts.Model != nil {
		return router.opts.Model
	}
	return m.forRouters()
}

// modelsOf returns the models that a request, a network and a host name.
func modelsOf(h *Host, n *Network, req *Request) modelChoice {
	return modelChoice{request: req.Model, network: n.opts.Model, host: h.opts.Model}
}

// checkNetwork fails if an agent of a network, or a router that asks a model, has no
// model. first is the router that is asked first.
func (m *modelChoice) checkNetwork(n *Network, first Router) error {
	for _, a := range slices.Concat(n.agents, n.opts.OnCall) {
		if err := m.checkAgent(a); err != nil {
			return err
		}
	}
	for _, router := range n.opts.Routers {
		if err := m.checkRouter(router); err != nil {
			return err
		}
	}
	byModel, err := n.checkRouter(first)
	if err != nil || !byModel {
		return err
	}
	if err := m.checkRouter(first); err != nil {
		return err
	}
	return n.checkDescriptions()
}

// checkAgent fails if an agent, or an agent among its tools, has no model.
func (m *modelChoice) checkAgent(a *Agent) error {
	if m.forAgent(a) == nil {
		return Errorf(InvalidArgument, "agent %q has no model", a.name).
			WithHint("set one on the agent, the network, the host or the request")
	}
	for _, t := range a.opts.Tools {
		if t.agent == nil {
			continue
		}
		if err := m.checkAgent(t.agent); err != nil {
			return err
		}
	}
	return nil
}

// checkRouter fails if a router asks a model and has none.
func (m *modelChoice) checkRouter(router Router) error {
	if r, ok := router.(*modelRouter); ok && m.forRouter(r) == nil {
		return errNoRoutingModel(r.name)
	}
	return nil
}

func errNoRoutingModel(router string) error {
	return Errorf(InvalidArgument, "model router %q has no model", router).
		WithHint("set one on the router, the network, the host or the request")
}

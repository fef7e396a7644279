package main

import (
	"context"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
)

func (a *app) makeNetwork(name string, nc networkConfig) (*host.Network, error) {
	opts := &host.NetworkOptions{Description: nc.Description, MaxIterations: nc.MaxIterations, State: nc.State, Durable: nc.Durable}
	at := keys("networks", name)
	var err error
	if opts.StateOfRun, err = a.oneOf(at.to("state_of"), nc.StateOf, "thread", "run"); err != nil {
		return nil, err
	}
	if opts.DiscardOnFailure, err = a.oneOf(at.to("on_failure"), nc.OnFailure, "keep", "discard"); err != nil {
		return nil, err
	}
	if opts.StateSchema, err = a.schema(at.to("state_schema"), nc.StateSchema); err != nil {
		return nil, err
	}
	if opts.Model, err = a.model(at.to("model"), nc.Model); err != nil {
		return nil, err
	}
	if opts.Router, err = a.router(at, nc); err != nil {
		return nil, err
	}
	if opts.Routers, err = a.delegates(at, nc); err != nil {
		return nil, err
	}
	if opts.Processors, err = a.processors(at.to("processors"), nc.Processors); err != nil {
		return nil, err
	}
	if opts.Providers, err = a.providers(at.to("providers"), nc.Providers, nil); err != nil {
		return nil, err
	}
	agents, err := a.members(at.to("agents"), nc.Agents)
	if err != nil {
		return nil, err
	}
	if opts.OnCall, err = a.members(at.to("on_call"), nc.OnCall); err != nil {
		return nil, err
	}
	return host.NewNetwork(name, agents, opts)
}

// checkTargets finds what would keep runs from beginning. An agent that a network
// has may count on the network's model.
func (a *app) checkTargets() error {
	inNetwork := map[string]bool{}
	for _, name := range sortedKeys(a.config.Networks) {
		nc := a.config.Networks[name]
		for _, agent := range slices.Concat(nc.Agents, nc.OnCall) {
			inNetwork[agent] = true
		}
		if err := a.host.Check(a.targets[name]); err != nil {
			return a.config.wrap(err, keys("networks", name))
		}
	}
	for _, name := range sortedKeys(a.config.Agents) {
		if inNetwork[name] {
			continue
		}
		if err := a.host.Check(a.targets[name]); err != nil {
			return a.config.wrap(err, keys("agents", name))
		}
	}
	return nil
}

// schema compiles a JSON Schema; nil is none.
func (a *app) schema(at place, schema any) (*host.Schema, error) {
	raw, err := a.toJSON(at, schema)
	if raw == nil || err != nil {
		return nil, err
	}
	s, err := host.CompileSchema(raw)
	return s, a.config.wrap(err, at)
}

// router returns a network's router; nil is the default one, a model.
func (a *app) router(at place, nc networkConfig) (host.Router, error) {
	asked := nc.Router == "" || nc.Router == "model"
	if nc.RouterConfig != nil && (asked || nc.Router == inOrder) {
		return nil, a.config.errorAt(at.to("router_config"), "a router that is no plugin has no router_config").
			WithHint("name a router's plugin under router, or remove it; how a model decides stands under routing")
	}
	switch {
	case asked && nc.Routing == nil:
		return nil, nil
	case asked:
		return a.modelRouter(at.to("routing"), nc.Routing)
	case nc.Router == inOrder:
		return host.InOrder(inOrder, nc.Agents...), nil
	}
	return a.guestRouter(at.to("router"), nc.Router, at.to("router_config"), nc.RouterConfig)
}

// delegates returns the routers that a plugin may leave a decision to.
func (a *app) delegates(at place, nc networkConfig) ([]host.Router, error) {
	switch {
	case nc.Routing == nil || nc.Router == "" || nc.Router == "model":
		return nil, nil
	case nc.Router == inOrder:
		return nil, a.config.errorAt(at.to("routing"), "routing is for a model, and %s asks none", inOrder).
			WithHint("write: router: model, or remove routing")
	}
	router, err := a.modelRouter(at.to("routing"), nc.Routing)
	if err != nil {
		return nil, err
	}
	return []host.Router{router}, nil
}

// inOrder is the router that has each agent run once.
const inOrder = "in_order"

func (a *app) guestRouter(at place, use string, atConfig place, config map[string]any) (host.Router, error) {
	p, part, err := a.plugin(at, use)
	if err != nil {
		return nil, err
	}
	opts := &plugin.PartOptions{}
	if config != nil {
		if opts.Config, err = a.toJSON(atConfig, config); err != nil {
			return nil, err
		}
	}
	router, err := p.Router(part, opts)
	return router, a.config.wrap(err, at)
}

func (a *app) modelRouter(at place, rc *routingConfig) (host.Router, error) {
	opts := &host.ModelRouterOptions{Instructions: rc.Instructions}
	var err error
	if opts.Model, err = a.routingModel(at.to("model"), rc.Model); err != nil {
		return nil, err
	}
	if strings.Contains(rc.Instructions, "{{") {
		if opts.InstructionsFunc, err = routingTemplate(rc); err != nil {
			return nil, a.config.wrap(err, at.to("instructions"))
		}
		opts.Instructions = ""
	}
	if opts.Processors, err = a.processors(at.to("processors"), rc.Processors); err != nil {
		return nil, err
	}
	if rc.Reader == "" && rc.ReaderConfig != nil {
		return nil, a.config.errorAt(at.to("reader_config"), "there is no reader that it is for").WithHint("name one under reader")
	}
	if rc.Reader != "" {
		if opts.Reader, err = a.guestRouter(at.to("reader"), rc.Reader, at.to("reader_config"), rc.ReaderConfig); err != nil {
			return nil, err
		}
	}
	return host.NewModelRouter(host.DefaultRouter, opts), nil
}

// routingModel returns the model that a configuration names; nil is the
// network's.
func (a *app) routingModel(at place, name string) (host.Model, error) {
	if name == "" {
		return nil, nil
	}
	return a.model(at, name)
}

// routingTemplate is a model router's instructions with {{.state.path}} filled
// in, and who there is.
func routingTemplate(rc *routingConfig) (func(context.Context, *host.RouteRequest) (string, error), error) {
	fill, err := host.TemplateInstructions(rc.Instructions)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, req *host.RouteRequest) (string, error) {
		text, err := fill(ctx, &host.InstructionsRequest{Scope: req.Scope, State: req.State, Input: req.Input})
		if rc.Reader == "" {
			text += "\n\n" + host.AgentList(req.Agents)
		}
		return text, err
	}, nil
}

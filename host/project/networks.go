package project

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
)

func (b *builder) makeNetwork(name string, nc configfile.Network) (*host.Network, error) {
	opts := &host.NetworkOptions{Description: nc.Description, MaxIterations: nc.MaxIterations, State: nc.State, Durable: nc.Durable}
	at := configfile.Keys("networks", name)
	var err error
	if opts.StateOfRun, err = oneOf(b.config, at.To("state_of"), nc.StateOf, "thread", "run"); err != nil {
		return nil, err
	}
	if opts.DiscardOnFailure, err = oneOf(b.config, at.To("on_failure"), nc.OnFailure, "keep", "discard"); err != nil {
		return nil, err
	}
	if opts.StateSchema, err = compileSchema(b.config, at.To("state_schema"), nc.StateSchema); err != nil {
		return nil, err
	}
	if opts.Model, err = b.models.find(at.To("model"), nc.Model); err != nil {
		return nil, err
	}
	if opts.Router, err = b.router(at, nc); err != nil {
		return nil, err
	}
	if opts.Routers, err = b.delegates(at, nc); err != nil {
		return nil, err
	}
	if opts.Processors, err = b.processors(at.To("processors"), nc.Processors); err != nil {
		return nil, err
	}
	if opts.Providers, err = b.providers(at.To("providers"), nc.Providers, nil); err != nil {
		return nil, err
	}
	agents, err := b.members(at.To("agents"), nc.Agents)
	if err != nil {
		return nil, err
	}
	if opts.OnCall, err = b.members(at.To("on_call"), nc.OnCall); err != nil {
		return nil, err
	}
	return host.NewNetwork(name, agents, opts)
}

// check finds the faults that would keep runs from beginning. An agent in a
// network may rely on the network's model.
func (s *targetSet) check(h *host.Host, c *configfile.Config) error {
	inNetwork := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(c.Networks)) {
		nc := c.Networks[name]
		for _, agent := range slices.Concat(nc.Agents, nc.OnCall) {
			inNetwork[agent] = true
		}
		if err := h.Check(s.byName[name]); err != nil {
			return c.Wrap(err, configfile.Keys("networks", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		if inNetwork[name] {
			continue
		}
		if err := h.Check(s.byName[name]); err != nil {
			return c.Wrap(err, configfile.Keys("agents", name))
		}
	}
	return nil
}

// compileSchema compiles a JSON Schema; nil stays nil.
func compileSchema(c *configfile.Config, at configfile.KeyPath, schema any) (*host.Schema, error) {
	raw, err := toJSON(c, at, schema)
	if raw == nil || err != nil {
		return nil, err
	}
	s, err := host.CompileSchema(raw)
	return s, c.Wrap(err, at)
}

// router returns a network's router; nil is the default one, a model.
func (b *builder) router(at configfile.KeyPath, nc configfile.Network) (host.Router, error) {
	asked := nc.Router == "" || nc.Router == "model"
	if nc.RouterConfig != nil && (asked || nc.Router == inOrder) {
		return nil, b.config.ErrorAt(at.To("router_config"), "a router that is no plugin has no router_config").
			WithHint("name a router's plugin under router, or remove it; how a model decides stands under routing")
	}
	switch {
	case asked && nc.Routing == nil:
		return nil, nil
	case asked:
		return b.modelRouter(at.To("routing"), nc.Routing)
	case nc.Router == inOrder:
		return host.InOrder(inOrder, nc.Agents...), nil
	}
	return b.guestRouter(at.To("router"), nc.Router, at.To("router_config"), nc.RouterConfig)
}

// delegates returns the routers that a plugin may delegate a decision to.
func (b *builder) delegates(at configfile.KeyPath, nc configfile.Network) ([]host.Router, error) {
	switch {
	case nc.Routing == nil || nc.Router == "" || nc.Router == "model":
		return nil, nil
	case nc.Router == inOrder:
		return nil, b.config.ErrorAt(at.To("routing"), "routing is for a model, and %s asks none", inOrder).
			WithHint("write: router: model, or remove routing")
	}
	router, err := b.modelRouter(at.To("routing"), nc.Routing)
	if err != nil {
		return nil, err
	}
	return []host.Router{router}, nil
}

// inOrder is the router that has each agent run once.
const inOrder = "in_order"

func (b *builder) guestRouter(at configfile.KeyPath, use string, atConfig configfile.KeyPath, config map[string]any) (host.Router, error) {
	p, part, err := b.plugins.find(at, use)
	if err != nil {
		return nil, err
	}
	opts := &plugin.PartOptions{}
	if config != nil {
		if opts.Config, err = toJSON(b.config, atConfig, config); err != nil {
			return nil, err
		}
	}
	router, err := p.Router(part, opts)
	return router, b.config.Wrap(err, at)
}

func (b *builder) modelRouter(at configfile.KeyPath, rc *configfile.Routing) (host.Router, error) {
	opts := &host.ModelRouterOptions{Instructions: rc.Instructions}
	var err error
	if opts.Model, err = b.routingModel(at.To("model"), rc.Model); err != nil {
		return nil, err
	}
	if strings.Contains(rc.Instructions, "{{") {
		if opts.InstructionsFunc, err = routingTemplate(rc); err != nil {
			return nil, b.config.Wrap(err, at.To("instructions"))
		}
		opts.Instructions = ""
	}
	if opts.Processors, err = b.processors(at.To("processors"), rc.Processors); err != nil {
		return nil, err
	}
	if rc.Reader == "" && rc.ReaderConfig != nil {
		return nil, b.config.ErrorAt(at.To("reader_config"), "there is no reader that it is for").WithHint("name one under reader")
	}
	if rc.Reader != "" {
		if opts.Reader, err = b.guestRouter(at.To("reader"), rc.Reader, at.To("reader_config"), rc.ReaderConfig); err != nil {
			return nil, err
		}
	}
	return host.NewModelRouter(host.DefaultRouter, opts), nil
}

// routingModel returns the model that a configuration names; nil is the
// network's.
func (b *builder) routingModel(at configfile.KeyPath, name string) (host.Model, error) {
	if name == "" {
		return nil, nil
	}
	return b.models.find(at, name)
}

// routingTemplate returns a model router's instructions with {{.state.path}} filled in,
// and the list of agents.
func routingTemplate(rc *configfile.Routing) (func(context.Context, *host.RouteRequest) (string, error), error) {
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

package host

import (
	"math"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// Network is a group of agents with a router, shared state and a history. Make
// one with [NewNetwork]; it is immutable, and any number of runs of it share
// nothing.
type Network struct {
	name   string
	agents []*Agent
	byName map[string]*Agent // with those on call
	router Router
	opts   NetworkOptions
	solo   bool // a lone agent's
}

// NetworkOptions are the optional parts of a network.
type NetworkOptions struct {
	Description string

	// Router picks the next agents; default: a model router over the network's
	// model.
	Router Router
	// Routers may be delegated to, by name. Others delegate to one named "default"
	// under that name, in the place of a model router without options.
	Routers []Router

	// OnCall are agents that no router and no model sees, but that a router, in code
	// or in a sandbox, or a tool may name.
	OnCall []*Agent

	Model      Model // default: the host's
	Processors []Processor
	Providers  []Provider
	History    *History // default: the host's

	// MaxIterations bounds the agent runs of one run, and the questions to the
	// router. Reaching it ends the run with finish reason max_iterations, for the
	// router's next decision is not known. 0 is the host's limit.
	MaxIterations int

	// State is the state that a run starts with, as JSON: each run gets a copy,
	// overlaid by the thread's and then by the request's.
	State any
	// StateSchema types the state: the one that a run starts with fits it, and so
	// does every change, or it is refused. [SchemaOf] makes one of a Go type; a
	// change is then made with [UpdateState]. An empty state counts as unset: the
	// first change must bring the members that the schema requires. A number beyond
	// every number type does not fit where the schema says something of it. Nil is
	// any object.
	StateSchema *Schema
	// StateOfRun keeps custom state out of threads: it ends with the run.
	StateOfRun bool

	// Durable has each run of the network write its steps down: see
	// [Request].Durable.
	Durable bool

	// Hooks are called at the beginning and the end of each run of the network.
	Hooks NetworkHooks

	// Approve says which calls of the network's tools a person must agree to;
	// nil is none.
	Approve ApprovalRule
	// Terms gives the terms of questions about calls of the network's tools; nil is
	// none.
	Terms TermsRule

	// DiscardOnFailure stores nothing of a failed run but the user's message.
	// By default the finished messages are kept, marked failed.
	DiscardOnFailure bool
}

// Target is an [*Agent] or a [*Network]: a host can run either.
type Target interface {
	Name() string
	network() *Network
}

// StateSchemaOf returns the schema that a target's state keeps to, nil if it is
// any object.
func StateSchemaOf(target Target) *Schema { return target.network().opts.StateSchema }

// HasHistory reports whether a target's runs are kept by a history of its own,
// whatever the host's is.
func HasHistory(target Target) bool { return target.network().opts.History != nil }

var (
	_ Target = (*Agent)(nil)
	_ Target = (*Network)(nil)
)

// NewNetwork returns a network. Errors have code invalid_argument and name the
// fault: no agent, two agents of one name, an agent without a description where a
// model routes, an agent with a history of its own, a router whose Agents method
// names an agent that the network does not have. Whether each agent has a model
// depends on the host as well: see [Host.Check].
func NewNetwork(name string, agents []*Agent, opts *NetworkOptions) (*Network, error) {
	if opts == nil {
		opts = &NetworkOptions{}
	}
	n := &Network{name: name, agents: append([]*Agent(nil), agents...), byName: map[string]*Agent{}, opts: *opts, router: opts.Router}
	n.opts.OnCall = slices.Clone(opts.OnCall)
	if n.router == nil {
		n.router = NewModelRouter(DefaultRouter, nil)
	}
	if err := n.check(); err != nil {
		return nil, err
	}
	state, err := NewState(opts.State, math.MaxInt) // a run's limit is the host's
	if err != nil {
		return nil, Errorf(CodeOf(err), "default state of network %q: %w", name, err)
	}
	if err := n.checkDefault(state); err != nil {
		return nil, err
	}
	n.opts.State = state.JSON()
	return n, nil
}

// checkDefault checks a default state, if one is given, by the schema. Without one,
// requests must bring the members that the schema requires.
func (n *Network) checkDefault(state *State) error {
	if n.opts.State == nil || n.opts.StateSchema == nil {
		return nil
	}
	if err := n.opts.StateSchema.Validate(state.JSON()); err != nil {
		return Errorf(InvalidArgument, "default state of network %q does not fit its schema: %w", n.name, err)
	}
	return nil
}

func (n *Network) check() error {
	if strings.TrimSpace(n.name) == "" {
		return Errorf(InvalidArgument, "network without a name")
	}
	if len(n.agents) == 0 {
		return Errorf(InvalidArgument, "network %q has no agent", n.name)
	}
	if n.opts.MaxIterations < 0 {
		return Errorf(InvalidArgument, "network %q: max_iterations is %d", n.name, n.opts.MaxIterations).
			WithHint("0 is the host's limit")
	}
	for _, a := range slices.Concat(n.agents, n.opts.OnCall) {
		if err := n.addAgent(a); err != nil {
			return err
		}
	}
	if err := n.opts.History.checkDiscard(n); err != nil {
		return err
	}
	return n.checkRouters()
}

func (n *Network) checkRouters() error {
	byModel, err := n.checkRouter(n.router)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for i, r := range n.opts.Routers {
		if r == nil {
			return Errorf(InvalidArgument, "router %d of network %q is nil", i, n.name)
		}
		if seen[r.Name()] {
			return Errorf(InvalidArgument, "network %q has two routers named %q", n.name, r.Name())
		}
		seen[r.Name()] = true
		model, err := n.checkRouter(r)
		if err != nil {
			return err
		}
		byModel = byModel || model
	}
	if byModel {
		return n.checkDescriptions()
	}
	return nil
}

// checkRouter finds the faults of a router that can be known beforehand, and
// whether it asks a model.
func (n *Network) checkRouter(r Router) (byModel bool, err error) {
	switch r := r.(type) {
	case *modelRouter:
		return true, r.check()
	case interface{ Agents() []string }:
		for _, name := range r.Agents() {
			if n.byName[name] == nil {
				return false, n.stranger(r.(Router).Name(), name)
			}
		}
	}
	return false, nil
}

// checkDescriptions holds a network that a model routes, or may be asked to, to
// telling the model about its agents.
func (n *Network) checkDescriptions() error {
	for _, a := range n.agents {
		if strings.TrimSpace(a.opts.Description) == "" {
			return Errorf(InvalidArgument, "agent %q of network %q has no description", a.name, n.name).
				WithHint("the model that routes picks agents by their descriptions")
		}
	}
	return nil
}

func (n *Network) stranger(router, agent string) *Error {
	return Errorf(InvalidArgument, "router %q names the agent %q, which network %q does not have", router, agent, n.name).
		WithHint("its agents are: %s", strings.Join(jsondoc.SortedNames(n.byName), ", "))
}

func (n *Network) addAgent(a *Agent) error {
	if a == nil {
		return Errorf(InvalidArgument, "network %q has a nil agent", n.name)
	}
	if n.byName[a.name] != nil {
		return Errorf(InvalidArgument, "network %q has two agents named %q", n.name, a.name)
	}
	if err := n.checkHistory(a); err != nil {
		return err
	}
	if err := checkProviders(n, a); err != nil {
		return Errorf(InvalidArgument, "agent %q of network %q: %w", a.name, n.name, err)
	}
	n.byName[a.name] = a
	return nil
}

func (n *Network) checkHistory(a *Agent) error {
	if a.opts.History == nil {
		return nil
	}
	return Errorf(InvalidArgument, "agent %q of network %q has a history of its own", a.name, n.name).
		WithHint("inside a network only the network's history is used; set it there")
}

// Name returns the network's name.
func (n *Network) Name() string { return n.name }

// Agents returns the network's agents as routers see them, without those on call.
func (n *Network) Agents() []AgentInfo {
	infos := make([]AgentInfo, len(n.agents))
	for i, a := range n.agents {
		infos[i] = a.Info()
	}
	return infos
}

func (n *Network) network() *Network { return n }

// delegate returns the router that another one names.
func (n *Network) delegate(from, name string) (Router, error) {
	for _, r := range n.opts.Routers {
		if r.Name() == name {
			return r, nil
		}
	}
	if name != DefaultRouter {
		return nil, Errorf(InvalidArgument, "router %q delegates to %q, which network %q does not have", from, name, n.name)
	}
	if err := n.checkDescriptions(); err != nil {
		return nil, err
	}
	return NewModelRouter(DefaultRouter, nil), nil
}

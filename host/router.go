package host

import (
	"context"
	"slices"

	"github.com/agenthost/agenthost/host/internal/agentchoice"
	"github.com/agenthost/agenthost/host/llm"
)

// Router picks the next agents of a network. It is asked before the first agent and
// after every agent's run; that, the stack of waiting agents and the router's input
// are AgentKit's. Implementations are safe for concurrent use; an error ends the
// run, and so does a panic, with code internal. Route must heed its context: a run
// cannot end before it returns. (One in a sandbox is stopped.)
//
// A router that knows beforehand which agents it may name has a method Agents()
// []string as well; the network checks those names when it is made.
type Router interface {
	Name() string
	Route(ctx context.Context, req *RouteRequest) (*Route, error)
}

// RouteRequest is the state of a network's run for its router.
type RouteRequest struct {
	Scope     Scope
	Input     *Message    // the user's message of this turn
	CallCount int         // agent runs so far in this run
	Stack     []string    // agents still waiting
	Agents    []AgentInfo // the network's
	State     *State
	Last      *Result   // of this run; nil before the first
	Results   []*Result // of this run
	Messages  []*Message

	routing *routing // nil outside a run
}

// View returns the conversation as a view, for routers that count or outline it.
func (req *RouteRequest) View() *View {
	name, counter := "", TokenCounter(nil)
	if req.routing != nil {
		counter = req.routing.ledger.Tokens
		if m := req.routing.models.forRouters(); m != nil {
			name = m.Name()
		}
	}
	v := llm.NewView(req.Messages, name, counter)
	v.Scope = req.Scope
	return v
}

// AgentInfo describes an agent to a router: its Name, its Description and its Tools.
type AgentInfo = agentchoice.Agent

// Route is a router's decision. Next names agents of the network, and those on
// call; they go to the end of the stack. With none, the run ends when the stack
// is empty. Delegate names another router of the network, or "default", to
// decide instead.
type Route struct {
	Next     []string
	Delegate string

	// Agents go to the end of the stack after Next. They need not be the
	// network's: one that is not belongs to this run from here on, under its name.
	// Another agent of a name that is taken is an error, where AgentKit would run
	// the one that it knows. A run that is resumed does not know agents that a
	// router brought along: put those on call.
	Agents []*Agent

	Reason string // shown on the run
	Cost   *Cost  // set by sandboxed routers
}

// Next returns a route to the agents of these names.
func Next(agents ...string) *Route { return &Route{Next: agents} }

// NextAgents returns a route to agents, be they the network's or not.
func NextAgents(agents ...*Agent) *Route { return &Route{Agents: agents} }

// Stop returns the route that adds nothing.
func Stop(reason string) *Route { return &Route{Reason: reason} }

// RouterFunc returns a router from a function. A nil route stops.
func RouterFunc(name string, fn func(ctx context.Context, req *RouteRequest) (*Route, error)) Router {
	return &funcRouter{name, fn}
}

// InOrder returns a router that runs these agents one after the other, each once,
// and then stops.
func InOrder(name string, agents ...string) Router {
	return &orderRouter{name, slices.Clone(agents)}
}

type orderRouter struct {
	name   string
	agents []string
}

func (r *orderRouter) Name() string     { return r.name }
func (r *orderRouter) Agents() []string { return r.agents }

func (r *orderRouter) Route(_ context.Context, req *RouteRequest) (*Route, error) {
	if req.CallCount >= len(r.agents) {
		return Stop("all have run"), nil
	}
	return Next(r.agents[req.CallCount]), nil
}

type funcRouter struct {
	name string
	fn   func(context.Context, *RouteRequest) (*Route, error)
}

func (r *funcRouter) Name() string { return r.name }
func (r *funcRouter) Route(ctx context.Context, req *RouteRequest) (*Route, error) {
	return r.fn(ctx, req)
}

// DefaultRouter is the name under which any router may delegate to the
// network's default model router.
const DefaultRouter = "default"

// ModelRouterOptions change a model router. It has no tools but its own two: an
// agent that needs tools to decide is an agent, and a router in code reads its
// findings from the state.
type ModelRouterOptions struct {
	Model      Model // default: the run's
	Processors []Processor

	// Instructions are the system prompt; default: pick an agent or finish. The
	// list of the agents follows them, unless OnRoute or Reader is set.
	// InstructionsFunc makes the whole prompt for each decision instead.
	Instructions     string
	InstructionsFunc func(ctx context.Context, req *RouteRequest) (string, error)

	// OnRoute names the next agents, from the model's answer; a nil route adds none.
	// Default: the arguments of the tools select_agent and done. With it, the model
	// has no tools at all.
	OnRoute func(ctx context.Context, resp *llm.Response, req *RouteRequest) (*Route, error)

	// Reader is OnRoute as a router, which may be one in a sandbox: the answer is
	// its request's Last, under the model router's name.
	Reader Router
}

// NewModelRouter returns a router that asks a model: it receives the agents' names
// and descriptions and answers by calling select_agent or done. A name that it
// invents is reported back to it, at most 3 times. A text-only
// answer ends the run. Options that exclude each other are an error of the network
// that the router is for.
func NewModelRouter(name string, opts *ModelRouterOptions) Router {
	if opts == nil {
		opts = &ModelRouterOptions{}
	}
	return &modelRouter{name, *opts}
}

// maxRouteAttempts bounds how often a model router is asked for one decision.
const maxRouteAttempts = 3

type modelRouter struct {
	name string
	opts ModelRouterOptions
}

func (r *modelRouter) Name() string { return r.name }

func (r *modelRouter) check() error {
	switch o := r.opts; {
	case o.Instructions != "" && o.InstructionsFunc != nil:
		return Errorf(InvalidArgument, "model router %q has both Instructions and InstructionsFunc", r.name)
	case o.OnRoute != nil && o.Reader != nil:
		return Errorf(InvalidArgument, "model router %q has both OnRoute and Reader", r.name)
	}
	return nil
}

// readsItself reports whether the model answers with the two tools.
func (r *modelRouter) readsItself() bool { return r.opts.OnRoute == nil && r.opts.Reader == nil }

func (r *modelRouter) Route(ctx context.Context, req *RouteRequest) (*Route, error) {
	if req.routing == nil {
		return nil, Errorf(FailedPrecondition, "model router %q can route only within a run", r.name)
	}
	if r.readsItself() && len(req.Agents) == 0 {
		return Stop("no agent is enabled"), nil
	}
	view := req.Messages
	for range maxRouteAttempts {
		resp, err := r.ask(ctx, req, view)
		if err != nil {
			return nil, err
		}
		route, complaint, err := r.read(ctx, resp, req)
		if complaint == "" || err != nil {
			return route, err
		}
		view = agentchoice.Complain(view, resp, complaint)
	}
	return nil, Errorf(Unavailable, "model router %q named no agent of the network in %d attempts", r.name, maxRouteAttempts).
		WithHint("describe the agents better, or route in code")
}

// read returns the route of the model's answer, or a correction to send to the
// model.
func (r *modelRouter) read(ctx context.Context, resp *llm.Response, req *RouteRequest) (*Route, string, error) {
	if r.readsItself() {
		choice, complaint := agentchoice.Read(resp, req.Agents)
		if choice.Agent == "" {
			return Stop(choice.Reason), complaint, nil
		}
		return &Route{Next: []string{choice.Agent}, Reason: choice.Reason}, "", nil
	}
	route, err := r.onRoute(ctx, resp, req)
	if err != nil || route == nil {
		return route, "", err
	}
	if name, ok := req.routing.unknownAgent(route.Next); ok {
		return nil, agentchoice.NoSuchAgent(name, req.Agents), nil
	}
	return route, "", nil
}

func (r *modelRouter) onRoute(ctx context.Context, resp *llm.Response, req *RouteRequest) (*Route, error) {
	if r.opts.OnRoute != nil {
		return r.opts.OnRoute(ctx, resp, req)
	}
	read := *req
	read.Last = &Result{Agent: r.name, Messages: []*Message{NewMessage(Assistant, resp.Parts...)},
		FinishReason: resp.FinishReason, Rounds: 1, Usage: resp.Usage}
	route, err := r.opts.Reader.Route(ctx, &read)
	return route, wrapError(err, "reader %q", r.opts.Reader.Name())
}

func (r *modelRouter) ask(ctx context.Context, req *RouteRequest, view []*Message) (*llm.Response, error) {
	instructions, err := r.instructions(ctx, req)
	if err != nil {
		return nil, wrapError(err, "instructions")
	}
	mreq := &llm.Request{Scope: req.Scope, SerialTools: true}
	if r.readsItself() {
		mreq.Tools, mreq.ToolChoice = agentchoice.Tools(req.Agents), ToolChoiceAny
	}
	return req.routing.askRoutingModel(ctx, r, mreq, instructions, view)
}

func (r *modelRouter) instructions(ctx context.Context, req *RouteRequest) (string, error) {
	switch {
	case r.opts.InstructionsFunc != nil:
		return r.opts.InstructionsFunc(ctx, req)
	case r.opts.Instructions == "":
		return agentchoice.Instructions(req.Agents), nil
	case r.readsItself():
		return r.opts.Instructions + "\n\n" + agentchoice.List(req.Agents), nil
	}
	return r.opts.Instructions, nil
}

// AgentList returns the list of agents in a routing model's prompt, a line each.
func AgentList(agents []AgentInfo) string { return agentchoice.List(agents) }

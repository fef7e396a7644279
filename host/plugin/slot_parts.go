package plugin

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin/internal/breaker"
)

// The parts of a slot that agents hold. Each part looks up the serving version at
// every call, and keeps the part that it made of the last version.

// slotPart is a part of the serving version.
type slotPart[T any] struct {
	slot *Slot
	make func(v *version) (T, error)
	last atomic.Pointer[madePart[T]]
}

// madePart is a part of one version.
type madePart[T any] struct {
	version *version
	part    T
	err     error
}

// of returns the part of a version, making it if the last call went to another.
func (sp *slotPart[T]) of(v *version) (T, error) {
	if last := sp.last.Load(); last != nil && last.version == v {
		return last.part, last.err
	}
	made := &madePart[T]{version: v}
	made.part, made.err = sp.make(v)
	sp.last.Store(made)
	return made.part, made.err
}

// with runs one call on the version that serves, or that ctx pins.
func with[T, R any](ctx context.Context, sp *slotPart[T], tenant string, fn func(T) (R, error)) (out R, err error) {
	v, err := sp.slot.at(ctx)
	if err != nil {
		return out, err
	}
	defer v.leave()
	part, err := sp.of(v)
	if err != nil {
		return out, err
	}
	return guarded(ctx, v, tenant, func() (R, error) { return fn(part) })
}

// guarded runs one call on a version, if it is given any, and takes note of how
// it ends.
func guarded[R any](ctx context.Context, v *version, tenant string, fn func() (R, error)) (out R, err error) {
	b := v.breaker.Load()
	probe, err := b.Admit(v.slot.id, tenant)
	if err != nil {
		return out, err
	}
	verdict := breaker.None // if fn panics
	defer func() { v.settle(b, tenant, probe, verdict, err) }()
	out, err = fn()
	verdict = judge(ctx, err)
	return out, err
}

// settle counts a call that has ended, and rolls the version back if it fails
// for most of those who call it.
func (v *version) settle(b *breaker.Breaker, tenant string, probe bool, verdict breaker.Verdict, err error) {
	v.calls.Add(1)
	if verdict == breaker.Fault {
		v.faults.Add(1)
	}
	if b.Settle(tenant, probe, verdict, err) {
		v.slot.rollback(v, Failed, err)
	}
}

// Call runs one export of the version that serves with a raw input, as
// [Plugin.Call] does.
func (s *Slot) Call(ctx context.Context, tenant, name string, input []byte, opts *CallOptions) (*CallResult, error) {
	v, err := s.at(ctx)
	if err != nil {
		return &CallResult{}, err
	}
	defer v.leave()
	out, err := guarded(ctx, v, tenant, func() (*CallResult, error) { return v.plugin.Call(ctx, tenant, name, input, opts) })
	if out == nil {
		out = &CallResult{}
	}
	return out, err
}

// Tools returns the tools of the version that serves, in its manifest's order. A
// tool stays what it is called: at the start of each agent's run it takes the
// description and parameters of the version that then serves, and a call whose
// version does not have it any more fails with code not_found. Tools that a
// later version adds come with the next Tools.
func (s *Slot) Tools(opts *PartOptions) ([]*host.Tool, error) {
	v := s.enter()
	if v == nil {
		return nil, s.errUnloaded()
	}
	defer v.leave()
	tools := make([]*host.Tool, len(v.plugin.manifest.Tools))
	for i, info := range v.plugin.manifest.Tools {
		var err error
		if tools[i], err = s.newTool(info.Name, "", opts).live(v); err != nil {
			return nil, err
		}
	}
	return tools, nil
}

// Tool returns one of the tools: see [Slot.Tools]. Code not_found if no tool has
// that name.
func (s *Slot) Tool(name string, opts *PartOptions) (*host.Tool, error) {
	v := s.enter()
	if v == nil {
		return nil, s.errUnloaded()
	}
	defer v.leave()
	if v.plugin.manifest.Tool(name) == nil {
		return v.plugin.Tool(name, opts) // its error
	}
	return s.newTool(name, "", opts).live(v)
}

// slotTool is a tool of whatever version serves.
type slotTool struct {
	slotPart[versionTool]
	name string
}

// versionTool is a tool of one version.
type versionTool struct {
	tool   *host.Tool // goes to whatever version serves
	handle host.ToolHandler
}

func (s *Slot) newTool(name, provider string, part *PartOptions) *slotTool {
	t := &slotTool{name: name}
	t.slotPart = slotPart[versionTool]{slot: s, make: func(v *version) (made versionTool, err error) {
		info := v.plugin.manifest.Tool(name)
		if info == nil {
			return made, v.errNoPart("tool", name)
		}
		if made.handle, err = v.plugin.toolHandler(info, provider, part.config()); err == nil {
			made.tool, err = v.plugin.wrapTool(info, part, t.call)
		}
		return made, err
	}}
	return t
}

// live returns the tool as agents have it.
func (t *slotTool) live(v *version) (*host.Tool, error) {
	made, err := t.of(v)
	if err != nil {
		return nil, err
	}
	return host.NewLiveTool(made.tool, t.current), nil
}

// current is the tool of the serving version; nil if that version lacks it.
func (t *slotTool) current(ctx context.Context) *host.Tool {
	v, err := t.slot.at(ctx)
	if err != nil {
		return nil
	}
	defer v.leave()
	made, err := t.of(v)
	if err != nil {
		return nil
	}
	return made.tool
}

func (t *slotTool) call(ctx context.Context, call *host.Call) (*host.ToolOutput, error) {
	return with(ctx, &t.slotPart, call.Scope.Tenant, func(made versionTool) (*host.ToolOutput, error) { return made.handle(ctx, call) })
}

// Processor returns one of the processors; an empty name is the only one of the
// version that serves. Errors are those of [Plugin.Processor]; a call whose
// version does not have it any more, or not with this configuration, fails with
// the same codes.
func (s *Slot) Processor(name string, opts *PartOptions) (host.Processor, error) {
	pr := &slotProcessor{slotPart: slotPart[host.Processor]{slot: s}}
	err := s.firstPart(func(p *Plugin) error {
		part, err := p.Processor(name, opts)
		if err == nil {
			pr.name = part.Name()
		}
		return err
	})
	pr.make = func(v *version) (host.Processor, error) { return v.plugin.Processor(pr.name, opts) }
	return pr, err
}

// firstPart makes a part of the serving version, so that its faults show when an
// agent is made.
func (s *Slot) firstPart(fn func(p *Plugin) error) error {
	v := s.enter()
	if v == nil {
		return s.errUnloaded()
	}
	defer v.leave()
	return fn(v.plugin)
}

type slotProcessor struct {
	slotPart[host.Processor]
	name string
}

func (pr *slotProcessor) Name() string { return pr.name }

// ReadsOnly implements [llm.Reader].
func (pr *slotProcessor) ReadsOnly() {}

func (pr *slotProcessor) Process(ctx context.Context, view *host.View) (*llm.Processed, error) {
	return with(ctx, &pr.slotPart, view.Scope.Tenant, func(p host.Processor) (*llm.Processed, error) { return p.Process(ctx, view) })
}

// Router returns one of the routers: see [Slot.Processor].
func (s *Slot) Router(name string, opts *PartOptions) (host.Router, error) {
	r := &slotRouter{slotPart: slotPart[host.Router]{slot: s}}
	err := s.firstPart(func(p *Plugin) error {
		part, err := p.Router(name, opts)
		if err == nil {
			r.name = part.Name()
		}
		return err
	})
	r.make = func(v *version) (host.Router, error) { return v.plugin.Router(r.name, opts) }
	return r, err
}

type slotRouter struct {
	slotPart[host.Router]
	name string
}

func (r *slotRouter) Name() string { return r.name }

func (r *slotRouter) Route(ctx context.Context, req *host.RouteRequest) (*host.Route, error) {
	return with(ctx, &r.slotPart, req.Scope.Tenant, func(p host.Router) (*host.Route, error) { return p.Route(ctx, req) })
}

// Provider returns one of the context providers: see [Slot.Processor]. It is a
// [host.Observer] whose Observe does nothing while a version serves that does
// not observe.
func (s *Slot) Provider(name string, opts *PartOptions) (host.Provider, error) {
	pr := &slotProvider{slotPart: slotPart[host.Provider]{slot: s}}
	err := s.firstPart(func(p *Plugin) error {
		part, err := p.Provider(name, opts)
		if err == nil {
			pr.name = part.Name()
		}
		return err
	})
	pr.make = func(v *version) (host.Provider, error) {
		return v.plugin.provider(pr.name, opts, func(tool string) (*host.Tool, error) { return pr.tool(tool, opts).live(v) })
	}
	return pr, err
}

type slotProvider struct {
	slotPart[host.Provider]
	name  string
	mu    sync.Mutex
	tools map[string]*slotTool
}

// tool returns one of the plugin's own tools, which outlives the version that
// offered it.
func (pr *slotProvider) tool(name string, opts *PartOptions) *slotTool {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	t := pr.tools[name]
	if t == nil {
		if pr.tools == nil {
			pr.tools = map[string]*slotTool{}
		}
		t = pr.slot.newTool(name, pr.name, opts)
		pr.tools[name] = t
	}
	return t
}

func (pr *slotProvider) Name() string { return pr.name }

// ReadsOnly implements [llm.Reader].
func (pr *slotProvider) ReadsOnly() {}

func (pr *slotProvider) Provide(ctx context.Context, req *host.ProvideRequest) (*host.Provided, error) {
	return with(ctx, &pr.slotPart, req.Scope.Tenant, func(p host.Provider) (*host.Provided, error) { return p.Provide(ctx, req) })
}

func (pr *slotProvider) Observe(ctx context.Context, req *host.ObserveRequest) (*host.Cost, error) {
	return with(ctx, &pr.slotPart, req.Scope.Tenant, func(p host.Provider) (*host.Cost, error) {
		if o, ok := p.(host.Observer); ok {
			return o.Observe(ctx, req)
		}
		return nil, nil
	})
}

var (
	_ host.Processor = (*slotProcessor)(nil)
	_ host.Router    = (*slotRouter)(nil)
	_ host.Provider  = (*slotProvider)(nil)
	_ host.Observer  = (*slotProvider)(nil)
)

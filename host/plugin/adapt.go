package plugin

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
)

// PartOptions are the optional parts of making something of a plugin.
type PartOptions struct {
	// Config is the part's configuration as JSON; it must fit the schema that the
	// manifest gives for it.
	Config json.RawMessage

	// Tools are host tools that a provider may offer by name.
	Tools []*host.Tool

	// Prefix begins the names under which agents have the plugin's tools, so that
	// two plugins may have tools of one name; Rename gives single ones, by their
	// names in the manifest, a whole new name, without the prefix. The plugin is
	// called under its own names.
	Prefix string
	Rename map[string]string
}

// toolName is the name under which agents have a tool of the plugin.
func (o *PartOptions) toolName(name string) string {
	switch {
	case o == nil:
		return name
	case o.Rename[name] != "":
		return o.Rename[name]
	}
	return o.Prefix + name
}

func (o *PartOptions) config() json.RawMessage {
	if o == nil {
		return nil
	}
	return o.Config
}

// Tools returns the plugin's tools, in the manifest's order.
func (p *Plugin) Tools(opts *PartOptions) ([]*host.Tool, error) {
	tools := make([]*host.Tool, 0, len(p.manifest.Tools))
	for i := range p.manifest.Tools {
		t, err := p.newTool(&p.manifest.Tools[i], "", opts)
		if err != nil {
			return nil, err
		}
		tools = append(tools, t)
	}
	return tools, nil
}

// Tool returns one of the plugin's tools. Code not_found if no tool has that
// name.
func (p *Plugin) Tool(name string, opts *PartOptions) (*host.Tool, error) {
	info := p.manifest.Tool(name)
	if info == nil {
		return nil, notOffered(p.id, "tool", name, names(p.manifest.Tools, func(t ToolInfo) string { return t.Name }))
	}
	return p.newTool(info, "", opts)
}

func names[T any](list []T, name func(T) string) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = name(v)
	}
	return out
}

func (p *Plugin) newTool(info *ToolInfo, provider string, part *PartOptions) (*host.Tool, error) {
	handler, err := p.toolHandler(info, provider, part.config())
	if err != nil {
		return nil, err
	}
	return p.wrapTool(info, part, handler)
}

// wrapTool makes a tool of its handler, with the manifest's description and the name
// that the options give it.
func (p *Plugin) wrapTool(info *ToolInfo, part *PartOptions, handler host.ToolHandler) (*host.Tool, error) {
	if err := checkConfig(p.id, "tool", info.Name, nil, part.config()); err != nil {
		return nil, err
	}
	made, err := toolSchemas(p.id, p.schemas, info)
	if err != nil {
		return nil, err
	}
	opts := &host.ToolOptions{ReadOnly: info.Annotations.ReadOnly, Idempotent: info.Annotations.Idempotent, Schema: made.Parameters,
		Calls: p.manifest.Permissions.Tools, OnlyCalls: p.manifest.Permissions.OnlyCalls()}
	if info.Annotations.NeedsApproval {
		reason := "plugin " + p.id + " wants each call approved"
		if info.Annotations.Destructive {
			reason += "; the call may change or remove what is there"
		}
		opts.Approve = host.ApproveAlways(reason)
	}
	spec := info.Spec()
	spec.Name = part.toolName(info.Name)
	tool, err := host.NewRawTool(spec, handler, opts)
	if err != nil {
		return nil, host.Errorf(host.InvalidArgument, "plugin %q: %w", p.id, err)
	}
	return tool, nil
}

// toolHandler returns the function that runs a tool.
func (p *Plugin) toolHandler(info *ToolInfo, provider string, config json.RawMessage) (host.ToolHandler, error) {
	made, err := toolSchemas(p.id, p.schemas, info)
	if err != nil {
		return nil, err
	}
	result := made.Result
	if info.Export != "" {
		return p.plainHandler(info, result)
	}
	return func(ctx context.Context, call *host.Call) (*host.ToolOutput, error) {
		s := p.bindings.of(call.Scope.Tenant)
		out := &host.ToolOutput{}
		cost, err := p.call(ctx, call.Scope.Tenant, abi.Tool, abi.ToolInput(info.Name, call, provider, config, s.rights().granted.State.Allows(Read)), s.toolOperations(call),
			func(ctx context.Context, raw []byte) error {
				got, err := s.toolResult(ctx, raw, result)
				if err == nil {
					out = got
				}
				return err
			})
		out.Cost = cost
		return out, err
	}, nil
}

func (b *binding) toolResult(ctx context.Context, raw []byte, result *host.Schema) (*host.ToolOutput, error) {
	got, err := b.plugin.answers.Tool(ctx, raw, result)
	if err != nil {
		return nil, err
	}
	if len(got.State) > 0 {
		if err := b.mayState(Write); err != nil {
			return nil, err
		}
	}
	return got, nil
}

// checkConfig holds a part's configuration to the manifest's schema; nil is none.
func checkConfig(plugin, kind, name string, schema *host.Schema, config json.RawMessage) error {
	if len(config) > 0 && !json.Valid(config) {
		return host.Errorf(host.InvalidArgument, "config of %s %q of plugin %q is not JSON", kind, name, plugin)
	}
	if schema == nil {
		return nil
	}
	if len(config) == 0 {
		config = json.RawMessage("{}")
	}
	if err := schema.Validate(config); err != nil {
		return host.Errorf(host.InvalidArgument, "config of %s %q of plugin %q: %w", kind, name, plugin, err)
	}
	return nil
}

// Processor returns one of the plugin's processors; an empty name is the only
// one. Code not_found if it does not exist, invalid_argument for a configuration
// that does not fit.
func (p *Plugin) Processor(name string, opts *PartOptions) (host.Processor, error) {
	info := p.manifest.Processor(name)
	if info == nil {
		return nil, notOffered(p.id, "processor", name, names(p.manifest.Processors, func(v ProcessorInfo) string { return v.Name }))
	}
	if err := checkConfig(p.id, "processor", info.Name, p.schemas.Config("processor", info.Name), opts.config()); err != nil {
		return nil, err
	}
	return &processor{p, info, opts.config()}, nil
}

type processor struct {
	plugin *Plugin
	info   *ProcessorInfo
	config json.RawMessage
}

func (pr *processor) Name() string { return pr.info.Name }

// ReadsOnly implements [llm.Reader].
func (pr *processor) ReadsOnly() {}

func (pr *processor) Process(ctx context.Context, view *host.View) (*llm.Processed, error) {
	p := pr.plugin
	input, err := abi.ProcessInput(ctx, pr.info, pr.config, view)
	if err != nil {
		return nil, err
	}
	ops := viewOperations{baseOperations{binding: p.bindings.of(view.Scope.Tenant), scope: view.Scope}, view, false}
	var done *llm.Processed
	cost, err := p.call(ctx, view.Scope.Tenant, abi.Process, input, ops, func(ctx context.Context, raw []byte) (err error) {
		done, err = p.answers.Process(ctx, pr.info.Name, raw)
		return err
	})
	if err != nil {
		return nil, err
	}
	done.Cost = cost
	return done, nil
}

// Router returns one of the plugin's routers; an empty name is the only one.
func (p *Plugin) Router(name string, opts *PartOptions) (host.Router, error) {
	info, err := p.part("router", name, p.manifest.Routers, opts)
	if err != nil {
		return nil, err
	}
	return &router{p, info.Name, opts.config()}, nil
}

func (p *Plugin) part(kind, name string, all []PartInfo, opts *PartOptions) (*PartInfo, error) {
	i := slices.IndexFunc(all, func(v PartInfo) bool { return v.Name == name })
	if name == "" && len(all) == 1 {
		i = 0
	}
	if i < 0 {
		return nil, notOffered(p.id, kind, name, names(all, func(v PartInfo) string { return v.Name }))
	}
	return &all[i], checkConfig(p.id, kind, all[i].Name, p.schemas.Config(kind, all[i].Name), opts.config())
}

type router struct {
	plugin *Plugin
	name   string
	config json.RawMessage
}

func (r *router) Name() string { return r.name }

func (r *router) Route(ctx context.Context, req *host.RouteRequest) (*host.Route, error) {
	p := r.plugin
	s := p.bindings.of(req.Scope.Tenant)
	granted := &s.rights().granted
	input, err := abi.RouteInput(ctx, r.name, r.config, req, granted.State.Allows(Read), granted.Messages)
	if err != nil {
		return nil, err
	}
	ops := viewOperations{baseOperations: baseOperations{binding: s, scope: req.Scope, state: req.State}, granted: true}
	if s.rights().granted.Messages {
		ops.view = req.View()
	}
	var route *host.Route
	cost, err := p.call(ctx, req.Scope.Tenant, abi.Route, input, ops, func(ctx context.Context, raw []byte) (err error) {
		route, err = p.answers.Route(ctx, r.name, raw)
		return err
	})
	if err != nil {
		return nil, err
	}
	route.Cost = cost
	return route, nil
}

// Provider returns one of the plugin's context providers; an empty name is the
// only one. If the plugin exports agenthost_observe, the provider is a
// [host.Observer] too, unless its manifest says that it is not.
func (p *Plugin) Provider(name string, opts *PartOptions) (host.Provider, error) {
	return p.provider(name, opts, nil)
}

// provider is Provider whose own tools are made by a function; nil is newTool.
func (p *Plugin) provider(name string, opts *PartOptions, own func(tool string) (*host.Tool, error)) (host.Provider, error) {
	info, err := p.part("provider", name, p.manifest.Providers, opts)
	if err != nil {
		return nil, err
	}
	pr := &provider{plugin: p, name: info.Name, config: opts.config(), part: opts, own: own}
	if opts != nil {
		pr.tools = opts.Tools
	}
	wanted := info.Observe == nil || *info.Observe
	if wanted && p.module.exportsFunc(abi.Observe) {
		return &observingProvider{pr}, nil
	}
	return pr, nil
}

type provider struct {
	plugin *Plugin
	name   string
	config json.RawMessage
	part   *PartOptions
	tools  []*host.Tool
	own    func(tool string) (*host.Tool, error)

	mu   sync.Mutex
	made map[string]*host.Tool // of the plugin's own, by name
}

func (pr *provider) Name() string { return pr.name }

// ReadsOnly implements [llm.Reader].
func (pr *provider) ReadsOnly() {}

func (pr *provider) Provide(ctx context.Context, req *host.ProvideRequest) (*host.Provided, error) {
	p := pr.plugin
	var out *host.Provided
	cost, err := p.call(ctx, req.Scope.Tenant, abi.Provide, abi.ProvideInput(pr.name, pr.config, req), pr.operations(req),
		func(ctx context.Context, raw []byte) (err error) {
			out, err = pr.read(ctx, raw)
			return err
		})
	if err != nil {
		return nil, err
	}
	out.Cost = cost
	return out, nil
}

// read turns an answer into the agent's input, with the tools that the answer names.
func (pr *provider) read(ctx context.Context, raw []byte) (*host.Provided, error) {
	out, names, err := pr.plugin.answers.Provide(ctx, pr.name, raw)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		tool, err := pr.tool(name)
		if err != nil {
			return nil, err
		}
		out.Tools = append(out.Tools, tool)
		if err := callmeter.Yield(ctx); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (pr *provider) operations(req *host.ProvideRequest) baseOperations {
	return baseOperations{binding: pr.plugin.bindings.of(req.Scope.Tenant), scope: req.Scope, state: req.State, own: req.Own}
}

// tool finds a tool that a provider offers: the plugin's own first.
func (pr *provider) tool(name string) (*host.Tool, error) {
	if info := pr.plugin.manifest.Tool(name); info != nil {
		if pr.own != nil {
			return pr.own(name)
		}
		return pr.ownTool(info)
	}
	for _, t := range pr.tools {
		if t.Name == name {
			return t, nil
		}
	}
	return nil, host.Errorf(host.Internal, "plugin %q: provider %q offers the tool %q, which is neither its own nor granted to it", pr.plugin.id, pr.name, clean(name))
}

// ownTool returns the plugin's own tool, which is made once: its calls name the
// provider and have its configuration.
func (pr *provider) ownTool(info *ToolInfo) (*host.Tool, error) {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	if t := pr.made[info.Name]; t != nil {
		return t, nil
	}
	t, err := pr.plugin.newTool(info, pr.name, pr.part)
	if err != nil {
		return nil, err
	}
	if pr.made == nil {
		pr.made = map[string]*host.Tool{}
	}
	pr.made[info.Name] = t
	return t, nil
}

// observingProvider is a provider that wants to know how it went.
type observingProvider struct{ *provider }

func (pr *observingProvider) Observe(ctx context.Context, req *host.ObserveRequest) (*host.Cost, error) {
	p := pr.plugin
	return p.call(ctx, req.Scope.Tenant, abi.Observe, abi.ObserveInput(pr.name, pr.config, req), pr.operations(&req.ProvideRequest),
		func(ctx context.Context, raw []byte) error {
			return p.answers.Observe(ctx, raw)
		})
}

var (
	_ host.Processor = (*processor)(nil)
	_ host.Router    = (*router)(nil)
	_ host.Provider  = (*provider)(nil)
	_ host.Observer  = (*observingProvider)(nil)
)

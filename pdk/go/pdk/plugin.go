package pdk

// A Plugin is what a module can do. Plugins register with the package functions
// ([Describe], [Tool], [Processor], [OutlineProcessor], [Router], [Provider],
// [Observer]), which fill the one that the module exports, [Registered]; the
// methods of the same names are for tests that want a plugin of their own. The
// zero value is empty.
//
// A Plugin reuses its memory from call to call and is not safe for concurrent
// use.
type Plugin struct {
	manifest   Manifest
	tools      []*ToolSpec
	processors []*ProcessorSpec
	routers    []*RouterSpec
	providers  []*ProviderSpec
	resources  []Resource
	prompts    []Prompt

	kinds [kindCount]kind
	calls memory
}

// A kind is the code that serves one kind of registration. Registering the
// first of a kind stores it, and nothing else refers to it, so that the linker
// leaves out what a plugin does not use: 150 kB for a plugin with one tool.
type kind struct {
	describe func(p *Plugin, w *Writer)
	run      func(p *Plugin, in *reader) error
}

// The kinds, in the order of the manifest.
const (
	kindTool = iota
	kindProcess
	kindRoute
	kindProvide
	kindObserve  // described with its provider
	kindResource // a resource, which no export serves
	kindPrompt   // likewise
	kindCount
)

// registered is the module's plugin. The package has state because a module has:
// the host calls exports without a receiver.
var registered Plugin

// Registered returns the plugin that the module exports.
func Registered() *Plugin { return &registered }

// Describe sets what the plugin is and what it asks for.
func Describe(m Manifest) { registered.Describe(m) }

// Describe is the method form of the function of the same name.
func (p *Plugin) Describe(m Manifest) { p.manifest = m }

// Tool registers a tool. Parameters is the JSON Schema of its arguments, or ""
// for a tool that takes none; the host checks arguments against it before the
// handler sees them. A failing handler is reported to the model, not to the
// host's caller.
//
// Registering two tools of one name panics, as do the other registrations.
func Tool(name, description, parameters string, handler func(c *Call) error) *ToolSpec {
	return registered.Tool(name, description, parameters, handler)
}

// Tool is the method form of the function of the same name.
func (p *Plugin) Tool(name, description, parameters string, handler func(c *Call) error) *ToolSpec {
	refuseTwice("tool", name, p.tool(name) != nil)
	t := &ToolSpec{Name: name, Description: description, Parameters: Raw(parameters), handler: handler}
	p.tools = append(p.tools, t)
	p.kinds[kindTool] = kind{describeTools, runTool}
	return t
}

// OfferResource registers a resource: a text or file that clients of the host read.
func OfferResource(r Resource) { registered.OfferResource(r) }

// OfferResource is the method form of the function of the same name.
func (p *Plugin) OfferResource(r Resource) {
	p.resources = append(p.resources, r)
	p.kinds[kindResource].describe = describeResources
}

// OfferPrompt registers a prompt: a text that people choose in a client of the host.
func OfferPrompt(prompt Prompt) { registered.OfferPrompt(prompt) }

// OfferPrompt is the method form of the function of the same name.
func (p *Plugin) OfferPrompt(prompt Prompt) {
	p.prompts = append(p.prompts, prompt)
	p.kinds[kindPrompt].describe = describePrompts
}

// Processor registers a processor that is given the messages of a conversation.
func Processor(name string, handler func(p *Process) error) *ProcessorSpec {
	return registered.Processor(name, handler)
}

// Processor is the method form of the function of the same name.
func (p *Plugin) Processor(name string, handler func(p *Process) error) *ProcessorSpec {
	refuseTwice("processor", name, p.processor(name) != nil)
	spec := &ProcessorSpec{Name: name, handler: handler}
	p.processors = append(p.processors, spec)
	p.kinds[kindProcess] = kind{describeProcessors, runProcess}
	return spec
}

// OutlineProcessor registers a processor that is given the outline of a
// conversation: everything but its content.
func OutlineProcessor(name string, handler func(p *Process) error) *ProcessorSpec {
	return registered.OutlineProcessor(name, handler)
}

// OutlineProcessor is the method form of the function of the same name.
func (p *Plugin) OutlineProcessor(name string, handler func(p *Process) error) *ProcessorSpec {
	spec := p.Processor(name, handler)
	spec.outline = true
	p.calls.reserve(reservedMessages)
	return spec
}

// Router registers a router: it picks the agents of a network that run next.
func Router(name string, handler func(r *Route) error) *RouterSpec {
	return registered.Router(name, handler)
}

// Router is the method form of the function of the same name.
func (p *Plugin) Router(name string, handler func(r *Route) error) *RouterSpec {
	refuseTwice("router", name, p.router(name) != nil)
	spec := &RouterSpec{Name: name, handler: handler}
	p.routers = append(p.routers, spec)
	p.kinds[kindRoute] = kind{describeRouters, runRoute}
	return spec
}

// Provider registers a context provider: it adds instructions, messages and
// tools before an agent runs.
func Provider(name string, handler func(p *Provide) error) *ProviderSpec {
	return registered.Provider(name, handler)
}

// Provider is the method form of the function of the same name.
func (p *Plugin) Provider(name string, handler func(p *Provide) error) *ProviderSpec {
	spec := p.providerSpec(name)
	refuseTwice("provider", name, spec.provide != nil)
	spec.provide = handler
	p.kinds[kindProvide].run = runProvide
	return spec
}

// Observer registers what the context provider of that name does after the agent
// has run, or failed.
func Observer(name string, handler func(o *Observe) error) *ProviderSpec {
	return registered.Observer(name, handler)
}

// Observer is the method form of the function of the same name.
func (p *Plugin) Observer(name string, handler func(o *Observe) error) *ProviderSpec {
	spec := p.providerSpec(name)
	refuseTwice("observer", name, spec.observe != nil)
	spec.observe = handler
	p.kinds[kindObserve].run = runObserve
	return spec
}

func refuseTwice(kind, name string, taken bool) {
	if taken {
		panic("pdk: " + kind + " " + name + " is registered twice; give one of them another name")
	}
}

func (p *Plugin) tool(name string) *ToolSpec {
	for _, spec := range p.tools {
		if spec.Name == name {
			return spec
		}
	}
	return nil
}

func (p *Plugin) processor(name string) *ProcessorSpec {
	for _, spec := range p.processors {
		if spec.Name == name {
			return spec
		}
	}
	return nil
}

func (p *Plugin) router(name string) *RouterSpec {
	for _, spec := range p.routers {
		if spec.Name == name {
			return spec
		}
	}
	return nil
}

func (p *Plugin) provider(name string) *ProviderSpec {
	for _, spec := range p.providers {
		if spec.Name == name {
			return spec
		}
	}
	return nil
}

// providerSpec finds or makes a provider: its two halves register apart.
func (p *Plugin) providerSpec(name string) *ProviderSpec {
	if spec := p.provider(name); spec != nil {
		return spec
	}
	spec := &ProviderSpec{Name: name}
	p.providers = append(p.providers, spec)
	p.kinds[kindProvide].describe = describeProviders
	p.kinds[kindObserve].run = runObserve
	return spec
}

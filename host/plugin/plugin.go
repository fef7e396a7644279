package plugin

import "github.com/agenthost/agenthost/host/plugin/internal/abi"

// Plugin is a loaded plugin. It is safe for concurrent use; calls beyond the
// limit Instances wait.
type Plugin struct {
	runtime   *Runtime
	id        string
	owner     string // the tenant that it is of; "" is the host
	limits    Limits
	manifest  *Manifest
	schemas   *abi.Schemas // of the manifest
	number    int64        // in the order of loading
	module    loadedModule
	answers   abi.Answers
	bindings  bindings
	instances instances
	noOptions CallOptions // of raw calls without
}

// newPlugin returns a plugin without a module.
func newPlugin(rt *Runtime, id string, opts *LoadOptions) *Plugin {
	p := &Plugin{runtime: rt, id: id, limits: rt.limitsFor(opts)}
	if opts != nil {
		p.owner, p.module.isolation = opts.Owner, opts.Isolation
	}
	p.answers.Plugin, p.bindings.plugin = id, p
	p.instances.open(p)
	return p
}

// Owner returns the tenant that the plugin is of; "" is the host.
func (p *Plugin) Owner() string { return p.owner }

// ID returns the id under which the plugin was loaded.
func (p *Plugin) ID() string { return p.id }

// Digest returns "sha256:" and the hex digest of the loaded module's bytes.
func (p *Plugin) Digest() string { return p.module.digest }

// Manifest returns the plugin's manifest. It must not be changed.
func (p *Plugin) Manifest() *Manifest { return p.manifest }

// Close waits for the calls in progress and frees the plugin's resources.
// Later calls fail. It may be called twice.
func (p *Plugin) Close() {
	if !p.instances.Close() {
		return
	}
	p.bindings.close()
	p.runtime.mu.Lock()
	delete(p.runtime.plugins, p)
	p.runtime.mu.Unlock()
	if p.module.engine != nil {
		_ = p.module.engine.Close() // nothing runs in it; there is nothing to do about an error
	}
	if p.module.code != nil {
		p.runtime.compiler.release(p.module.code)
	}
}

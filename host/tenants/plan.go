package tenants

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/usage"
)

// The bounds of a plan.
const (
	MaxListed     = 256       // targets, models or plugins
	MaxNameBytes  = 200       // of each of them
	MaxPlanBytes  = 256 << 10 // as JSON
	maxUsageLimit = 64
)

// Plan says what a tenant may use. The zero value allows every target, model and plugin
// that is not reserved for other tenants, under the default limits of each part.
//
// As JSON its members have the names in the tags; limits have the names of their fields in
// snake case, durations are texts such as "90s", and sizes are numbers of bytes.
type Plan struct {
	// Targets are the networks and agents that the tenant may run; nil is each, an empty
	// list none.
	Targets []string `json:"targets,omitzero"`

	// Models are the names of the models that its runs may ask; nil is each, an empty
	// list none.
	Models []string `json:"models,omitzero"`

	// Plugins are the plugins that the tenant has, by id, each with its grants: the one
	// place where they are granted. nil is each plugin that is not reserved for other
	// tenants, with the grants of its load; an empty map is none.
	Plugins map[string]plugin.Permissions `json:"plugins,omitzero"`

	// Usage bounds what the tenant uses in windows of time: its budget and its rate.
	Usage usage.Plan `json:"-"`

	// Sandbox are the limits of calls of plugins, where they are tighter than those of a
	// plugin. Limits of the module and its memory are not a tenant's.
	Sandbox plugin.Limits `json:"-"`

	// Run are the limits of a run, where they are tighter than those of the host.
	Run host.Limits `json:"-"`

	// Retention bounds the threads that are kept; the zero value keeps all.
	Retention Retention `json:"retention,omitzero"`
}

// Retention bounds the threads that a tenant keeps. A zero field is no bound.
type Retention struct {
	MaxAge     Duration `json:"max_age,omitzero"` // since the last turn
	MaxThreads int      `json:"max_threads,omitempty"`
	MaxBytes   int64    `json:"max_bytes,omitempty"`
}

// Options return what package threads removes now; ok is false if all threads stay.
func (r Retention) Options(now time.Time) (opts threads.PruneOptions, ok bool) {
	opts.Keep, opts.MaxBytes = r.MaxThreads, r.MaxBytes
	if r.MaxAge > 0 {
		opts.Before = now.Add(-time.Duration(r.MaxAge))
	}
	return opts, r != Retention{}
}

// Tenant returns the plan as a runtime of plugins takes it.
func (p *Plan) tenant() *plugin.Tenant {
	t := &plugin.Tenant{Limits: p.Sandbox}
	if p.Plugins != nil {
		t.Plugins = append([]string{}, slices.Sorted(maps.Keys(p.Plugins))...)
		t.Grants = maps.Clone(p.Plugins)
	}
	return t
}

// clone returns a copy that shares nothing with p.
func (p *Plan) clone() Plan {
	out := *p
	out.Targets, out.Models, out.Plugins = slices.Clone(p.Targets), slices.Clone(p.Models), maps.Clone(p.Plugins)
	for id, granted := range out.Plugins {
		out.Plugins[id] = granted.Clone()
	}
	out.Usage.Limits = slices.Clone(p.Usage.Limits)
	return out
}

// Check returns an error of code invalid_argument, which names the field, for a plan that
// makes no sense or is too large.
func (p *Plan) Check() error {
	for _, list := range []struct {
		name  string
		names []string
	}{{"target", p.Targets}, {"model", p.Models}, {"plugin", slices.Sorted(maps.Keys(p.Plugins))}} {
		if len(list.names) > MaxListed {
			return invalid("the plan names %d %ss, more than %d", len(list.names), list.name, MaxListed)
		}
		for i, n := range list.names {
			if err := chat.ValidateID(list.name, n, MaxNameBytes); err != nil {
				return err
			}
			if slices.Contains(list.names[:i], n) {
				return invalid("the plan names %s %q twice", list.name, n)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(p.Plugins)) {
		granted := p.Plugins[id]
		if err := granted.Check(); err != nil {
			return invalid("grants of plugin %q: %v", id, err)
		}
	}
	if p.Retention.MaxAge < 0 || p.Retention.MaxThreads < 0 || p.Retention.MaxBytes < 0 {
		return invalid("the retention of the plan has a negative number").WithHint("leave it out for no bound")
	}
	if len(p.Usage.Limits) > maxUsageLimit {
		return invalid("the plan has %d limits of usage, more than %d", len(p.Usage.Limits), maxUsageLimit)
	}
	if err := p.Usage.Check(); err != nil {
		return err
	}
	if err := p.checkLimits(); err != nil {
		return err
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return invalid("the plan: %v", err)
	}
	if len(raw) > MaxPlanBytes {
		return invalid("the plan has %d bytes, more than %d", len(raw), MaxPlanBytes)
	}
	return nil
}

func (p *Plan) checkLimits() error {
	for _, l := range []struct {
		name   string
		limits any
	}{{"run", p.Run}, {"sandbox", p.Sandbox}} {
		if name := negative(l.limits); name != "" {
			return invalid("limit %s of the plan's %s is negative", name, l.name).WithHint("leave it out for the default")
		}
	}
	for _, name := range moduleLimits {
		if isSet(p.Sandbox, name) {
			return invalid("the limit sandbox.%s cannot be a tenant's", snakeCase(name)).
				WithHint("it is of the module that all tenants share; set it where the plugin is loaded")
		}
	}
	return nil
}

// moduleLimits are the limits of the sandbox that a runtime takes from the plugin alone.
var moduleLimits = []string{"ModuleBytes", "TableEntries", "CompileWork", "CompileTimeout", "CompileMemory", "MemoryBytes", "CallDepth", "StartTimeout",
	"StartInstructions", "MaxIdle", "IdleTime", "BlockBytes"}

func invalid(format string, args ...any) *fault.Error {
	return fault.Errorf(fault.InvalidArgument, format, args...)
}

// allows reports whether a list has a name; nil has each.
func allows(list []string, name string) bool { return list == nil || slices.Contains(list, name) }

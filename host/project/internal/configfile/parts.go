package configfile

import (
	"maps"
	"slices"
)

// PartKind is the kind of part that a plugin is used for.
type PartKind int

const (
	ToolPart PartKind = iota
	ProcessorPart
	ProviderPart
	routerPart
)

// PartUse is a place of the configuration that uses a plugin, or a reducer, memory or
// router that is named in the same way.
type PartUse struct {
	Kind   PartKind
	Use    string // PLUGIN or PLUGIN/PART
	At     KeyPath
	Config any
}

// PartsUsed returns every use that the configuration makes of plugins.
func (c *Config) PartsUsed() (list []PartUse) {
	all := func(kind PartKind, at KeyPath, uses []Use) {
		for i, u := range uses {
			list = append(list, PartUse{Kind: kind, Use: u.Use, At: at.To(i, "use"), Config: u.Config})
		}
	}
	all(ProcessorPart, Keys("history", "processors"), c.History.Processors)
	for _, name := range slices.Sorted(maps.Keys(c.Networks)) {
		n, at := c.Networks[name], Keys("networks", name)
		list = append(list, PartUse{Kind: routerPart, Use: n.Router, At: at.To("router"), Config: n.RouterConfig})
		all(ProcessorPart, at.To("processors"), n.Processors)
		all(ProviderPart, at.To("providers"), n.Providers)
		if n.Routing != nil {
			list = append(list, PartUse{Kind: routerPart, Use: n.Routing.Reader, At: at.To("routing", "reader"), Config: n.Routing.ReaderConfig})
			all(ProcessorPart, at.To("routing", "processors"), n.Routing.Processors)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		agent, at := c.Agents[name], Keys("agents", name)
		all(ProcessorPart, at.To("processors"), agent.Processors)
		all(ProviderPart, at.To("providers"), agent.Providers)
		for i, use := range agent.Tools {
			if use == CodeUse { // no plugin of the configuration
				continue
			}
			list = append(list, PartUse{Kind: ToolPart, Use: use, At: at.To("tools", i), Config: nil})
		}
	}
	return list
}

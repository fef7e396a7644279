package configfile

import (
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host/builtin"
)

// Function is a function of an Extism plugin that is a tool.
type Function struct {
	Function    string `yaml:"function"`
	Tool        string `yaml:"tool"`
	Description string `yaml:"description"`
	Parameters  any    `yaml:"parameters"` // a JSON Schema; absent: one text
}

// PluginIDs returns the plugins that a configuration may use.
func (c *Config) PluginIDs() []string {
	ids := append(slices.Sorted(maps.Keys(c.Plugins)), BuiltinNames()...)
	slices.Sort(ids)
	return slices.Compact(ids)
}

// BuiltinPrefix begins the name of a plugin that every binary has, wherever a
// file can be named.
const BuiltinPrefix = "builtin:"

// FilePath returns a path of the configuration, which is relative to its file.
func (c *Config) FilePath(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return path.Join(c.dir, p)
}

// BuiltinsUsed returns the built-in plugins that agents and networks use and that
// have no entry under plugins, where they can be given limits.
func (c *Config) BuiltinsUsed() []string {
	have, used := BuiltinNames(), map[string]bool{}
	for _, u := range c.PartsUsed() {
		id, _ := SplitUse(u.Use)
		if _, configured := c.Plugins[id]; !configured && slices.Contains(have, id) {
			used[id] = true
		}
	}
	return slices.Sorted(maps.Keys(used))
}

// SplitUse splits PLUGIN/PART.
func SplitUse(use string) (id, part string) {
	id, part, _ = strings.Cut(use, "/")
	return id, part
}

// UploadedPrefix begins the names of uploaded plugins where an agent names its tools:
// uploaded:PLUGIN, or uploaded:* for all that the tenant of a run has.
const UploadedPrefix = "uploaded:"

// ReducePrefix begins the names of the reducers of package reduce where a
// configuration names processors: reduce:counting.
const ReducePrefix = "reduce:"

// BuiltinNames returns the names of the built-in plugins.
func BuiltinNames() []string {
	names := builtin.Names()
	for i := range names {
		names[i] = BuiltinPrefix + names[i]
	}
	slices.Sort(names)
	return names
}

// ReducerNames returns the names of the reducers in a configuration.
func ReducerNames() []string {
	return []string{"reduce:budget", "reduce:collapse_tools", "reduce:counting", "reduce:drop_tools", "reduce:progressive",
		"reduce:sliding_window", "reduce:summarizing", "reduce:truncation"}
}

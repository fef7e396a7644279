package project

import (
	"bytes"
	"cmp"
	"io/fs"
	"maps"
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
	"github.com/agenthost/agenthost/host/threads"
)

// The names that a project's files and plugins have.
const (
	FileName        = configfile.FileName        // the configuration in a project's directory
	SchemaFileName  = configfile.SchemaName      // the schema beside it, which editors complete it with
	BuiltinPrefix   = configfile.BuiltinPrefix   // begins the path of a plugin that every binary has
	CodeTool        = configfile.CodeUse         // the tool that runs code which models write, where agents name their tools
	Mem0KeyVariable = configfile.Mem0KeyVariable // holds Mem0's key, unless a configuration names another variable
)

// Builtins returns the paths of the plugins that every binary has.
func Builtins() []string { return configfile.BuiltinNames() }

// File is a configuration that was read and checked, but not wired.
type File struct{ c *configfile.Config }

// Mistake is the cause of an error about a place in a configuration: errors of [ReadFile]
// and [Open] that name one wrap it.
type Mistake = configfile.Mistake

// ReadFile reads a configuration: a file, or a directory that has an agenthost.yaml. A
// nil file system is the operating system's. Its errors name the line, the column and
// the probable intention; codes are not_found, failed_precondition and
// invalid_argument.
func ReadFile(fsys fs.FS, name string) (*File, error) {
	c, err := configfile.Read(fsys, name)
	if err != nil {
		return nil, err
	}
	return &File{c}, nil
}

// Name returns the name of the file.
func (f *File) Name() string { return f.c.Name }

// Embedded reports whether the file is in a file system other than the operating
// system's, such as one in the binary.
func (f *File) Embedded() bool { return f.c.Fsys != nil }

// Targets returns the names of the networks and agents that can be run: networks first,
// each sorted by name.
func (f *File) Targets() []string { return f.c.TargetNames() }

// Default returns the name of the network or agent that runs when none is named.
func (f *File) Default() string { return f.c.DefaultTarget() }

// Network returns the agents that a network's router can choose; ok is false if there
// is no network of that name.
func (f *File) Network(name string) (agents []string, ok bool) {
	n, ok := f.c.Networks[name]
	return n.Agents, ok
}

// HasAgent reports whether there is an agent of that name.
func (f *File) HasAgent(name string) bool {
	_, ok := f.c.Agents[name]
	return ok
}

// Models returns the names of the configured models.
func (f *File) Models() []string { return slices.Sorted(maps.Keys(f.c.Models)) }

// Tenants returns the names of the configured tenants.
func (f *File) Tenants() []string { return slices.Sorted(maps.Keys(f.c.Tenants)) }

// Tenant returns the tenant of runs that name none.
func (f *File) Tenant() string { return cmp.Or(f.c.Tenant, threads.DefaultTenant) }

// Plugins returns the ids that the file may use: those of its entries, and the built-in
// plugins.
func (f *File) Plugins() []string { return f.c.PluginIDs() }

// PluginPath returns the path of a plugin's entry.
func (f *File) PluginPath(id string) string { return f.c.Plugins[id].Path }

// UnknownTarget returns the error of a target that the file does not have, with a
// suggestion.
func (f *File) UnknownTarget(name string) error { return f.c.UnknownTarget(name) }

// GrantEdit is the text of a configuration before and after an added grant.
type GrantEdit struct{ Before, After []byte }

// Changed reports whether the grants change the text.
func (e *GrantEdit) Changed() bool { return !bytes.Equal(e.Before, e.After) }

// Grant returns the file's text with more grants to a plugin, for one tenant or, with
// "", for all without grants of their own. The first grant of a tenant includes the
// plugin's own grants. Comments stay. No file is written.
func (f *File) Grant(id, tenant string, words []string) (*GrantEdit, error) {
	at := configfile.Keys("plugins", id, "grant")
	if tenant != "" {
		at = configfile.Keys("tenants", tenant, "grants", id)
		if _, own := f.c.Tenants[tenant].Grants[id]; !own {
			general, err := f.c.Granted(id)
			if err != nil {
				return nil, err
			}
			words = append(general.Words(), words...)
		}
	}
	text, err := f.c.WithGrants(at, words)
	if err != nil {
		return nil, err
	}
	if _, err := configfile.Parse(f.c.Fsys, f.c.Name, text); err != nil {
		return nil, host.Errorf(host.Internal, "the edited configuration cannot be read, so it was not written: %w", err).
			WithHint("write the grant into it by hand")
	}
	return &GrantEdit{f.c.Text, text}, nil
}

// Schema returns the JSON Schema of a configuration, for editors.
func Schema() []byte { return configfile.Schema() }

package abi

import (
	"context"
	"encoding/json"
	"runtime"
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/guesttext"
	"github.com/agenthost/agenthost/host/plugin/internal/refusal"
)

// Schemas are those of a manifest, compiled when the plugin is loaded and kept with
// the version: no call and no job compiles one again. They are read by many
// goroutines at once.
type Schemas struct {
	manifest *Manifest
	tools    map[string]ToolSchemas // by name
	configs  map[partName]*host.Schema
}

// ToolSchemas are those of one tool.
type ToolSchemas struct {
	Parameters *host.Schema // nil: the manifest gives none
	Result     *host.Schema // nil is anything
}

type partName struct{ kind, name string }

// CompileSchemas compiles the schemas of a manifest and lists why some can not be.
// It ends early with its context.
func CompileSchemas(ctx context.Context, m *Manifest) (*Schemas, []error) {
	c := &schemaCompiler{ctx: ctx}
	s := &Schemas{manifest: m, tools: make(map[string]ToolSchemas, len(m.Tools)), configs: map[partName]*host.Schema{}}
	for i := range m.Tools {
		s.tools[m.Tools[i].Name] = c.tool(&m.Tools[i])
	}
	for _, v := range m.Processors {
		s.configs[partName{"processor", v.Name}] = c.compile("config of processor", v.Name, v.Config)
	}
	for _, v := range m.Routers {
		s.configs[partName{"router", v.Name}] = c.compile("config of router", v.Name, v.Config)
	}
	for _, v := range m.Providers {
		s.configs[partName{"provider", v.Name}] = c.compile("config of provider", v.Name, v.Config)
	}
	return s, c.problems
}

// schemaCompiler compiles one schema after the other, and lets other goroutines run
// in between.
type schemaCompiler struct {
	ctx      context.Context // the lifetime of the compilation
	problems []error
}

func (c *schemaCompiler) tool(info *ToolInfo) ToolSchemas {
	return ToolSchemas{
		Parameters: c.compile("parameters of tool", info.Name, info.Spec().Parameters),
		Result:     c.compile("result of tool", info.Name, info.Result),
	}
}

func (c *schemaCompiler) compile(what, name string, raw json.RawMessage) *host.Schema {
	if len(raw) == 0 || c.ctx.Err() != nil {
		return nil
	}
	s, err := host.CompileSchemaContext(c.ctx, raw)
	if err != nil {
		c.problems = append(c.problems, refusal.Invalid("%s %q: %w", what, guesttext.Clean(name), err))
	}
	runtime.Gosched()
	return s
}

// HasSchemas reports whether there is a schema in the manifest.
func (m *Manifest) HasSchemas() bool {
	config := func(p PartInfo) bool { return len(p.Config) > 0 }
	return slices.ContainsFunc(m.Tools, func(t ToolInfo) bool { return len(t.Spec().Parameters)+len(t.Result) > 0 }) ||
		slices.ContainsFunc(m.Processors, func(v ProcessorInfo) bool { return len(v.Config) > 0 }) ||
		slices.ContainsFunc(m.Routers, config) || slices.ContainsFunc(m.Providers, config)
}

// Of returns the schemas of a tool. A tool that the manifest does not have is the
// operator's description of a function, and compiled here; code invalid_argument if its
// schemas are none.
func (s *Schemas) Of(info *ToolInfo) (ToolSchemas, error) {
	if s != nil && s.manifest.Tool(info.Name) == info {
		return s.tools[info.Name], nil
	}
	c := &schemaCompiler{ctx: context.Background()}
	made := c.tool(info)
	return made, refusal.First(c.problems)
}

// Tool returns the schemas of a tool of the manifest; those of no tool allow anything.
func (s *Schemas) Tool(name string) ToolSchemas {
	if s == nil {
		return ToolSchemas{}
	}
	return s.tools[name]
}

// Config returns the schema of the configuration of a part (processor, router or
// provider); nil allows anything.
func (s *Schemas) Config(kind, name string) *host.Schema {
	if s == nil {
		return nil
	}
	return s.configs[partName{kind, name}]
}

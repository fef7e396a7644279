package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host"
)

// schemas are those of a manifest, compiled when the plugin is loaded and kept with
// the version: no call and no job compiles one again. They are read by many
// goroutines at once.
type schemas struct {
	tools   map[string]toolSchemas // by name
	configs map[partName]*host.Schema
}

// toolSchemas are those of one tool.
type toolSchemas struct {
	parameters *host.Schema // nil: the manifest gives none
	result     *host.Schema // nil is anything
}

type partName struct{ kind, name string }

// compileSchemas compiles the schemas of a manifest and lists why some can not be.
// It ends early with its context.
func compileSchemas(ctx context.Context, m *Manifest) (*schemas, []error) {
	c := &schemaCompiler{ctx: ctx}
	s := &schemas{tools: make(map[string]toolSchemas, len(m.Tools)), configs: map[partName]*host.Schema{}}
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
	ctx      context.Context
	problems []error
}

func (c *schemaCompiler) tool(info *ToolInfo) toolSchemas {
	return toolSchemas{
		parameters: c.compile("parameters of tool", info.Name, info.spec().Parameters),
		result:     c.compile("result of tool", info.Name, info.Result),
	}
}

func (c *schemaCompiler) compile(what, name string, raw json.RawMessage) *host.Schema {
	if len(raw) == 0 || c.ctx.Err() != nil {
		return nil
	}
	s, err := host.CompileSchemaContext(c.ctx, raw)
	if err != nil {
		c.problems = append(c.problems, refuse("%s %q: %w", what, clean(name), err))
	}
	runtime.Gosched()
	return s
}

// compileSchemas compiles the schemas of the plugin's manifest, in the time that it
// has to describe itself. It takes a compile slot as a module does, because the
// library that compiles a schema cannot be stopped, and the same tenant pays.
func (p *Plugin) compileSchemas(ctx context.Context, tenants []string) error {
	if !p.manifest.hasSchemas() {
		p.schemas, _ = compileSchemas(ctx, p.manifest)
		return nil
	}
	rt, job := p.runtime, newCompilation(p.id, p.owner, tenants)
	slot, err := rt.compiler.slots.Enter(ctx, job.flow(), math.MaxInt64)
	if err != nil {
		return gone(ctx, "waiting to compile the schemas of its manifest")
	}
	started := time.Now()
	defer func() { rt.compiler.compiled(job, slot, time.Since(started)) }()
	ctx, cancel := context.WithTimeoutCause(ctx, p.limits.StartTimeout, errSchemaTime)
	defer cancel()
	s, problems := compileSchemas(ctx, p.manifest)
	switch {
	case len(problems) > 0:
		return problems[0]
	case errors.Is(context.Cause(ctx), errSchemaTime):
		return host.Errorf(host.DeadlineExceeded, "the schemas of its manifest take longer to compile than the limit StartTimeout of %s", p.limits.StartTimeout).
			WithHint("make them smaller, or several plugins of it")
	case ctx.Err() != nil:
		return gone(ctx, "compiling the schemas of its manifest")
	}
	p.schemas = s
	return nil
}

// hasSchemas reports whether there is a schema in the manifest.
func (m *Manifest) hasSchemas() bool {
	config := func(p PartInfo) bool { return len(p.Config) > 0 }
	return slices.ContainsFunc(m.Tools, func(t ToolInfo) bool { return len(t.spec().Parameters)+len(t.Result) > 0 }) ||
		slices.ContainsFunc(m.Processors, func(v ProcessorInfo) bool { return len(v.Config) > 0 }) ||
		slices.ContainsFunc(m.Routers, config) || slices.ContainsFunc(m.Providers, config)
}

var errSchemaTime = errors.New("compiling schemas took too long")

// of returns the schemas of a tool. One that the manifest does not have is the
// operator's description of a function, and compiled here.
func (s *schemas) of(p *Plugin, info *ToolInfo) (toolSchemas, error) {
	if s != nil && p.manifest.tool(info.Name) == info {
		return s.tools[info.Name], nil
	}
	c := &schemaCompiler{ctx: context.Background()}
	made := c.tool(info)
	if err := first(c.problems); err != nil {
		return made, host.Errorf(host.InvalidArgument, "plugin %q: %w", p.id, err)
	}
	return made, nil
}

// resultOf returns the schema of a tool's content; nil allows any, also of no tool.
func (s *schemas) resultOf(info *ToolInfo) *host.Schema {
	if s == nil || info == nil {
		return nil
	}
	return s.tools[info.Name].result
}

// config returns the schema of a part's configuration; nil allows any.
func (s *schemas) config(kind, name string) *host.Schema {
	if s == nil {
		return nil
	}
	return s.configs[partName{kind, name}]
}

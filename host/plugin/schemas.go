package plugin

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
)

// compileSchemas compiles the schemas of the plugin's manifest, in the time that it
// has to describe itself. It takes a compile slot as a module does, because the
// library that compiles a schema cannot be stopped, and the same tenant pays.
func (p *Plugin) compileSchemas(ctx context.Context, tenants []string) error {
	if !p.manifest.HasSchemas() {
		p.schemas, _ = abi.CompileSchemas(ctx, p.manifest)
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
	s, problems := abi.CompileSchemas(ctx, p.manifest)
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

var errSchemaTime = errors.New("compiling schemas took too long")

// toolSchemas returns the schemas of a tool of a plugin.
func toolSchemas(plugin string, all *abi.Schemas, info *ToolInfo) (abi.ToolSchemas, error) {
	made, err := all.Of(info)
	if err != nil {
		return made, host.Errorf(host.InvalidArgument, "plugin %q: %w", plugin, err)
	}
	return made, nil
}

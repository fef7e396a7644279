package open

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/project"
)

// Plugins reads the modules of plugins, and opens sandboxes to run them in.
type Plugins struct {
	term     *ui.Terminal
	getenv   func(string) string
	compiler func(context.Context, *plugin.CompileJob) error // nil compiles in this process
}

// NewPlugins returns an opener whose plugins log to t. compiler compiles their modules;
// nil compiles them in this process.
func NewPlugins(t *ui.Terminal, getenv func(string) string, compiler func(context.Context, *plugin.CompileJob) error) *Plugins {
	return &Plugins{t, getenv, compiler}
}

// Modules reads plugins' modules for commands.
func (p *Plugins) Modules() *project.Modules { return project.NewModules(p.options()) }

func (p *Plugins) options() *project.ModulesOptions {
	return &project.ModulesOptions{Getenv: p.getenv, Log: p.term.GuestLog(), Compiler: p.compiler, Commands: true}
}

// WithRuntime opens a runtime for one command.
func (p *Plugins) WithRuntime(ctx context.Context, fn func(*plugin.Runtime) error) error {
	return p.withSandbox(ctx, p.Modules(), fn)
}

// WithProfiler opens a runtime for one command, whose calls can have profiles.
func (p *Plugins) WithProfiler(ctx context.Context, fn func(*plugin.Runtime) error) error {
	options := p.options()
	options.ProfileCalls = true
	return p.withSandbox(ctx, project.NewModules(options), fn)
}

func (p *Plugins) withSandbox(ctx context.Context, modules *project.Modules, fn func(*plugin.Runtime) error) (err error) {
	rt, done, err := modules.NewSandbox(ctx, p.term.Logger())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	return fn(rt)
}

// PluginID is the id under which a plugin is loaded for looking at it.
func PluginID(file string) string {
	name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(strings.TrimPrefix(file, project.BuiltinPrefix)), ".wasm"), project.ManifestSuffix)
	if name == "" || name == "." || name == ".." || name == string(filepath.Separator) {
		return "plugin"
	}
	return name
}

// OldestGo is the first toolchain that can build a module with exports.
const OldestGo = "go1.24"

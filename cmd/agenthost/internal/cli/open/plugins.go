package open

import (
	"context"
	"errors"
	"log/slog"
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
	return p.withSandbox(ctx, p.Modules(), p.term.Logger(), fn)
}

// WithReader opens a runtime for a command that shows plugins and runs none: it does not warn of what
// they are not granted.
func (p *Plugins) WithReader(ctx context.Context, fn func(*plugin.Runtime) error) error {
	return p.withSandbox(ctx, p.Modules(), p.term.QuietLogger(), fn)
}

// WithProfiler opens a second runtime of a command, whose calls can have profiles: the first has warned.
func (p *Plugins) WithProfiler(ctx context.Context, fn func(*plugin.Runtime) error) error {
	options := p.options()
	options.ProfileCalls = true
	return p.withSandbox(ctx, project.NewModules(options), p.term.QuietLogger(), fn)
}

func (p *Plugins) withSandbox(ctx context.Context, modules *project.Modules, logger *slog.Logger, fn func(*plugin.Runtime) error) (err error) {
	rt, done, err := modules.NewSandbox(ctx, logger)
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

package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/project"
)

// pluginOpener reads the modules of plugins, and opens sandboxes to run them in.
type pluginOpener struct {
	term     *ui.Terminal
	getenv   func(string) string
	compiler func(context.Context, *plugin.CompileJob) error // nil compiles in this process
}

func newPluginOpener(t *ui.Terminal, getenv func(string) string, compiler func(context.Context, *plugin.CompileJob) error) *pluginOpener {
	return &pluginOpener{t, getenv, compiler}
}

// modules reads plugins' modules for commands.
func (p *pluginOpener) modules() *project.Modules {
	return project.NewModules(&project.ModulesOptions{Getenv: p.getenv, Log: p.term.GuestLog(), Compiler: p.compiler})
}

// withRuntime opens a runtime for one command.
func (p *pluginOpener) withRuntime(ctx context.Context, fn func(*plugin.Runtime) error) (err error) {
	rt, done, err := p.modules().NewSandbox(ctx, p.term.Logger())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	return fn(rt)
}

// pluginID is the id under which a plugin is loaded for looking at it.
func pluginID(file string) string {
	name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(strings.TrimPrefix(file, project.BuiltinPrefix)), ".wasm"), project.ManifestSuffix)
	if name == "" || name == "." || name == ".." || name == string(filepath.Separator) {
		return "plugin"
	}
	return name
}

// oldestGo is the first toolchain that can build a module with exports.
const oldestGo = "go1.24"

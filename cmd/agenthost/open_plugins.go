package main

import (
	"context"
	"errors"

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

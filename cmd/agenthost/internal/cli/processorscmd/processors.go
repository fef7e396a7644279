package processorscmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/files"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/open"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/host/tokens"
	"github.com/agenthost/agenthost/internal/grantwords"
)

type tryFlags struct {
	configs, grants              []string
	target, agent, tenant, model string
	json, all                    bool
}

// New returns the command.
func New(t *ui.Terminal, plugins *open.Plugins, projects *open.Projects) *cobra.Command {
	c := &cobra.Command{
		Use:   "processors",
		Short: "See what history processors do to a conversation",
		Args:  cli.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(processorsTry(t, plugins, projects))
	return c
}

func processorsTry(t *ui.Terminal, plugins *open.Plugins, projects *open.Projects) *cobra.Command {
	var f tryFlags
	c := &cobra.Command{
		Use:   "try PROJECT|FILE... HISTORY",
		Short: "Show what a chain of processors does to a history",
		Long: `Show what a chain of processors does to a history: what each dropped, changed
and inserted, what it reports, and the tokens and bytes it saves. Nothing is run
or stored.

The chain is a project's, as its default network (or --target, and --agent in
it) has it, or that of the FILEs in their order: .wasm files, directories of Go
sources or builtin:NAME, each with #PROCESSOR if it has several. The first
--config belongs to the first FILE, the second to the second.

HISTORY is a JSON array of messages, a message a line, or what "thread export"
and "thread show --json" write; - is stdin. Its last user message is taken for
the turn's input, which may be edited but not dropped.`,
		Example: `  agenthost processors try builtin:orderdesk thread.json
  agenthost processors try builtin:tokenlimiter --config '{"limit":500}' thread.json`,
		Args: cli.Args(cobra.MinimumNArgs(2)),
		RunE: func(c *cobra.Command, list []string) error {
			try := &processorsTrial{term: t, plugins: plugins, projects: projects, flags: f, command: c.CommandPath()}
			last := len(list) - 1
			return try.run(c.Context(), list[:last], list[last])
		},
		ValidArgsFunction: func(_ *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return project.Builtins(), cobra.ShellCompDirectiveDefault
		},
	}
	flags := c.Flags()
	flags.StringArrayVar(&f.configs, "config", nil, "a FILE's configuration: JSON or @FILE; may be given more than once")
	flags.StringArrayVar(&f.grants, "grant", nil, "permissions of all FILEs, as in plugin call")
	flags.StringVar(&f.target, "target", "", "the project's network or agent (default: the project's)")
	flags.StringVar(&f.agent, "agent", "", "an agent of the network, whose processors follow the network's")
	flags.StringVar(&f.tenant, "tenant", "", cli.TenantUsage("whose history it is"))
	flags.StringVar(&f.model, "model", "", "count tokens as this model does (default: the project's)")
	flags.BoolVar(&f.all, "all", false, "show every message, however many are dropped in a row")
	flags.BoolVar(&f.json, "json", false, cli.JSONUsage)
	open.CompleteFlag(c, "target", (*project.File).Targets)
	open.CompleteFlag(c, "agent", (*project.File).Targets)
	open.CompleteFlag(c, "model", (*project.File).Models)
	open.CompleteFlag(c, "tenant", (*project.File).Tenants)
	return c
}

// processorsTrial is one trial, from its flags to its output.
type processorsTrial struct {
	term     *ui.Terminal
	plugins  *open.Plugins
	projects *open.Projects
	flags    tryFlags
	command  string

	counter *tokens.Counter
	scope   host.Scope
	model   string
	chain   []link
}

// link is a processor of a chain.
type link struct {
	host.Processor
	level    string // network, agent, or "" for a FILE's
	optional bool
}

func (t *processorsTrial) usage(format string, args ...any) error {
	return cli.UsageError(fmt.Errorf(format, args...), t.command)
}

func (t *processorsTrial) run(ctx context.Context, chain []string, history string) (err error) {
	projectName := isProject(chain[0])
	if err := t.checkFlags(projectName, len(chain)); err != nil {
		return err
	}
	if !projectName {
		if err := checkFiles(chain); err != nil {
			return err
		}
	}
	messages, err := readHistory(t.term.In, history)
	if err != nil {
		return err
	}
	if t.counter, err = tokens.New(nil); err != nil {
		return err
	}
	t.scope = host.Scope{Tenant: cli.TenantOr(t.flags.tenant)}
	var done func() error
	if projectName {
		done, err = t.openProject(ctx, chain[0])
	} else {
		done, err = t.openFiles(ctx, chain)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	if t.flags.model != "" {
		t.model = t.flags.model
	}
	result, err := t.process(ctx, messages)
	if result == nil {
		return err
	}
	if t.flags.json {
		return errors.Join(ui.PrintJSON(t.term.Out, result), err)
	}
	t.print(result)
	return err
}

func (t *processorsTrial) checkFlags(projectName bool, files int) error {
	f := t.flags
	switch {
	case projectName && files > 1:
		return t.usage("a project is tried alone; name one project, or plugins")
	case projectName && len(f.configs)+len(f.grants) > 0:
		return t.usage("--config and --grant go with FILEs; a project says its own")
	case !projectName && f.target+f.agent != "":
		return t.usage("--target and --agent go with a project")
	case len(f.configs) > files:
		return t.usage("there are %d --config and %d FILEs; the first belongs to the first", len(f.configs), files)
	}
	return nil
}

// checkFiles reports missing plugins before their configuration is read.
func checkFiles(files []string) error {
	for _, file := range files {
		file, _, _ = strings.Cut(file, "#")
		if strings.HasPrefix(file, project.BuiltinPrefix) {
			if _, err := project.BuiltinModule(file); err != nil {
				return err
			}
			continue
		}
		if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
			return host.Errorf(host.NotFound, "there is no plugin %s", file).
				WithHint("name a .wasm file, the directory of a source in Go or JavaScript, or one of: %s", strings.Join(project.Builtins(), ", "))
		}
	}
	return nil
}

// isProject distinguishes a configuration, or a directory with one, from a plugin.
func isProject(name string) bool {
	if name == open.ExampleProject {
		return true
	}
	if ext := path.Ext(name); ext == ".yaml" || ext == ".yml" {
		return true
	}
	_, err := os.Stat(path.Join(name, project.FileName))
	return err == nil
}

// openProject makes the chain of a project, and loads only the plugins in that chain.
func (t *processorsTrial) openProject(ctx context.Context, projectName string) (func() error, error) {
	c, err := open.ReadProject(projectName)
	if err != nil {
		return nil, err
	}
	target, err := t.chainOf(c)
	if err != nil {
		return nil, err
	}
	opts := t.projects.Options()
	if t.flags.json {
		opts.Progress = nil
	}
	chain, err := project.OpenChain(ctx, c, target, opts)
	if err != nil {
		return nil, err
	}
	t.model, t.scope.Network, t.scope.Agent = chain.Model, target.Network, target.Agent
	for _, p := range chain.Processors {
		t.chain = append(t.chain, link{p.Processor, p.Level, p.Optional})
	}
	return chain.Close, nil
}

// chainOf finds the network or agent whose processors are tried.
func (t *processorsTrial) chainOf(c *project.File) (of project.ChainTarget, err error) {
	target, agent := t.flags.target, t.flags.agent
	if target == "" {
		target = c.Default()
	}
	agents, isNetwork := c.Network(target)
	switch {
	case !isNetwork && !c.HasAgent(target):
		return of, c.UnknownTarget(target)
	case !isNetwork && agent != "" && agent != target:
		return of, t.usage("--agent is %q, and --target is the agent %q", agent, target)
	case !isNetwork:
		return project.ChainTarget{Agent: target}, nil
	case agent != "" && !slices.Contains(agents, agent):
		return of, t.usage("network %q has no agent %q; it has: %s", target, agent, strings.Join(agents, ", "))
	}
	return project.ChainTarget{Network: target, Agent: agent}, nil
}

// openFiles makes the chain of some plugins.
func (t *processorsTrial) openFiles(ctx context.Context, files []string) (func() error, error) {
	granted, err := grantwords.Parse(t.flags.grants)
	if err != nil {
		return nil, t.usage("%w", err)
	}
	rt, done, err := t.plugins.Modules().NewSandbox(ctx, t.term.Logger())
	if err != nil {
		return nil, err
	}
	for i, file := range files {
		p, err := t.openFile(ctx, rt, file, i, granted)
		if err != nil {
			return nil, errors.Join(err, done())
		}
		t.chain = append(t.chain, link{Processor: p})
	}
	return done, nil
}

func (t *processorsTrial) openFile(ctx context.Context, rt *plugin.Runtime, file string, i int, granted plugin.Permissions) (host.Processor, error) {
	file, part, _ := strings.Cut(file, "#")
	config := json.RawMessage(nil)
	if i < len(t.flags.configs) {
		var err error
		if config, err = files.JSONValue(t.term.In, t.command, "--config", t.flags.configs[i]); err != nil {
			return nil, err
		}
	}
	wasm, err := t.plugins.Modules().ReadModule(ctx, rt, file, t.term.Announce)
	if err != nil {
		return nil, err
	}
	p, err := rt.Load(ctx, open.PluginID(file), wasm, &plugin.LoadOptions{Granted: granted})
	if err != nil {
		return nil, err
	}
	processor, err := p.Processor(part, &plugin.PartOptions{Config: config})
	if fault := project.CheckBuiltin(file, config, t.counter); fault != nil {
		return nil, fault
	}
	return processor, err
}

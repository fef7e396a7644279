package plugincmd

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/files"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/open"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/internal/termtext"
)

// New returns the command.
func New(t *ui.Terminal, plugins *open.Plugins, projects *open.Projects, dirs *open.Data) *cobra.Command {
	c := &cobra.Command{
		Use:   "plugin",
		Short: "Build plugins, look into them, and steer those of a running host",
		Long: `Build plugins, look into them, and steer those of a running host. FILE is a .wasm file, an Extism
manifest (.json), the directory of a source in Go or JavaScript, or one that every binary has: ` + strings.Join(project.Builtins(), ", ") + ".",
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	l := &local{t, plugins}
	c.AddCommand(pluginBuild(l), pluginPack(l), pluginInspect(l, projects), pluginCheck(l), pluginTest(l), pluginCall(l), pluginBench(l), pluginTypes(l), pluginGrant(t, projects), pluginErase(t, dirs))
	c.AddCommand(shareCommands(l, projects)...)
	c.AddCommand(remoteCommands(t)...)
	return c
}

// local is what the commands on a plugin's file share.
type local struct {
	term    *ui.Terminal
	plugins *open.Plugins
}

func pluginBuild(l *local) *cobra.Command {
	var out string
	var asJSON bool
	c := &cobra.Command{
		Use:   "build DIR",
		Short: "Build the plugin in a directory",
		Long: `Build the plugin in a directory, in Go or a language of agenthost plugin new, with the
toolchain that is found, and put its manifest into it, so that reading it later runs no
code. In Go the same source and toolchain give the same bytes; other languages are built
by build.sh of their kit, and a script in JavaScript (plugin.js) is packed. Where a
compiler is missing the error says what to install.`,
		Example: "  agenthost plugin build shop/plugins/todo -o todo.wasm",
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			return l.plugins.WithReader(c.Context(), func(rt *plugin.Runtime) error {
				return l.build(c.Context(), rt, list[0], out, asJSON)
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, cli.JSONUsage)
	c.Flags().StringVarP(&out, "output", "o", "", "the file to write (default: DIR/NAME.wasm, named like DIR)")
	return c
}

func (l *local) build(ctx context.Context, rt *plugin.Runtime, dir, out string, asJSON bool) error {
	wasm, err := l.plugins.Modules().Build(ctx, rt, dir, l.term.Announce)
	if err != nil {
		return err
	}
	if out == "" {
		out = project.ModulePath(dir)
	}
	return l.writeModule(out, wasm, asJSON)
}

// moduleFile is the output of build --json and pack --json.
type moduleFile struct {
	File   string `json:"file"`
	Size   int    `json:"size"`
	Digest string `json:"digest"`
}

// writeModule writes a module that a command has made, and says so.
func (l *local) writeModule(out string, wasm []byte, asJSON bool) error {
	if err := files.Write(out, wasm); err != nil {
		return host.Errorf(host.FailedPrecondition, "write %s: %w", out, err).WithHint("name another file with -o")
	}
	in, err := plugin.Inspect(wasm)
	if err != nil {
		return err
	}
	return l.term.Report(asJSON, moduleFile{File: out, Size: in.Size, Digest: in.Digest}, "%s\n  size    %s bytes\n  digest  %s\n", out, termtext.Thousands(int64(in.Size)), in.Digest)
}

func pluginCheck(l *local) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "check FILE",
		Short: "Say everything that the host would refuse a plugin for",
		Long: `Say everything that the host would refuse a plugin for, in a sentence each.
The exit code is 0 if there is nothing, and 3 otherwise.`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			return l.plugins.WithReader(c.Context(), func(rt *plugin.Runtime) error {
				return l.check(c.Context(), rt, list[0], asJSON)
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, cli.JSONUsage)
	return c
}

// checkResult is the output of check --json.
type checkResult struct {
	File     string        `json:"file"`
	OK       bool          `json:"ok"`
	Problems []*host.Error `json:"problems"`
}

func (l *local) check(ctx context.Context, rt *plugin.Runtime, file string, asJSON bool) error {
	from, err := l.plugins.Modules().Read(ctx, rt, file, l.term.Announce)
	if err != nil {
		return err
	}
	opts := &plugin.LoadOptions{}
	from.AddTo(opts)
	problems := rt.Check(ctx, open.PluginID(file), from.Wasm, opts)
	if err := ctx.Err(); err != nil {
		return host.Errorf(host.Canceled, "check %s: %w", file, err)
	}
	result := checkResult{File: file, OK: len(problems) == 0, Problems: []*host.Error{}}
	for _, p := range problems {
		result.Problems = append(result.Problems, fault.AsError(p))
	}
	if asJSON {
		err = ui.PrintJSON(l.term.Out, result)
	} else {
		err = printCheck(l.term.Out, result)
	}
	if err == nil && !result.OK {
		return cli.QuietExit(host.InvalidArgument.ExitCode())
	}
	return err
}

func printCheck(w io.Writer, r checkResult) error {
	if r.OK {
		_, err := fmt.Fprintf(w, "%s: ok\n", r.File)
		return err
	}
	fmt.Fprintf(w, "%s: the host refuses it\n", r.File)
	for _, p := range r.Problems {
		fmt.Fprintf(w, "- %s\n", strings.ReplaceAll(ui.ErrorText(p), "\n", "\n  "))
	}
	return nil
}

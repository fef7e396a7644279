package plugincmd

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/control"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/internal/grantwords"
	"github.com/agenthost/agenthost/internal/termtext"
)

// remote is a command on the plugins of a running host.
type remote struct {
	term *ui.Terminal
	host control.Flags
}

// add adds the flags of every such command.
func (r *remote) add(c *cobra.Command) *cobra.Command {
	r.host.AddTo(c)
	if c.ValidArgsFunction == nil && !strings.HasSuffix(c.Use, "list") {
		c.ValidArgsFunction = r.completeID
	}
	return c
}

// completeID completes the id of a plugin that the host has.
func (r *remote) completeID(c *cobra.Command, list []string, _ string) ([]string, cobra.ShellCompDirective) {
	if _, err := r.host.Path(); len(list) > 0 || err != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var plugins []project.PluginStatus
	if r.host.AskToComplete(c, "plugin.list", nil, &plugins) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ids := make([]string, len(plugins))
	for i, p := range plugins {
		ids[i] = p.ID
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

// remoteCommands are the commands to a running host.
func remoteCommands(t *ui.Terminal) []*cobra.Command {
	return []*cobra.Command{remoteList(t), remoteLoad(t), remoteReload(t), remoteRollback(t), remoteUnload(t), remoteTop(t)}
}

func remoteList(t *ui.Terminal) *cobra.Command {
	r := &remote{term: t}
	return r.add(&cobra.Command{
		Use:     "list",
		Short:   "List the plugins of a running host",
		Example: "  agenthost plugin list --data ./data",
		Args:    cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var plugins []project.PluginStatus
			if err := r.host.Ask(c, "plugin.list", pluginArgs{}, &plugins); err != nil {
				return err
			}
			return cli.PrintAll(t, r.host.JSON, plugins, printPlugins)
		},
	})
}

func printPlugins(t *ui.Terminal, plugins []project.PluginStatus) error {
	table := ui.NewTable(t, "PLUGIN", "STATE", "VERSION", "DIGEST", "CALLS", "FAULTS", "SINCE", "FROM")
	for _, p := range plugins {
		v := p.Serving()
		if v == nil {
			table.Row(termtext.Printable(p.ID), statusWords(&p), "", "", "", "", "", termtext.Printable(p.Path))
			continue
		}
		table.Row(termtext.Printable(p.ID), statusWords(&p), versionWords(v), shortDigest(v.Digest),
			termtext.Thousands(v.Calls), termtext.Thousands(v.Faults), v.Since.Local().Format(time.TimeOnly), termtext.Printable(p.Path))
	}
	if err := table.Print(); err != nil {
		return err
	}
	for _, p := range plugins {
		if p.Error != nil {
			fmt.Fprintf(t.Out, "\n%s: %s\n", termtext.Printable(p.ID), termtext.Printable(ui.ErrorText(p.Error)))
		}
		if v := p.Serving(); v != nil && len(v.Missing) > 0 {
			fmt.Fprintf(t.Out, "\n%s asks for more than it is granted: %s\n", termtext.Printable(p.ID), ui.OneLine(strings.Join(v.Missing, ", ")))
		}
	}
	return nil
}

// statusWords describes the status of a plugin in a few words.
func statusWords(p *project.PluginStatus) string {
	words := string(p.Phase)
	for _, also := range []struct {
		is   bool
		word string
	}{{p.Loading, "loading"}, {p.Held, "one held back"}, {p.Open, "failing"}} {
		if also.is {
			words += ", " + also.word
		}
	}
	return words
}

func remoteLoad(t *ui.Terminal) *cobra.Command {
	r := &remote{term: t}
	var grants []string
	c := r.add(&cobra.Command{
		Use:   "load PLUGIN FILE",
		Short: "Load a plugin into a running host, or put another module in its place",
		Long: `Load a plugin into a running host, under the id PLUGIN, or put another module in
the place of the one that has it. Calls in progress end on the version they
began with. A version that lacks a tool, processor, router or provider that the
configuration uses is refused, and the one before it stays. A version that asks for
something which the plugin is not granted, and which the version before it did not
ask for, is held back: it serves when that is granted (--grant here, or agenthost
plugin grant PROJECT PLUGIN, which a running host takes).`,
		Example: "  agenthost plugin load orders ./orders.wasm --data ./data",
		Args:    cli.Args(cobra.ExactArgs(2)),
		RunE: func(c *cobra.Command, list []string) error {
			if _, err := grantwords.Parse(grants); err != nil {
				return cli.UsageError(err, c.CommandPath())
			}
			from := list[1]
			if !strings.HasPrefix(from, project.BuiltinPrefix) {
				abs, err := filepath.Abs(from) // the host may have another working directory
				if err != nil {
					return host.Errorf(host.FailedPrecondition, "%w", err)
				}
				from = abs
			}
			return r.change(c, "plugin.load", pluginArgs{ID: list[0], Path: from, Grants: grants})
		},
		ValidArgsFunction: func(c *cobra.Command, list []string, part string) ([]string, cobra.ShellCompDirective) {
			if len(list) == 1 {
				return project.Builtins(), cobra.ShellCompDirectiveDefault
			}
			return r.completeID(c, list, part)
		},
	})
	c.Flags().StringArrayVar(&grants, "grant", nil, "permissions: "+grantwords.Syntax+"; may be given more than once (default: as before)")
	return c
}

// change asks for a change of one plugin and shows the version that serves then.
func (r *remote) change(c *cobra.Command, op string, args pluginArgs) error {
	var done project.Change
	if err := r.host.Ask(c, op, args, &done); err != nil {
		return err
	}
	return r.show([]*project.Change{&done})
}

func (r *remote) show(list []*project.Change) error {
	if r.host.JSON {
		return ui.PrintItems(r.term.Out, list)
	}
	for _, c := range list {
		switch {
		case c.Serves == nil:
			fmt.Fprintf(r.term.Out, "%s: unloaded\n", termtext.Printable(c.ID))
		case c.Same:
			fmt.Fprintf(r.term.Out, "%s: version %s serves, as before: the module is the same\n", termtext.Printable(c.ID), versionWords(c.Serves))
		default:
			fmt.Fprintf(r.term.Out, "%s: version %s serves  %s\n", termtext.Printable(c.ID), versionWords(c.Serves), shortDigest(c.Serves.Digest))
		}
	}
	return nil
}

func remoteReload(t *ui.Terminal) *cobra.Command {
	r := &remote{term: t}
	return r.add(&cobra.Command{
		Use:     "reload [PLUGIN]",
		Short:   "Have a running host read a plugin's file again, or all",
		Example: "  agenthost plugin reload orders --data ./data",
		Args:    cli.Args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			var done []*project.Change
			if err := r.host.Ask(c, "plugin.reload", pluginArgs{ID: strings.Join(list, "")}, &done); err != nil {
				return err
			}
			return r.show(done)
		},
	})
}

func remoteRollback(t *ui.Terminal) *cobra.Command {
	r := &remote{term: t}
	return r.add(&cobra.Command{
		Use:   "rollback PLUGIN",
		Short: "Have a running host go back to a plugin's version before",
		Long: `Have a running host go back to a plugin's version before, and to the file that it
came from. What came after is kept no longer: load it again when it is mended.`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			return r.change(c, "plugin.rollback", pluginArgs{ID: list[0]})
		},
	})
}

func remoteUnload(t *ui.Terminal) *cobra.Command {
	r := &remote{term: t}
	return r.add(&cobra.Command{
		Use:   "unload PLUGIN",
		Short: "Take a plugin out of a running host",
		Long: `Take a plugin out of a running host. Calls in progress end; later ones fail until
a version is loaded again.`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			return r.change(c, "plugin.unload", pluginArgs{ID: list[0]})
		},
	})
}

// versionWords names a version for people.
func versionWords(v *plugin.VersionState) string {
	if v == nil {
		return "none"
	}
	words := fmt.Sprint(v.Number)
	if v.Version != "" {
		words += " (" + ui.OneLine(v.Version) + ")"
	}
	return words
}

// shortDigest returns the beginning of a digest, enough to identify a module.
func shortDigest(d string) string {
	const letters = 12
	d = strings.TrimPrefix(d, "sha256:")
	return d[:min(letters, len(d))]
}

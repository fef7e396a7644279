package plugincmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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
	"github.com/agenthost/agenthost/internal/grantwords"
	"github.com/agenthost/agenthost/internal/termtext"
)

type grantFlags struct {
	tenant             string
	all, force, dryRun bool
	json               bool
}

func pluginGrant(t *ui.Terminal, projects *open.Projects) *cobra.Command {
	var f grantFlags
	c := &cobra.Command{
		Use:   "grant PROJECT PLUGIN [GRANT...]",
		Short: "Grant a project's plugin what it asks for",
		Long: `Grant a project's plugin something, by editing the project's configuration. Its
comments stay, and the change is shown. GRANT is one of
` + grantwords.Syntax + `.

With --tenant it is granted for that tenant only. A tenant's grants are in the
place of the plugin's, so the first one for a tenant takes those along.

What the plugin does not ask for would change nothing, and is refused without
--force.`,
		Example: `  agenthost plugin grant . orders state=read
  agenthost plugin grant . weather 'http=GET https://api.example.com' --tenant acme`,
		Args: cli.Args(cobra.MinimumNArgs(2)),
		RunE: func(c *cobra.Command, list []string) error {
			g := &granting{term: t, projects: projects, flags: f, project: list[0], id: list[1], words: list[2:], command: c.CommandPath()}
			return g.run(c.Context())
		},
		ValidArgsFunction: completeProjectPlugin,
	}
	flags := c.Flags()
	flags.StringVar(&f.tenant, "tenant", "", "grant it for this tenant only (default: for all that have no grants of their own)")
	flags.BoolVar(&f.all, "all", false, "grant everything that it asks for")
	flags.BoolVar(&f.force, "force", false, "also what it does not ask for")
	flags.BoolVar(&f.json, "json", false, cli.JSONUsage)
	flags.BoolVar(&f.dryRun, "dry-run", false, "show the change and do not make it")
	open.CompleteFlag(c, "tenant", (*project.File).Tenants)
	return c
}

// completeProjectPlugin completes PROJECT PLUGIN.
func completeProjectPlugin(_ *cobra.Command, list []string, _ string) ([]string, cobra.ShellCompDirective) {
	switch len(list) {
	case 0:
		return nil, cobra.ShellCompDirectiveDefault
	case 1:
		if c, err := open.ReadProject(list[0]); err == nil {
			return c.Plugins(), cobra.ShellCompDirectiveNoFileComp
		}
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// granting is one grant, from its flags to the edited file.
type granting struct {
	term     *ui.Terminal
	projects *open.Projects
	flags    grantFlags
	project  string
	id       string
	words    []string
	command  string

	file   *project.File
	plugin *plugin.Plugin
}

func (g *granting) usage(format string, args ...any) error {
	return cli.UsageError(fmt.Errorf(format, args...), g.command)
}

func (g *granting) run(ctx context.Context) (err error) {
	if len(g.words) == 0 && !g.flags.all {
		return g.usage("name what to grant: %s; or --all", grantwords.Syntax)
	}
	asked := make([]plugin.Permissions, len(g.words))
	for i, word := range g.words {
		if err := grantwords.Add(&asked[i], word); err != nil {
			return g.usage("%s: %w", word, err)
		}
	}
	if g.file, err = open.ReadProject(g.project); err != nil {
		return err
	}
	if err := open.CheckChangeable(g.file); err != nil {
		return err
	}
	a, err := project.OpenPlugin(ctx, g.file, g.id, g.projects.QuietOptions())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	g.plugin = a.Plugin(g.id)
	if g.flags.all {
		g.words = append(g.words, grantwords.Asked(g.plugin.Manifest().Permissions)...)
	}
	for i, p := range asked {
		if err := g.checkAsked(g.words[i], p); err != nil {
			return err
		}
	}
	return g.edit()
}

// checkAsked refuses a grant of permissions that the plugin does not ask for.
func (g *granting) checkAsked(word string, p plugin.Permissions) error {
	if g.flags.force {
		return nil
	}
	if err := g.plugin.Grant(p); err != nil {
		return g.usage("%s: %w", word, err)
	}
	given := grantwords.Words(g.plugin.Granted())
	asks := strings.Join(grantwords.Asked(g.plugin.Manifest().Permissions), ", ")
	isList := len(p.HTTP)+len(p.Secrets)+len(p.Operations) > 0 // the plugin may ask for a part of a list
	if len(given) > 0 && (isList || slices.Equal(given, grantwords.Words(p))) {
		return nil
	}
	if asks == "" {
		asks = "nothing"
	}
	return host.Errorf(host.FailedPrecondition, "plugin %q does not ask for %s: granting it changes nothing", g.id, word).
		WithHint("it asks for %s; --force grants it all the same", ui.OneLine(asks))
}

// grantResult is the output of grant --json.
type grantResult struct {
	File    string   `json:"file"`
	Plugin  string   `json:"plugin"`
	Tenant  string   `json:"tenant,omitempty"`
	Grants  []string `json:"grants"`
	Changed bool     `json:"changed"` // the file did not grant that already
	Written bool     `json:"written"` // not with --dry-run
}

// edit writes the configuration with the grants, if that changes it.
func (g *granting) edit() error {
	text, err := g.file.Grant(g.id, g.flags.tenant, g.words)
	if err != nil {
		return err
	}
	if !text.Changed() && !g.flags.json {
		_, err := fmt.Fprintf(g.term.Out, "%s grants that already\n", g.file.Name())
		return err
	}
	if text.Changed() && !g.flags.dryRun {
		if err := replaceFile(g.file.Name(), text.After); err != nil {
			return host.Errorf(host.FailedPrecondition, "write %s: %w", g.file.Name(), err).WithHint("make it writable for this user")
		}
	}
	if g.flags.json {
		return ui.PrintJSON(g.term.Out, grantResult{File: g.file.Name(), Plugin: g.id, Tenant: g.flags.tenant, Grants: g.words, Changed: text.Changed(), Written: text.Changed() && !g.flags.dryRun})
	}
	return printDiff(g.term.Out, ui.NewPrinter(g.term), g.file.Name(), string(text.Before), string(text.After))
}

// replaceFile replaces the content of a file: it follows a link and keeps the mode.
func replaceFile(name string, text []byte) error {
	name, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	return files.WriteMode(name, text, info.Mode().Perm())
}

// contextLines is how many equal lines a diff shows around a difference.
const contextLines = 2

// printDiff shows how two texts differ: one piece, from the first line that is
// not the same to the last.
func printDiff(w io.Writer, p *ui.Printer, name, before, after string) error {
	a, b := strings.SplitAfter(before, "\n"), strings.SplitAfter(after, "\n")
	first := 0
	for first < len(a) && first < len(b) && a[first] == b[first] {
		first++
	}
	last := 0 // from the end
	for last < len(a)-first && last < len(b)-first && a[len(a)-1-last] == b[len(b)-1-last] {
		last++
	}
	from := max(first-contextLines, 0)
	fmt.Fprintf(w, "%s:%d\n", name, from+1)
	show := func(sign, style string, lines []string) {
		for _, l := range lines {
			if l != "" {
				fmt.Fprintln(w, p.Paint(style, sign+termtext.Printable(strings.TrimRight(l, "\n"))))
			}
		}
	}
	show("  ", ui.Dim, a[from:first])
	show("- ", ui.Red, a[first:len(a)-last])
	show("+ ", ui.Cyan, b[first:len(b)-last])
	show("  ", ui.Dim, a[len(a)-last:min(len(a)-last+contextLines, len(a))])
	return nil
}

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
)

type grantFlags struct {
	tenant             string
	all, force, dryRun bool
}

func pluginGrant(env *environment) *cobra.Command {
	var f grantFlags
	c := &cobra.Command{
		Use:   "grant PROJECT PLUGIN [GRANT...]",
		Short: "Grant a project's plugin what it asks for",
		Long: `Grant a project's plugin something, by editing the project's configuration. Its
comments stay, and the change is shown. GRANT is one of
` + grantWords + `.

With --tenant it is granted for that tenant only. A tenant's grants are in the
place of the plugin's, so the first one for a tenant takes those along.

What the plugin does not ask for would change nothing, and is refused without
--force.`,
		Example: `  agenthost plugin grant . orders state=read
  agenthost plugin grant . weather 'http=GET https://api.example.com' --tenant acme`,
		Args: args(cobra.MinimumNArgs(2)),
		RunE: func(c *cobra.Command, list []string) error {
			g := &granting{env: env, flags: f, project: list[0], id: list[1], words: list[2:], command: c.CommandPath()}
			return g.run(c.Context())
		},
		ValidArgsFunction: completeProjectPlugin,
	}
	flags := c.Flags()
	flags.StringVar(&f.tenant, "tenant", "", "grant it for this tenant only (default: for all that have no grants of their own)")
	flags.BoolVar(&f.all, "all", false, "grant everything that it asks for")
	flags.BoolVar(&f.force, "force", false, "also what it does not ask for")
	flags.BoolVar(&f.dryRun, "dry-run", false, "show the change and do not make it")
	return c
}

// completeProjectPlugin completes PROJECT PLUGIN.
func completeProjectPlugin(_ *cobra.Command, list []string, _ string) ([]string, cobra.ShellCompDirective) {
	switch len(list) {
	case 0:
		return nil, cobra.ShellCompDirectiveDefault
	case 1:
		if c, err := readConfig(nil, list[0]); err == nil {
			return c.pluginIDs(), cobra.ShellCompDirectiveNoFileComp
		}
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// pluginIDs are the plugins that a configuration may speak of.
func (c *config) pluginIDs() []string {
	ids := append(sortedKeys(c.Plugins), builtinNames()...)
	slices.Sort(ids)
	return slices.Compact(ids)
}

// granting is one grant, from its flags to the edited file.
type granting struct {
	env     *environment
	flags   grantFlags
	project string
	id      string
	words   []string
	command string

	config *config
	plugin *plugin.Plugin
}

func (g *granting) usage(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...), g.command}
}

func (g *granting) run(ctx context.Context) (err error) {
	if len(g.words) == 0 && !g.flags.all {
		return g.usage("name what to grant: %s; or --all", grantWords)
	}
	asked := make([]plugin.Permissions, len(g.words))
	for i, word := range g.words {
		if err := addGrant(&asked[i], word); err != nil {
			return g.usage("%s: %w", word, err)
		}
	}
	if g.config, err = readConfig(nil, g.project); err != nil {
		return err
	}
	if err := g.config.changeable(); err != nil {
		return err
	}
	a, err := g.env.openPlugin(ctx, g.config, g.id)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	g.plugin = a.loaded(g.id)
	if g.flags.all {
		g.words = append(g.words, askedWords(g.plugin.Manifest().Permissions)...)
	}
	for i, p := range asked {
		if err := g.checkAsked(g.words[i], p); err != nil {
			return err
		}
	}
	return g.edit()
}

// openPlugin wires no more of a configuration than one plugin.
func (env *environment) openPlugin(ctx context.Context, c *config, id string) (*app, error) {
	if !slices.Contains(c.pluginIDs(), id) {
		e := host.Errorf(host.NotFound, "%s has no plugin %q", c.name, id)
		if near := nearest(id, c.pluginIDs()); near != "" {
			return nil, e.WithHint("did you mean %q?", near)
		}
		return nil, e.WithHint("there are: %s", strings.Join(c.pluginIDs(), ", "))
	}
	if _, configured := c.Plugins[id]; !configured {
		return nil, host.Errorf(host.NotFound, "%s has no entry for %s under plugins", c.name, id).
			WithHint("add one: %s: {path: %s}", id, id)
	}
	a := &app{env: env, config: c, logger: env.quietLogger(), plugins: map[string]parts{}, only: map[string]bool{id: true}}
	if err := a.openPlugins(ctx, nil, false); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// loaded returns a plugin that was loaded for good.
func (a *app) loaded(id string) *plugin.Plugin { return a.plugins[id].(*plugin.Plugin) }

// checkAsked refuses a grant that gives the plugin nothing that it asks for.
func (g *granting) checkAsked(word string, p plugin.Permissions) error {
	if g.flags.force {
		return nil
	}
	if err := g.plugin.Grant(p); err != nil {
		return g.usage("%s: %w", word, err)
	}
	given := permissionWords(g.plugin.Granted())
	asks := strings.Join(askedWords(g.plugin.Manifest().Permissions), ", ")
	isList := len(p.HTTP)+len(p.Secrets) > 0 // of which a part may be asked for
	if len(given) > 0 && (isList || slices.Equal(given, permissionWords(p))) {
		return nil
	}
	if asks == "" {
		asks = "nothing"
	}
	return host.Errorf(host.FailedPrecondition, "plugin %q does not ask for %s: granting it changes nothing", g.id, word).
		WithHint("it asks for %s; --force grants it all the same", oneLine(asks))
}

// edit writes the configuration with the grants, if that changes it.
func (g *granting) edit() error {
	at := keys("plugins", g.id, "grant")
	words := g.words
	if g.flags.tenant != "" {
		at = keys("tenants", g.flags.tenant, "grants", g.id)
		if _, own := g.config.Tenants[g.flags.tenant].Grants[g.id]; !own {
			general, err := g.config.grants(g.id)
			if err != nil {
				return err
			}
			words = append(permissionWords(general), words...)
		}
	}
	text, err := g.config.withGrants(at, words)
	if err != nil {
		return err
	}
	if bytes.Equal(text, g.config.text) {
		_, err := fmt.Fprintf(g.env.stdout, "%s grants that already\n", g.config.name)
		return err
	}
	if _, err := parseConfig(g.config.fsys, g.config.name, text); err != nil {
		return host.Errorf(host.Internal, "the edited configuration cannot be read, so it was not written: %w", err).
			WithHint("write the grant into it by hand")
	}
	if !g.flags.dryRun {
		if err := replaceFile(g.config.name, text); err != nil {
			return host.Errorf(host.FailedPrecondition, "write %s: %w", g.config.name, err).WithHint("make it writable for this user")
		}
	}
	return printDiff(g.env.stdout, newPrinter(g.env), g.config.name, string(g.config.text), string(text))
}

// replaceFile writes a file anew, where its link leads and with its mode.
func replaceFile(name string, text []byte) error {
	name, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	return writeFileMode(name, text, info.Mode().Perm())
}

// contextLines is how many equal lines a diff shows around what differs.
const contextLines = 2

// printDiff shows how two texts differ: one piece, from the first line that is
// not the same to the last.
func printDiff(w io.Writer, p *printer, name, before, after string) error {
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
				fmt.Fprintln(w, p.paint(style, sign+safe(strings.TrimRight(l, "\n"))))
			}
		}
	}
	show("  ", dim, a[from:first])
	show("- ", red, a[first:len(a)-last])
	show("+ ", cyan, b[first:len(b)-last])
	show("  ", dim, a[len(a)-last:min(len(a)-last+contextLines, len(a))])
	return nil
}

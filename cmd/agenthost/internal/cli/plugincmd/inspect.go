package plugincmd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/control"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/open"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/internal/grantwords"
	"github.com/agenthost/agenthost/internal/termtext"
)

func pluginInspect(l *local, projects *open.Projects) *cobra.Command {
	var asJSON bool
	var projectName, tenant string
	running := &remote{term: l.term}
	c := &cobra.Command{
		Use:   "inspect FILE | inspect PLUGIN --project PROJECT | inspect PLUGIN --data DIR",
		Short: "Show what a plugin is, offers, asks for, is granted and has used",
		Long: `Show what a plugin is, what it offers and what it asks for. If its manifest is
not in the file, where "plugin build" puts it, the plugin describes itself; and if
it could read a clock or random bytes while it starts, its start-up code runs. Both
happen in the sandbox, with nothing granted.

With --project it is a plugin of that project, by its id, and what the project
grants it is shown as well, for --tenant. With --data or --socket it is a plugin
of a running host, and what it has used and was denied is shown.

At most 64 kB are printed: long lists and texts are cut, and end with how much was
left out ("left_out" in JSON).`,
		Example: `  agenthost plugin inspect builtin:tokenlimiter
  agenthost plugin inspect desk --project builtin:orderdesk`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			if running.host.Data.Given() || running.host.Socket != "" {
				running.host.JSON = asJSON
				return running.showUsage(c, pluginArgs{ID: list[0], Tenant: cli.TenantOr(tenant)})
			}
			if projectName != "" {
				return l.inspectIn(c.Context(), projects, projectName, list[0], cli.TenantOr(tenant), asJSON)
			}
			if tenant != "" {
				return cli.UsageError(errors.New("--tenant goes with --project or --data: grants are a project's"), c.CommandPath())
			}
			return l.plugins.WithReader(c.Context(), func(rt *plugin.Runtime) error {
				return l.inspect(c.Context(), rt, list[0], asJSON)
			})
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			if c, err := open.ReadProject(projectName); projectName != "" && err == nil {
				return c.Plugins(), cobra.ShellCompDirectiveNoFileComp
			}
			return project.Builtins(), cobra.ShellCompDirectiveDefault
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, cli.JSONUsage)
	c.Flags().StringVar(&projectName, "project", "", "the project whose plugin it is")
	c.Flags().StringVar(&tenant, "tenant", "", cli.TenantUsage("for whom what is granted is shown"))
	c.Flags().Var(&running.host.Data, "data", "the data of the running host whose plugin it is: a directory, or postgres://..., or env:NAME")
	c.Flags().StringVar(&running.host.Socket, "socket", "", control.SocketUsage("the control socket of that host, if it is elsewhere"))
	c.MarkFlagsMutuallyExclusive("project", "data", "socket")
	return c
}

// inspection is the output of inspect --json.
type inspection struct {
	File string `json:"file"`
	*plugin.Inspection
	Manifest       json.RawMessage     `json:"manifest"`                  // as the plugin wrote it
	ManifestSource string              `json:"manifest_source,omitempty"` // section or describe
	ManifestError  *host.Error         `json:"manifest_error,omitempty"`
	Permissions    *plugin.Permissions `json:"permissions,omitempty"` // asked for
	Grants         *grantReport        `json:"grants,omitempty"`      // of a project
	StartUp        *plugin.StartUp     `json:"start_up,omitempty"`    // of a module that could read a clock or random bytes

	manifest *plugin.Manifest
}

// Where a manifest was found.
const (
	fromSection  = "section"
	fromDescribe = "describe"
)

// showUsage shows the grants of a plugin of a running host for a tenant, and its usage.
func (r *remote) showUsage(c *cobra.Command, args pluginArgs) error {
	var u plugin.Usage
	if err := r.host.Ask(c, "plugin.usage", args, &u); err != nil {
		return err
	}
	if r.host.JSON {
		return printCutJSON(r.term.Out, u)
	}
	text, err := ui.FitText(maxInspectBytes, func(cut ui.TextCut, b *strings.Builder) error {
		fmt.Fprintf(b, "%s, for tenant %s\n", ui.CutText(ui.OneLine(args.ID), cut.Bytes), ui.CutText(ui.OneLine(args.Tenant), cut.Bytes))
		list := &rowWriter{cut: cut}
		list.row("asks for", "%s", listWords(grantwords.Asked(u.Asked)))
		list.row("granted", "%s", listWords(grantwords.Words(u.Granted)))
		list.row("used", "%s", listWords(grantwords.Words(u.Used)))
		writeRows(list, "denied", "denied", slices.Sorted(maps.Keys(u.Denied)), func(grant string) string {
			return ui.OneLine(grant) + ", " + termtext.Thousands(u.Denied[grant]) + " times"
		})
		b.WriteString(list.pairs.Text(r.term.Width()))
		return nil
	})
	if err != nil {
		return err
	}
	_, err = io.WriteString(r.term.Out, text)
	return err
}

// printCutJSON prints v in at most maxInspectBytes.
func printCutJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	if err := ui.PrintJSON(&b, v); err != nil {
		return err
	}
	_, err := w.Write(append(ui.CutJSON(b.Bytes(), maxInspectBytes-len("\n")), '\n'))
	return err
}

// grantReport lists the grants of a plugin for a tenant in a project.
type grantReport struct {
	Tenant  string             `json:"tenant"`
	Serves  bool               `json:"serves"` // the tenant has the plugin
	Granted plugin.Permissions `json:"granted"`
	Missing []string           `json:"missing,omitempty"` // asked for and not granted

	project, plugin string
}

// inspectIn inspects a plugin of a project.
func (l *local) inspectIn(ctx context.Context, projects *open.Projects, projectName, id, tenant string, asJSON bool) (err error) {
	c, err := open.ReadProject(projectName)
	if err != nil {
		return err
	}
	a, err := project.OpenPlugin(ctx, c, id, projects.QuietOptions())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	wasm, err := a.PluginModule(ctx, id)
	if err != nil {
		return err
	}
	in := &inspection{File: c.PluginPath(id)}
	if err := in.read(ctx, a.Runtime(), wasm); err != nil {
		return err
	}
	p := a.Plugin(id)
	in.Grants = &grantReport{Tenant: tenant, Serves: p.Serves(tenant), Granted: p.GrantedTo(tenant), project: projectName, plugin: id}
	if in.Grants.Serves {
		in.Grants.Missing = p.Manifest().Permissions.Missing(in.Grants.Granted)
	}
	if asJSON {
		return printCutJSON(l.term.Out, in)
	}
	return in.print(l.term)
}

func (l *local) inspect(ctx context.Context, rt *plugin.Runtime, file string, asJSON bool) error {
	from, err := l.plugins.Modules().Read(ctx, rt, file, l.term.Announce)
	if err != nil {
		return err
	}
	in := &inspection{File: file}
	if err := in.read(ctx, rt, from.Wasm); err != nil {
		return err
	}
	if from.Manifest != nil && in.Permissions == nil {
		in.Permissions = &plugin.Permissions{HTTP: from.Manifest.Options.Granted.HTTP}
	}
	if asJSON {
		return printCutJSON(l.term.Out, in)
	}
	return in.print(l.term)
}

// read inspects a module.
func (in *inspection) read(ctx context.Context, rt *plugin.Runtime, wasm []byte) (err error) {
	if in.Inspection, err = plugin.Inspect(wasm); err != nil {
		return host.Errorf(host.CodeOf(err), "%s: %w", in.File, err)
	}
	p := in.findManifest(ctx, rt, wasm)
	in.tryStartUp(ctx, rt, wasm, p)
	return nil
}

// tryStartUp runs the start-up code, with nothing granted, of a module that imports
// functions to read a clock or random bytes. For a module that cannot be loaded or
// started, "plugin check" explains why.
func (in *inspection) tryStartUp(ctx context.Context, rt *plugin.Runtime, wasm []byte, p *plugin.Plugin) {
	reads := func(e plugin.Extern) bool {
		return e.Module == "wasi_snapshot_preview1" && (e.Name == "clock_time_get" || e.Name == "random_get")
	}
	if in.manifest == nil || !slices.ContainsFunc(in.Imports, reads) {
		return
	}
	if p == nil {
		var err error
		if p, err = rt.Load(ctx, open.PluginID(in.File), wasm, nil); err != nil {
			return
		}
	}
	if did, err := p.StartUp(ctx); err == nil {
		in.StartUp = &did
	}
}

// startUpWords describes the effects of start-up code that matter to calls.
func startUpWords(s plugin.StartUp) string {
	words := termtext.Thousands(s.Instructions) + " instructions"
	if s.Clock {
		words += "; reads a clock, and is told virtual time"
	}
	if s.Random {
		words += "; reads random bytes: with the permission random it runs again for each fresh call"
	}
	if !s.Image {
		words += "; leaves what no image holds, and runs again for each fresh call"
	}
	return words
}

// findManifest takes the manifest from the module's section, or asks the plugin, which
// it then returns.
func (in *inspection) findManifest(ctx context.Context, rt *plugin.Runtime, wasm []byte) (p *plugin.Plugin) {
	err := in.Inspection.ManifestError
	in.manifest, in.ManifestSource = in.Inspection.Manifest, fromSection
	if in.manifest == nil && err == nil {
		in.ManifestSource = ""
		if in.ABI != plugin.ABINative || in.Interpreter == "" && !in.HasExport("agenthost_describe") {
			return nil
		}
		if p, err = rt.Load(ctx, open.PluginID(in.File), wasm, nil); err == nil {
			in.manifest, in.ManifestSource = p.Manifest(), fromDescribe
		}
	}
	if err != nil {
		in.ManifestError = fault.AsError(err)
		return nil
	}
	in.Manifest, in.Permissions = in.manifest.JSON(), &in.manifest.Permissions
	return p
}

// print shows an inspection to a person, in at most maxInspectBytes.
func (in *inspection) print(t *ui.Terminal) error {
	text, err := ui.FitText(maxInspectBytes, func(cut ui.TextCut, b *strings.Builder) error {
		in.writeText(cut, t.Width(), b)
		return nil
	})
	if err != nil {
		return err
	}
	_, err = io.WriteString(t.Out, text)
	return err
}

// rowWriter collects the rows of an inspection, cut.
type rowWriter struct {
	pairs ui.Pairs
	cut   ui.TextCut
}

func (r *rowWriter) row(name, format string, args ...any) {
	r.pairs.Row("  "+name, ui.CutText(fmt.Sprintf(format, args...), r.cut.Bytes))
}

// writeRows writes a row for each element of a list, and the number left out. The
// first row is named name, the others are named next.
func writeRows[T any](r *rowWriter, name, next string, list []T, words func(T) string) {
	shown, left := r.cut.CutRows(len(list))
	for _, e := range list[:shown] {
		r.row(name, "%s", words(e))
		name = next
	}
	if left > 0 {
		r.row(name, "… (%s more left out)", termtext.Thousands(int64(left)))
	}
}

// readBy says which tool a resource or prompt is of; "" for a text.
func readBy(tool string) string {
	if tool == "" {
		return ""
	}
	return ", by the tool " + ui.OneLine(tool)
}

func (in *inspection) writeText(cut ui.TextCut, columns int, b *strings.Builder) {
	fmt.Fprintln(b, ui.CutText(in.File, cut.Bytes))
	r := &rowWriter{cut: cut}
	r.row("digest", "%s", in.Digest)
	r.row("size", "%s bytes", termtext.Thousands(int64(in.Size)))
	r.row("abi", "%s", abiWords(in.ABI))
	if in.Interpreter != "" {
		r.row("interpreter", "%s", ui.OneLine(in.Interpreter))
	}
	in.printManifest(r)
	if in.StartUp != nil {
		r.row("start-up", "%s", startUpWords(*in.StartUp))
	}
	r.row("functions", "%d", in.Functions)
	printExterns(r, "imports", in.Imports)
	printExterns(r, "exports", in.Exports)
	b.WriteString(r.pairs.Text(columns))
}

func (in *inspection) printManifest(r *rowWriter) {
	m := in.manifest
	switch {
	case in.ManifestError != nil:
		r.row("manifest", "%s", termtext.Printable(strings.ReplaceAll(ui.ErrorText(in.ManifestError), "\n", " ")))
		return
	case m == nil:
		r.row("manifest", "none")
		if in.Permissions != nil { // by its Extism manifest
			r.row("asks for", "%s", listWords(grantwords.Asked(*in.Permissions)))
		}
		return
	}
	where := "in the file"
	if in.ManifestSource == fromDescribe {
		where = "from agenthost_describe; plugin pack puts it into the file"
	}
	r.row("manifest", "%s %s (%s)", ui.OneLine(m.Name), ui.OneLine(m.Version), where)
	if m.Description != "" {
		r.row("", "%s", ui.OneLine(m.Description))
	}
	writeRows(r, "tool", "tool", m.Tools, func(t plugin.ToolInfo) string { return ui.OneLine(t.Name) + ": " + ui.OneLine(t.Description) })
	writeRows(r, "processor", "processor", m.Processors, func(p plugin.ProcessorInfo) string {
		return ui.OneLine(p.Name) + ", given " + cmp.Or(ui.OneLine(p.Input), "messages")
	})
	writeRows(r, "router", "router", m.Routers, func(s plugin.PartInfo) string { return ui.OneLine(s.Name) })
	writeRows(r, "provider", "provider", m.Providers, func(p plugin.PartInfo) string { return ui.OneLine(p.Name) })
	writeRows(r, "resource", "resource", m.Resources, func(o plugin.ResourceInfo) string { return ui.OneLine(o.URI) + readBy(o.Tool) })
	writeRows(r, "prompt", "prompt", m.Prompts, func(o plugin.PromptInfo) string { return ui.OneLine(o.Name) + readBy(o.Tool) })
	r.row("asks for", "%s", listWords(grantwords.Asked(m.Permissions)))
	in.Grants.print(r)
	if len(m.Requires) > 0 {
		r.row("requires", "%s", ui.OneLine(strings.Join(m.Requires, ", ")))
	}
}

func listWords(words []string) string {
	if len(words) == 0 {
		return "nothing"
	}
	return ui.OneLine(strings.Join(words, ", "))
}

// print shows the grants, and the command that adds the missing ones. A nil report
// prints nothing.
func (g *grantReport) print(r *rowWriter) {
	switch {
	case g == nil:
		return
	case !g.Serves:
		r.row("granted", "nothing: tenant %s does not have this plugin", ui.OneLine(g.Tenant))
		return
	}
	r.row("granted", "%s, to tenant %s", listWords(grantwords.Words(g.Granted)), ui.OneLine(g.Tenant))
	if len(g.Missing) == 0 {
		return
	}
	r.row("missing", "%s", listWords(g.Missing))
	r.row("", "→ agenthost plugin grant %s %s GRANT..., or --all", termtext.ShellWord(g.project), termtext.ShellWord(g.plugin))
}

func abiWords(abi string) string {
	switch abi {
	case plugin.ABINative, plugin.ABIExtism:
		return abi
	case plugin.ABINone:
		return "none: it is not a plugin"
	}
	return termtext.Printable(abi) + ", which this host does not speak"
}

func printExterns(r *rowWriter, name string, list []plugin.Extern) {
	if len(list) == 0 {
		r.row(name, "none")
		return
	}
	writeRows(r, name, "", list, func(e plugin.Extern) string {
		return e.Kind + "  " + strings.TrimSpace(ui.OneLine(e.Module)+" "+ui.OneLine(e.Name)) + "  " + e.Type
	})
}

// maxInspectBytes bounds the output of "plugin inspect", as text and as JSON. A
// module of 80 kB can name one long type ten thousand times; a terminal, a log and
// a model that reads the output bear 64 kB.
const maxInspectBytes = 64 << 10

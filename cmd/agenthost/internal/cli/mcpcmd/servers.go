package mcpcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/open"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/mcpbridge/mcpclient"
	"github.com/agenthost/agenthost/host/project"
)

// group is what the commands share: the terminal, how projects are opened, and flags.
type group struct {
	term     *ui.Terminal
	projects *open.Projects
	tenant   string
	asJSON   bool
}

// commands returns the commands for the servers that a project uses.
func commands(t *ui.Terminal, projects *open.Projects) []*cobra.Command {
	g := &group{term: t, projects: projects}
	list := []*cobra.Command{g.list(), g.diff(), g.accept()}
	for _, c := range list {
		c.Flags().StringVar(&g.tenant, "tenant", "", cli.TenantUsage("whose servers"))
		c.Flags().BoolVar(&g.asJSON, "json", false, cli.JSONUsage)
	}
	return list
}

// withServers opens the MCP servers of the project that the command line names first, or of
// the current directory.
func (g *group) withServers(list []string, fn func(servers *project.MCPServers, tenant string) error) (err error) {
	where := "."
	if len(list) > 0 {
		where = list[0]
	}
	file, err := open.ReadProject(where)
	if err != nil {
		return err
	}
	servers, err := project.OpenMCPServers(file, g.projects.Options())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, servers.Close()) }()
	return fn(servers, cmp.Or(g.tenant, file.Tenant()))
}

// serverReport is a server's report, or the reason why there is none.
type serverReport struct {
	*mcpclient.Report
	Server string      `json:"server"`
	Error  *host.Error `json:"error,omitempty"`
}

// reports asks servers of a tenant for their tools; all of them without names.
func reports(ctx context.Context, servers *project.MCPServers, tenant string, names []string) []serverReport {
	if len(names) == 0 {
		names = servers.Names(tenant)
	}
	list := []serverReport{}
	for _, name := range names {
		report, err := servers.Inspect(ctx, tenant, name)
		r := serverReport{Report: report, Server: name}
		if err != nil {
			r.Error = &host.Error{Code: host.CodeOf(err), Message: ui.OneLine(err.Error())}
		}
		list = append(list, r)
	}
	return list
}

func (g *group) list() *cobra.Command {
	return &cobra.Command{
		Use:   "list [PROJECT]",
		Short: "List the tools of the MCP servers, and whether agents have them",
		Long: `Ask each MCP server that the tenant has for its tools. A tool is accepted if its
definition (name, description, schema and hints) is that of agenthost.mcp.lock; first if the
lock does not have its server, whose definitions count as the host sees them first; new,
changed or gone if it is held back until it is accepted; refused if no model can be offered
it; left out by allow and deny.`,
		Args: cli.Args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			return g.withServers(list, func(servers *project.MCPServers, tenant string) error {
				all := reports(c.Context(), servers, tenant, nil)
				return cli.PrintAll(g.term, g.asJSON, all, printList)
			})
		},
	}
}

func printList(t *ui.Terminal, all []serverReport) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(t.Out, "The project has no MCP server for the tenant.")
		return err
	}
	table := ui.NewTable(t, "SERVER", "TOOL", "IN AGENTS", "STATE")
	for _, r := range all {
		if r.Error != nil {
			table.Row(r.Server, "", "", r.Error.Message)
			continue
		}
		for _, tool := range r.Tools {
			state := string(tool.State)
			if why := strings.Join(append(tool.Repairs, tool.Reason), "; "); strings.Trim(why, "; ") != "" {
				state += ": " + strings.Trim(why, "; ")
			}
			table.Row(r.Server, ui.OneLine(tool.Name), tool.As, ui.OneLine(state))
		}
	}
	return table.Print()
}

func (g *group) diff() *cobra.Command {
	return &cobra.Command{
		Use:   "diff [PROJECT [SERVER...]]",
		Short: "Show the definitions that are held back, with the accepted ones",
		Long: `Compare the tools of the MCP servers that the tenant has with agenthost.mcp.lock. The exit
code is 3 if a tool waits to be accepted, and as of other commands otherwise.`,
		RunE: func(c *cobra.Command, list []string) error {
			return g.withServers(list, func(servers *project.MCPServers, tenant string) error {
				return g.printDiff(reports(c.Context(), servers, tenant, list[min(1, len(list)):]))
			})
		},
	}
}

func (g *group) printDiff(all []serverReport) error {
	held := 0
	var failed error
	var waiting []serverReport
	for _, r := range all {
		if r.Error != nil {
			failed = errors.Join(failed, r.Error)
			continue
		}
		r.Tools = slices.DeleteFunc(r.Tools, func(tool mcpclient.ToolReport) bool { return !waits(r.Report, &tool) })
		held += len(r.Tools)
		waiting = append(waiting, r)
	}
	if g.asJSON {
		if err := ui.PrintItems(g.term.Out, waiting); err != nil {
			return err
		}
	} else {
		for _, r := range waiting {
			for _, tool := range r.Tools {
				printChange(g.term, r.Server, &tool)
			}
		}
	}
	switch {
	case failed != nil:
		return failed
	case held > 0:
		return host.Errorf(host.FailedPrecondition, "%s not accepted", ui.Plural(held, "definition")+map[bool]string{true: " is", false: " are"}[held == 1]).
			WithHint("read them, then: agenthost mcp accept PROJECT")
	}
	return nil
}

// waits reports whether a tool is one to accept: one that is held back, and one that the lock
// does not have.
func waits(r *mcpclient.Report, tool *mcpclient.ToolReport) bool {
	return tool.Held() || !r.Locked && tool.State == mcpclient.StateFirst
}

// printChange prints both definitions of a tool, line by line.
func printChange(t *ui.Terminal, server string, tool *mcpclient.ToolReport) {
	fmt.Fprintf(t.Out, "%s %s: %s\n", server, ui.OneLine(tool.Name), tool.State)
	before, now := lines(tool.Accepted), lines(tool.Now)
	for i := range max(len(before), len(now)) {
		var was, is string
		if i < len(before) {
			was = before[i]
		}
		if i < len(now) {
			is = now[i]
		}
		if was == is {
			continue
		}
		if was != "" {
			fmt.Fprintln(t.Out, "  - "+was)
		}
		if is != "" {
			fmt.Fprintln(t.Out, "  + "+is)
		}
	}
}

// lines returns the parts of a definition that models read, a line each.
func lines(d *mcpclient.Definition) []string {
	if d == nil {
		return nil
	}
	return []string{
		ui.OneLine("description: " + d.Description), ui.OneLine("schema: " + string(d.Schema)),
		fmt.Sprintf("hints: read-only %t, idempotent %t", d.ReadOnly, d.Idempotent),
	}
}

func (g *group) accept() *cobra.Command {
	return &cobra.Command{
		Use:   "accept [PROJECT [SERVER [TOOL...]]]",
		Short: "Accept the definitions of tools as they are now",
		Long: `Write the definitions that the MCP servers give now into agenthost.mcp.lock, beside the
configuration: those of all servers of the tenant, of one, or of single tools of it. Agents
have a tool in these words and no others from then on. Keep the file with the project.`,
		Example: "  agenthost mcp diff shop\n  agenthost mcp accept shop tickets search",
		RunE: func(c *cobra.Command, list []string) error {
			return g.withServers(list, func(servers *project.MCPServers, tenant string) error {
				names, tools := servers.Names(tenant), []string(nil)
				if len(list) > 1 {
					names, tools = list[1:2], list[2:]
				}
				return g.acceptAll(c.Context(), servers, tenant, names, tools)
			})
		},
	}
}

// accepted is a line of the output of accept --json.
type accepted struct {
	Server  string   `json:"server"`
	Changed []string `json:"changed"`
}

func (g *group) acceptAll(ctx context.Context, servers *project.MCPServers, tenant string, names, tools []string) error {
	out := []accepted{}
	for _, name := range names {
		changed, err := servers.Accept(ctx, tenant, name, tools...)
		if err != nil {
			return host.Errorf(host.CodeOf(err), "MCP server %q: %s", name, ui.OneLine(err.Error()))
		}
		out = append(out, accepted{name, append([]string{}, changed...)})
	}
	if err := servers.WriteLock(); err != nil {
		return err
	}
	if g.asJSON {
		return ui.PrintItems(g.term.Out, out)
	}
	for _, a := range out {
		fmt.Fprintf(g.term.Out, "%s: %s accepted\n", a.Server, ui.Plural(len(a.Changed), "change"))
	}
	return nil
}

package tenantcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/datacmd"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/files"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/open"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/tenants"
	"github.com/agenthost/agenthost/internal/termtext"
)

// group is what the commands of agenthost tenant share.
type group struct {
	term  *ui.Terminal
	dirs  *open.Data
	flags cli.StoredFlags
}

// New returns the command.
func New(t *ui.Terminal, dirs *open.Data) *cobra.Command {
	g := &group{term: t, dirs: dirs}
	c := &cobra.Command{
		Use:   "tenant",
		Short: "Give tenants plans; suspend, export and delete them",
		Long: `Give tenants plans; suspend, export and delete them. The plan of a tenant says which targets, models and
plugins it has, with their grants, its budgets and limits, and how long its threads are
kept. It takes the place of what the configuration says about the tenant; a tenant
without a record here has what the configuration says. A host that runs knows of a
change within a second.

Changes are in the audit log: agenthost audit list.`,
		Example: `  agenthost tenant create acme --plan '{"models":["small"],"retention":{"max_age":"720h"}}' --data ./data
  agenthost tenant suspend acme --reason "the invoice of March is open" --data ./data`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	g.flags.AddTo(c, "where the records are kept")
	for _, sub := range []*cobra.Command{g.create(), g.list(), g.show(), g.change(), g.suspend(), g.activate(), g.export()} {
		g.dirs.AddWaitLock(sub.Flags())
		c.AddCommand(sub)
	}
	c.AddCommand(datacmd.NewDelete(t, dirs, &g.flags), datacmd.NewProve(t, dirs, &g.flags))
	open.CompleteArgs(c, "TENANT", dirs.Tenants(&g.flags.Data))
	return c
}

// withTenants opens the records, in data that must exist.
func (g *group) withTenants(ctx context.Context, fn func(*datadir.Dir, *tenants.Store) error) error {
	return g.dirs.With(ctx, &g.flags.Data, "agenthost tenant", func(dir *datadir.Dir) (err error) {
		store, err := tenants.Open(ctx, dir.Driver, nil)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, store.Close()) }()
		return fn(dir, store)
	})
}

// planFlag adds --plan to a command.
func planFlag(c *cobra.Command, text *string) {
	c.Flags().StringVar(text, "plan", "", "the plan, as JSON, @FILE or - for stdin (tenant show prints one)")
}

// readPlan reads the value of --plan.
func (g *group) readPlan(command, text string) (p tenants.Plan, err error) {
	raw, err := files.JSONValue(g.term.In, command, "--plan", text)
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return p, cli.UsageError(fmt.Errorf("--plan: %w", err), command)
	}
	return p, nil
}

func (g *group) print(t *tenants.Tenant, done string) error {
	return g.term.Report(g.flags.JSON, t, "Tenant %s %s.\n", termtext.Printable(t.ID), done)
}

func (g *group) create() *cobra.Command {
	var name, plan string
	c := &cobra.Command{
		Use:   "create TENANT",
		Short: "Make a tenant; without --plan it has each target, model and plugin",

		ValidArgsFunction: cobra.NoFileCompletions, // its name is another one
		Args:              cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			spec := tenants.Spec{Name: name}
			if plan != "" {
				var err error
				if spec.Plan, err = g.readPlan(c.CommandPath(), plan); err != nil {
					return err
				}
			}
			return g.update(c.Context(), "tenant.create", list[0], "is made", func(s *tenants.Store) (*tenants.Tenant, error) {
				return s.Create(c.Context(), list[0], &spec)
			})
		},
	}
	c.Flags().StringVar(&name, "name", "", "the tenant's name, for people")
	planFlag(c, &plan)
	return c
}

func (g *group) list() *cobra.Command {
	var page cli.Page
	c := &cobra.Command{
		Use:   "list",
		Short: "List the tenants that have records",
		Args:  cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return g.withTenants(c.Context(), func(_ *datadir.Dir, s *tenants.Store) error {
				list, next, err := s.List(c.Context(), page.Cursor, page.Limit)
				if err != nil {
					return err
				}
				return cli.PrintPage(g.term, g.flags.JSON, list, next, printTenants)
			})
		},
	}
	page.AddTo(c)
	return c
}

func printTenants(t *ui.Terminal, list []*tenants.Tenant) error {
	table := ui.NewTable(t, "TENANT", "NAME", "STATUS", "CREATED", "REASON")
	for _, one := range list {
		table.Row(termtext.Printable(one.ID), ui.OneLine(cmp.Or(one.Name, "-")), string(one.Status), one.Created.Local().Format(time.DateTime), ui.OneLine(one.Reason))
	}
	return table.PrintOr("No tenant has a record.\n")
}

func (g *group) show() *cobra.Command {
	return &cobra.Command{
		Use:   "show TENANT",
		Short: "Print a tenant with its plan",
		Args:  cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			return g.withTenants(c.Context(), func(_ *datadir.Dir, s *tenants.Store) error {
				t, err := s.Get(c.Context(), list[0])
				if err != nil {
					return err
				}
				if g.flags.JSON {
					return ui.PrintJSON(g.term.Out, t)
				}
				if err := printTenants(g.term, []*tenants.Tenant{t}); err != nil {
					return err
				}
				fmt.Fprint(g.term.Out, "\nIts plan:\n")
				return ui.PrintJSON(g.term.Out, t.Plan)
			})
		},
	}
}

func (g *group) change() *cobra.Command {
	var name, plan string
	c := &cobra.Command{
		Use:   "change TENANT",
		Short: "Give a tenant another plan, or another name",
		Args:  cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			named := c.Flags().Changed("name")
			if !named && plan == "" {
				return cli.UsageError(errors.New("--plan or --name is required: it says what changes"), c.CommandPath())
			}
			var next tenants.Plan
			if plan != "" {
				var err error
				if next, err = g.readPlan(c.CommandPath(), plan); err != nil {
					return err
				}
			}
			return g.update(c.Context(), "tenant.change", list[0], "is changed", func(s *tenants.Store) (*tenants.Tenant, error) {
				return s.Change(c.Context(), list[0], func(t *tenants.Tenant) error {
					if named {
						t.Name = name
					}
					if plan != "" {
						t.Plan = next
					}
					return nil
				})
			})
		},
	}
	c.Flags().StringVar(&name, "name", "", "the tenant's name, for people")
	planFlag(c, &plan)
	return c
}

func (g *group) suspend() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "suspend TENANT",
		Short: "Refuse a tenant's requests, and cancel its runs",
		Args:  cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			return g.update(c.Context(), "tenant.suspend", list[0], "is suspended", func(s *tenants.Store) (*tenants.Tenant, error) {
				return s.Suspend(c.Context(), list[0], reason)
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for people")
	return c
}

func (g *group) activate() *cobra.Command {
	return &cobra.Command{
		Use:   "activate TENANT",
		Short: "Serve a suspended tenant again",
		Args:  cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			return g.update(c.Context(), "tenant.resume", list[0], "is active", func(s *tenants.Store) (*tenants.Tenant, error) {
				return s.Activate(c.Context(), list[0])
			})
		},
	}
}

// update changes a tenant and prints it. The change is in the audit log before it is made.
func (g *group) update(ctx context.Context, action, id, done string, change func(*tenants.Store) (*tenants.Tenant, error)) error {
	return g.withTenants(ctx, func(dir *datadir.Dir, s *tenants.Store) error {
		if err := host.ValidateTenant(id); err != nil {
			return err
		}
		if err := open.Record(ctx, dir.Driver, action, id, "tenant/"+id); err != nil {
			return err
		}
		t, err := change(s)
		if err != nil {
			return err
		}
		return g.print(t, done)
	})
}

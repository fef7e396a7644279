package usagecmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/control"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/open"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/tenants"
	"github.com/agenthost/agenthost/host/usage"
	"github.com/agenthost/agenthost/internal/termtext"
)

const timeFormat = time.RFC3339

// group is what the commands of agenthost usage share.
type group struct {
	term   *ui.Terminal
	dirs   *open.Data
	flags  cli.StoredFlags
	socket string
}

// New returns the command.
func New(t *ui.Terminal, dirs *open.Data) *cobra.Command {
	g := &group{term: t, dirs: dirs}
	c := &cobra.Command{
		Use:   "usage",
		Short: "Show what a tenant has used: its bill, its records, its limits",
		Long: `Show what a tenant has used: the bill of a day or a month by key, agent and model, the
record of each run, and how much of each limit is used and left. A host that runs is
asked; without one the data is read.`,
		Example: `  agenthost usage bill --tenant acme --period 2026-11 --by-key --data ./data
  agenthost usage limits --tenant acme --data ./data`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	g.dirs.AddFlags(c, &g.flags, "where the usage is kept")
	g.flags.AddTenantTo(c, cli.TenantUsage("whose usage"))
	c.PersistentFlags().StringVar(&g.socket, "socket", "", control.SocketUsage("the control socket of the host that has --data open")+" (default: "+control.SocketName+" in --data)")
	cli.CompleteBy(c, "tenant", dirs.Tenants(&g.flags.Data))
	c.AddCommand(g.bill(), g.records(), g.limits())
	return c
}

// ask asks the host that has the data open, or calls direct with the stored usage.
func (g *group) ask(ctx context.Context, op string, args, result any, direct func(*reports) error) error {
	if err := open.CheckData(&g.flags.Data, "agenthost usage"); err != nil {
		return err
	}
	socket := g.socket
	if socket == "" && g.flags.Data.LocalDir() != "" {
		socket = control.SocketPath(g.flags.Data.LocalDir())
	}
	if socket != "" {
		if err := control.Call(ctx, socket, op, args, result); err == nil || !control.Unreachable(err) {
			return err
		}
	}
	return g.dirs.With(ctx, &g.flags.Data, "agenthost usage", func(dir *datadir.Dir) (err error) {
		ledger, err := usage.New(dir.Driver, nil)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, ledger.Close(context.WithoutCancel(ctx))) }()
		records, err := tenants.Open(ctx, dir.Driver, &tenants.Options{Ledger: ledger, Unregistered: true})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, records.Close()) }()
		return direct(&reports{ledger, records})
	})
}

// keyBill is a bill whose items are sums of keys.
type keyBill struct {
	Tenant string           `json:"tenant"`
	Period string           `json:"period"`
	Items  []usage.LineItem `json:"items"`
	Total  usage.LineItem   `json:"total"`
}

func (g *group) bill() *cobra.Command {
	var period string
	var byKey bool
	c := &cobra.Command{
		Use:   "bill",
		Short: "Show a tenant's bill of a day or a month",
		Args:  cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			args := billArgs{cli.TenantOr(g.flags.Tenant), cmp.Or(period, time.Now().UTC().Format("2006-01"))}
			if _, err := usage.ParsePeriod(args.Period); err != nil {
				return cli.UsageError(fmt.Errorf("--period: %w", err), c.CommandPath())
			}
			bill := &usage.Bill{}
			err := g.ask(c.Context(), billOp, args, bill, func(r *reports) (err error) {
				bill, err = r.bill(c.Context(), args)
				return err
			})
			if err != nil {
				return err
			}
			if byKey {
				bill.Items = bill.ByKey()
			}
			if g.flags.JSON {
				return ui.PrintJSON(g.term.Out, keyBill{Tenant: bill.Tenant, Period: args.Period, Items: bill.Items, Total: bill.Total})
			}
			return printBill(g.term, bill, args.Period)
		},
	}
	c.Flags().StringVar(&period, "period", "", "a day, as 2026-01-31, or a month, as 2026-01, in UTC (default: this month)")
	c.Flags().BoolVar(&byKey, "by-key", false, "one line for each key")
	return c
}

func printBill(t *ui.Terminal, b *usage.Bill, period string) error {
	if len(b.Items) == 0 {
		_, err := fmt.Fprintf(t.Out, "Tenant %s used nothing in %s.\n", termtext.Printable(b.Tenant), period)
		return err
	}
	table := ui.NewTable(t, "KEY", "AGENT", "MODEL", "RUNS", "CALLS", "INPUT", "OUTPUT", "TOOLS", "INSTRUCTIONS", "TIME", "MONEY")
	row := func(name string, i *usage.LineItem) {
		table.Row(name, word(i.Agent), word(i.Model), count(i.Runs), count(i.Calls), count(i.InputTokens), count(i.OutputTokens),
			count(i.ToolCalls), count(i.Instructions), ui.ShortTime(int64(i.Time)), money(i.Money))
	}
	for i := range b.Items {
		row(word(b.Items[i].Key), &b.Items[i])
	}
	row("total", &b.Total)
	return table.Print()
}

func word(text string) string { return cmp.Or(termtext.Printable(text), "-") }

func count(n int64) string { return termtext.Thousands(n) }

// money writes billionths of the currency.
func money(n int64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatFloat(float64(n)/float64(usage.Units(1)), 'f', 6, 64)
}

func (g *group) records() *cobra.Command {
	var args recordsArgs
	var page cli.Page
	c := &cobra.Command{
		Use:   "records",
		Short: "List a tenant's records of usage, one of each run",
		Args:  cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			args.Tenant, args.Limit = cli.TenantOr(g.flags.Tenant), page.Limit
			if args.After, err = page.Number(c); err != nil {
				return err
			}
			list := &recordsPage{}
			err = g.ask(c.Context(), recordsOp, args, list, func(r *reports) (err error) {
				list, err = r.records(c.Context(), args)
				return err
			})
			if err != nil {
				return err
			}
			next := ""
			if list.More && len(list.Records) > 0 {
				next = strconv.FormatUint(list.Records[len(list.Records)-1].Seq, 10)
			}
			return cli.PrintPage(g.term, g.flags.JSON, list.Records, next, g.printRecords)
		},
	}
	c.Flags().StringVar(&args.Key, "key", "", "only records of that key")
	page.AddTo(c)
	return c
}

func (g *group) printRecords(t *ui.Terminal, list []usage.Record) error {
	table := ui.NewTable(t, "SEQ", "ENDED", "RUN", "KEY", "THREAD", "TOKENS", "TOOLS", "TIME", "MONEY")
	for i := range list {
		r := &list[i]
		tokens, cost := int64(0), int64(0)
		for _, call := range r.Calls {
			tokens, cost = tokens+int64(call.Usage.Total()), cost+call.Money
		}
		table.Row(strconv.FormatUint(r.Seq, 10), r.Ended.Local().Format(time.DateTime), word(r.Run), word(r.Key), word(r.Thread),
			count(tokens), count(r.ToolCalls), ui.ShortTime(int64(r.Time)), money(cost))
	}
	return table.PrintOr("Tenant %s has no records of usage.\n", termtext.Printable(cli.TenantOr(g.flags.Tenant)))
}

func (g *group) limits() *cobra.Command {
	return &cobra.Command{
		Use:   "limits",
		Short: "Show how much of each of a tenant's limits is used and left",
		Args:  cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			args := limitsArgs{cli.TenantOr(g.flags.Tenant)}
			asked, out := true, &limits{}
			err := g.ask(c.Context(), limitsOp, args, out, func(r *reports) (err error) {
				asked = false
				out, err = r.limits(c.Context(), args)
				return err
			})
			if err != nil {
				return err
			}
			if !asked && !out.Plan {
				g.term.Note("tenant %s has no plan in the data: these are the default limits. A budget of the configuration is shown while its host runs", termtext.Printable(args.Tenant))
			}
			if g.flags.JSON {
				return ui.PrintJSON(g.term.Out, out)
			}
			return printLimits(g.term, out.Limits)
		},
	}
}

func printLimits(t *ui.Terminal, list []limitUse) error {
	table := ui.NewTable(t, "RESOURCE", "WINDOW", "LIMIT", "USED", "LEFT", "USED %", "ENDS")
	for _, l := range list {
		of := func(n int64) string {
			switch l.Resource {
			case usage.Time.Key():
				return ui.ShortTime(n)
			case usage.Money.Key():
				return money(n)
			}
			return count(n)
		}
		used := strconv.FormatFloat(100*float64(l.Amount-l.Left)/float64(max(l.Amount, 1)), 'f', 1, 64)
		table.Row(l.Resource, l.Window, of(l.Amount), of(l.Spent), of(l.Left), used, cmp.Or(l.Ends, "-"))
	}
	return table.Print()
}

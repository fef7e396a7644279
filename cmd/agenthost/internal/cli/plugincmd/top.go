package plugincmd

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/internal/termtext"
)

// The bounds of top.
const (
	defaultTopInterval = 2 * time.Second
	minTopInterval     = 100 * time.Millisecond
	maxTopLines        = 10_000
	defaultTopLines    = 30
)

type topFlags struct {
	args     topArgs
	interval time.Duration
}

func remoteTop(t *ui.Terminal) *cobra.Command {
	r := &remote{term: t}
	var f topFlags
	c := r.add(cli.Waits(&cobra.Command{
		Use:   "top",
		Short: "Show what the plugins of a running host use",
		Long: `Show what the plugins of a running host use: calls, errors, instructions, time,
memory, host operations and bytes since it began, those that took the longest
first. On a terminal it is shown again and again, with calls a second, until
ctrl-C; otherwise, and with --json, once.

A percentile is at most twice too long.`,
		Example: "  agenthost plugin top --data ./data --by-tenant",
		Args:    cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.interval < minTopInterval {
				return cli.UsageError(fmt.Errorf("--interval is %s; it must be at least %s", f.interval, minTopInterval), c.CommandPath())
			}
			if f.args.Lines < 1 || f.args.Lines > maxTopLines {
				return cli.UsageError(fmt.Errorf("--lines is %d; it must be from 1 to %d", f.args.Lines, maxTopLines), c.CommandPath())
			}
			return r.top(c, f)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}))
	flags := c.Flags()
	flags.BoolVar(&f.args.Tenant, "by-tenant", false, "a line for each tenant")
	flags.BoolVar(&f.args.Export, "by-export", false, "a line for each export")
	flags.StringVar(&f.args.Of, "tenant", "", "of this tenant only (default: of all)")
	flags.IntVar(&f.args.Lines, "lines", defaultTopLines, "how many lines at most")
	flags.DurationVar(&f.interval, "interval", defaultTopInterval, "how often to look, on a terminal")
	return c
}

func (r *remote) top(c *cobra.Command, f topFlags) error {
	var before *plugin.UsageReport
	ticks := time.NewTicker(f.interval)
	defer ticks.Stop()
	for {
		b := &plugin.UsageReport{}
		if err := r.host.Ask(c, "plugin.bill", f.args, b); err != nil {
			if c.Context().Err() != nil {
				return nil
			}
			return err
		}
		if r.host.JSON {
			return ui.PrintTimed(r.term.Out, b)
		}
		again := r.term.OutIsTerminal && !r.term.Dumb
		if again {
			fmt.Fprint(r.term.Out, "\x1b[H\x1b[2J")
		}
		if err := printTop(r.term, b, before, f.args); err != nil || !again {
			return err
		}
		before = b
		select {
		case <-ticks.C:
		case <-c.Context().Done(): // ctrl-C ends it
			return nil
		}
	}
}

// printTop shows a usage report; before is an earlier one with the same line items, or
// nil.
func printTop(t *ui.Terminal, b, before *plugin.UsageReport, by topArgs) error {
	fmt.Fprintf(t.Out, "%s after %s\n", b.To.Local().Format(time.TimeOnly), b.To.Sub(b.From).Round(time.Second))
	if len(b.Items) == 0 {
		_, err := fmt.Fprintln(t.Out, "No plugin has been called yet.")
		return err
	}
	rates := map[string]float64{}
	if before != nil {
		since := b.Since(before)
		for _, c := range since.Items {
			rates[lineItemKey(&c)] = float64(c.Calls()) / since.To.Sub(since.From).Seconds()
		}
	}
	head := []string{"PLUGIN"}
	if by.Tenant {
		head = append(head, "TENANT")
	}
	if by.Export {
		head = append(head, "EXPORT")
	}
	head = append(head, "CALLS", "CALLS/S", "ERRORS", "INSTRUCTIONS", "TIME", "MEAN", "P99", "MEMORY", "HOST CALLS", "IN", "OUT")
	table := ui.NewTable(t, head...)
	for _, c := range b.Items {
		line := []string{ui.OneLine(c.Plugin)}
		if by.Tenant {
			line = append(line, ui.OneLine(c.Tenant))
		}
		if by.Export {
			line = append(line, ui.OneLine(c.Export))
		}
		rate := "-"
		if before != nil {
			rate = fmt.Sprintf("%.1f", rates[lineItemKey(&c)])
		}
		mean := int64(c.Duration) / max(c.Latency.Count(), 1)
		line = append(line, termtext.Thousands(c.Calls()), rate, termtext.Thousands(c.Errors()), termtext.Thousands(c.Instructions),
			ui.ShortTime(int64(c.Duration)), ui.ShortTime(mean), ui.ShortTime(int64(c.Latency.Quantile(0.99))),
			ui.ShortBytes(c.PeakMemory), termtext.Thousands(c.HostCalls), ui.ShortBytes(c.InputBytes), ui.ShortBytes(c.OutputBytes))
		table.Row(line...)
	}
	return table.Print()
}

// lineItemKey is the key of a line item within a usage report.
func lineItemKey(c *plugin.LineItem) string { return c.Plugin + "\x00" + c.Tenant + "\x00" + c.Export }

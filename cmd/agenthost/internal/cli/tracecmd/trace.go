package tracecmd

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/open"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/trace"
	"github.com/agenthost/agenthost/internal/termtext"
)

// group is what the commands of agenthost trace share: the terminal, how data directories
// are opened, and flags.
type group struct {
	term  *ui.Terminal
	dirs  *open.Data
	flags cli.StoredFlags
}

// New returns the command.
func New(t *ui.Terminal, dirs *open.Data) *cobra.Command {
	g := &group{term: t, dirs: dirs}
	c := &cobra.Command{
		Use:   "trace",
		Short: "See what the last runs did",
		Long: `See what the last runs did: who was next and why, what models were asked and how
long they took, which tools were called, what processors changed, what the sandbox
ran. A host with --data keeps that of its last ` + fmt.Sprint(trace.DefaultRuns) + ` runs; nothing else is needed.`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	g.flags.AddTo(c, "the host's data")
	g.flags.AddTenantTo(c, "whose runs (default: all tenants')")
	cli.CompleteBy(c, "tenant", dirs.Tenants(&g.flags.Data))
	c.AddCommand(g.show(), g.list())
	return c
}

func (g *group) dir(command string) (string, error) {
	if !g.flags.Data.Given() {
		return "", cli.UsageError(errors.New("--data is required: the data directory of the host"), command)
	}
	if g.flags.Data.At().IsDatabase() {
		return "", host.Errorf(host.Unimplemented, "traces are kept in a data directory, and %s is a database", g.flags.Data.At()).
			WithHint("export the events of runs to a collector of OpenTelemetry")
	}
	return datadir.TracesPath(g.flags.Data.At().Dir()), nil
}

// options have the tenant whose runs are read, and the keys that decrypt them.
func (g *group) options() (*trace.ReadOptions, error) {
	keys, err := g.dirs.Keys(g.flags.Data.At().Dir())
	if err != nil {
		return nil, err
	}
	return &trace.ReadOptions{Tenant: g.flags.Tenant, Keys: keys}, nil
}

// hinted adds the command that records runs to the error of a directory without any.
func (g *group) hinted(err error) error {
	e := fault.AsError(err)
	if e.Code != host.NotFound || e.Hint != "" {
		return err
	}
	return e.WithHint("runs are kept by: agenthost run PROJECT%s", g.flags.Data.Words())
}

func (g *group) show() *cobra.Command {
	var follow bool
	c := &cobra.Command{
		Use:     "show [RUN|" + trace.Last + "]",
		Short:   "Show a run as a tree: time, tokens, instructions",
		Long:    "Show a run as a tree. RUN is its id, the beginning of that, or " + trace.Last + " (the default).\nWith --follow its steps are printed while it runs; after " + trace.Last + " those of the next runs, until ctrl-C.",
		Example: "  agenthost trace show last --data ./data\n  agenthost trace show -f --data ./data",
		Args:    cli.Args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			dir, err := g.dir(c.CommandPath())
			if err != nil {
				return err
			}
			id := trace.Last
			if len(list) > 0 {
				id = list[0]
			}
			opts, err := g.options()
			if err != nil {
				return err
			}
			if follow {
				return g.follow(c.Context(), dir, id, opts)
			}
			run, err := trace.Read(dir, id, opts)
			if err != nil {
				return g.hinted(err)
			}
			if g.flags.JSON {
				return ui.PrintTimed(g.term.Out, run)
			}
			return ui.PrintTrace(g.term, run)
		},
		ValidArgsFunction: g.completeRun,
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "print steps while they happen")
	return c
}

// completeRun completes the ids of runs.
func (g *group) completeRun(_ *cobra.Command, list []string, _ string) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	if len(list) > 0 {
		return nil, none
	}
	ids := []string{trace.Last}
	if g.dirs.ResolveFlag(&g.flags.Data) != nil || g.flags.Data.At().Dir() == "" {
		return ids, none
	}
	opts, err := g.options()
	if err != nil {
		return ids, none
	}
	if runs, err := trace.List(datadir.TracesPath(g.flags.Data.At().Dir()), opts); err == nil {
		for _, r := range runs {
			ids = append(ids, ui.Completion(r.Run, r.Target))
		}
	}
	return ids, none
}

func (g *group) list() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the runs that are kept, the last one first",
		Args:  cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			dir, err := g.dir(c.CommandPath())
			if err != nil {
				return err
			}
			opts, err := g.options()
			if err != nil {
				return err
			}
			runs, err := trace.List(dir, opts)
			if err != nil {
				return g.hinted(err)
			}
			if g.flags.JSON {
				return ui.PrintTimed(g.term.Out, ui.ItemsOf(runs))
			}
			return printRuns(g.term, runs)
		},
	}
}

func printRuns(t *ui.Terminal, runs []*trace.Summary) error {
	table := ui.NewTable(t, "RUN", "BEGAN", "TOOK", "TOKENS", "THREAD", "END")
	for _, r := range runs {
		end := string(r.FinishReason)
		if !r.Finished {
			end = "not finished"
		}
		table.Row(termtext.Printable(r.Run), r.Began.Local().Format(time.DateTime),
			ui.ShortTime(r.DurationUS*int64(time.Microsecond)), strconv.Itoa(r.Usage.Total()), ui.OneLine(r.Thread), ui.OneLine(end))
	}
	return table.Print()
}

package queuecmd

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/lookup"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/open"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/queue"
	"github.com/agenthost/agenthost/internal/termtext"
)

// group is what the commands of agenthost queue share: the terminal, how data directories
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
		Use:   "queue",
		Short: "Look at jobs that wait, and at those that were given up",
		Long: `Plugins and tools leave jobs for after a turn. Jobs run in the commands that run a
project: list shows those that wait for one. A job that fails too often, or that
was asked wrongly, is given up: dead shows it, with its error, until somebody has
it run again or drops it. JOB may be the beginning of its id.`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	g.dirs.AddFlags(c, &g.flags, "where the jobs are kept")
	g.flags.AddTenantTo(c, cli.TenantUsage("whose jobs"))
	cli.CompleteBy(c, "tenant", dirs.Tenants(&g.flags.Data))
	c.AddCommand(
		listing(g, "list", "List jobs that wait, the one that is due first first", (*queue.Queue).Pending, g.printPending),
		listing(g, "dead", "List jobs that were given up, the latest first", (*queue.Queue).Dead, g.printDead),
		g.change("retry", "Have a job run again, as if it had just been left", "waits again: it runs in the next command that runs the project", (*queue.Queue).Retry),
		g.change("drop", "Forget a job", "is forgotten", (*queue.Queue).Drop))
	open.CompleteArgs(c, "JOB", dirs.Stored(&g.flags.Data, g.deadIDs))
	return c
}

// deadIDs returns jobs that were given up, with what they are of, for a shell to complete.
func (g *group) deadIDs(ctx context.Context, dir *datadir.Dir) ([]string, error) {
	q := queue.New(dir.Driver, nil)
	defer q.Close()
	dead, err := q.Dead(ctx, g.flags.Tenant, ui.MaxCompletions)
	var ids []string
	for _, d := range dead {
		ids = append(ids, ui.Completion(d.ID, jobWords(d.Name, d.Payload)))
	}
	return ids, err
}

// withQueue opens the queue of a data directory that must exist. It runs no jobs.
func (g *group) withQueue(ctx context.Context, fn func(*queue.Queue) error) error {
	return g.dirs.With(ctx, &g.flags.Data, "agenthost queue", func(dir *datadir.Dir) (err error) {
		q := queue.New(dir.Driver, nil)
		defer func() { err = errors.Join(err, q.Close()) }()
		return fn(q)
	})
}

// listing returns a command that lists jobs, which read returns up to a number.
func listing[T any](g *group, use, short string, read func(*queue.Queue, context.Context, string, int) ([]T, error), table func(*ui.Terminal, []T) error) *cobra.Command {
	var page cli.Page
	c := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return g.withQueue(c.Context(), func(q *queue.Queue) error {
				jobs, err := read(q, c.Context(), g.flags.Tenant, page.Limit+1)
				if err != nil {
					return err
				}
				return cli.PrintFirst(g.term, g.flags.JSON, jobs, page.Limit, table)
			})
		},
	}
	page.AddLimitTo(c)
	return c
}

func (g *group) printPending(t *ui.Terminal, jobs []*queue.PendingJob) error {
	table := ui.NewTable(t, "JOB", "OF", "STATUS", "DUE", "ATTEMPTS", "ERROR")
	for _, j := range jobs {
		why := ""
		if j.Error != nil {
			why = ui.OneLine(j.Error.Error())
		}
		table.Row(j.ID, jobWords(j.Name, j.Payload), string(j.Status), j.Due.Local().Format(time.DateTime), strconv.Itoa(j.Attempts), why)
	}
	return table.PrintOr("No job of tenant %s waits.\n", termtext.Printable(cli.TenantOr(g.flags.Tenant)))
}

// jobWords names the owner of a job: for a plugin's job, the plugin and its handler.
func jobWords(name string, payload json.RawMessage) string {
	var left struct{ Plugin, Handler string }
	if name != plugin.JobName || json.Unmarshal(payload, &left) != nil || left.Plugin == "" {
		return ui.OneLine(name)
	}
	return ui.OneLine(left.Plugin + "/" + left.Handler)
}

func (g *group) printDead(t *ui.Terminal, dead []*queue.DeadJob) error {
	table := ui.NewTable(t, "JOB", "OF", "GIVEN UP", "ATTEMPTS", "ERROR")
	for _, d := range dead {
		table.Row(d.ID, jobWords(d.Name, d.Payload), d.Died.Local().Format(time.DateTime), strconv.Itoa(d.Attempts), ui.OneLine(d.Error.Error()))
	}
	return table.PrintOr("No job of tenant %s was given up.\n", termtext.Printable(cli.TenantOr(g.flags.Tenant)))
}

func (g *group) change(name, short, done string, change func(*queue.Queue, context.Context, string, string) error) *cobra.Command {
	return &cobra.Command{
		Use:   name + " JOB",
		Short: short,
		Args:  cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			return g.withQueue(c.Context(), func(q *queue.Queue) error {
				dead, err := q.Dead(c.Context(), g.flags.Tenant, 0)
				if err != nil {
					return err
				}
				ids := make([]string, len(dead))
				for i, d := range dead {
					ids[i] = d.ID
				}
				id, err := lookup.ID("job", list[0], ids)
				if err != nil {
					return err
				}
				what := "job"
				for _, d := range dead {
					if d.ID == id {
						what = "job of " + jobWords(d.Name, d.Payload)
					}
				}
				if err := change(q, c.Context(), g.flags.Tenant, id); err != nil {
					return err
				}
				return g.term.Report(g.flags.JSON, map[string]string{"id": id, "done": name}, "The %s %s %s.\n", what, id, done)
			})
		},
	}
}

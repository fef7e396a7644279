package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/queue"
)

// drainTimeout is how long a command that ends waits for the jobs that its runs
// have left. In a data directory the next command goes on with the rest.
const drainTimeout = 5 * time.Second

// openQueue makes the queue, on the store that threads are in.
func (a *app) openQueue(driver kv.Driver) {
	a.queue = queue.New(driver, &queue.Options{RunStatus: a.threads.RunStatus, Logger: a.logger})
}

// startQueue begins to run jobs, those among them that earlier commands left.
func (a *app) startQueue(ctx context.Context) error {
	a.queue.Handle(plugin.JobName, a.runtime.HandleJob)
	if err := a.queue.Start(ctx); err != nil {
		return err
	}
	a.closers = append(a.closers, func() error {
		drain, cancel := context.WithTimeout(ctx, drainTimeout)
		defer cancel()
		_ = a.queue.Drain(drain) // what is not done by then stays
		return a.queue.Close()
	})
	return nil
}

// enqueuer is the app's queue for a runtime, which is made before the store is
// open.
type enqueuer struct{ app *app }

// Enqueue implements [host.Enqueuer].
func (e enqueuer) Enqueue(ctx context.Context, job *host.Job) (string, error) {
	if e.app.queue == nil {
		return "", &host.Error{Code: host.Unavailable, Message: "the queue is not open yet", Retryable: true}
	}
	return e.app.queue.Enqueue(ctx, job)
}

type queueFlags struct {
	data, tenant string
	json         bool
}

func queueCommand(env *environment) *cobra.Command {
	var f queueFlags
	c := &cobra.Command{
		Use:   "queue",
		Short: "Look at jobs that were given up",
		Long: `Plugins and tools leave jobs for after a turn. A job that fails too often, or that
was asked wrongly, is given up: it stays here, with its error, until somebody has
it run again or drops it. Jobs run in the commands that run a project.`,
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.PersistentFlags().StringVar(&f.data, "data", "", "directory that keeps the jobs (required)")
	c.PersistentFlags().StringVar(&f.tenant, "tenant", "", tenantUsage("whose jobs"))
	c.PersistentFlags().BoolVar(&f.json, "json", false, "print JSON")
	c.AddCommand(queueDead(env, &f),
		queueChange(env, &f, "retry", "Have a job run again, as if it had just been left", (*queue.Queue).Retry),
		queueChange(env, &f, "drop", "Forget a job", (*queue.Queue).Drop))
	return c
}

// withQueue opens the queue of a data directory that must exist. It runs no jobs.
func withQueue(env *environment, f *queueFlags, fn func(*queue.Queue) error) (err error) {
	if f.data == "" {
		return usageError{errors.New("--data is required: the directory that keeps the jobs"), "agenthost queue"}
	}
	if _, err := os.Stat(filepath.Join(f.data, storeName)); err != nil {
		return host.Errorf(host.NotFound, "there are no jobs in %s: %w", f.data, err).
			WithHint("a data directory is made by: agenthost run PROJECT --data %s", quoted(f.data))
	}
	driver, err := env.openAny(context.Background(), f.data, env.logger())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, driver.Close()) }()
	q := queue.New(driver.Driver, nil)
	defer func() { err = errors.Join(err, q.Close()) }()
	return fn(q)
}

func queueDead(env *environment, f *queueFlags) *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use:   "dead",
		Short: "List jobs that were given up, the latest first",
		Args:  args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return withQueue(env, f, func(q *queue.Queue) error {
				dead, err := q.Dead(c.Context(), f.tenant, limit)
				if err != nil {
					return err
				}
				if f.json {
					return printJSON(env.stdout, dead)
				}
				return printDead(env.stdout, dead)
			})
		},
	}
	c.Flags().IntVar(&limit, "limit", 0, "how many at most (default: all)")
	return c
}

func printDead(w io.Writer, dead []*queue.DeadJob) error {
	if len(dead) == 0 {
		_, err := fmt.Fprintln(w, "No job was given up.")
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "JOB\tNAME\tGIVEN UP\tATTEMPTS\tERROR")
	for _, d := range dead {
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\n", d.ID, safe(d.Name), d.Died.Local().Format(time.DateTime), d.Attempts, safe(d.Error.Error()))
	}
	return table.Flush()
}

func queueChange(env *environment, f *queueFlags, name, short string, change func(*queue.Queue, context.Context, string, string) error) *cobra.Command {
	return &cobra.Command{
		Use:   name + " JOB",
		Short: short,
		Args:  args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			return withQueue(env, f, func(q *queue.Queue) error { return change(q, c.Context(), f.tenant, list[0]) })
		},
	}
}

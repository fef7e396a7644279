package threadcmd

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/search"
	"github.com/agenthost/agenthost/internal/termtext"
)

func (g *group) search() *cobra.Command {
	var opts search.Options
	var reindex bool
	c := &cobra.Command{
		Use:   "search WORDS...",
		Short: "Find messages by their words",
		Long: `Find what was said in a tenant's threads: messages that have words of the query,
the best first, with the part of each that is about it. What was edited, deleted
or rewound away is not found. Threads that were stored by a version which kept no
index are found after one search with --reindex.`,
		Args: cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			with := func(fn func(*threads.Store) error) error { return g.readThreads(c.Context(), fn) }
			if reindex {
				with = func(fn func(*threads.Store) error) error { return g.withThreads(c.Context(), fn) }
			}
			return with(func(s *threads.Store) error {
				if reindex {
					n, err := s.For(g.flags.Tenant).Reindex(c.Context())
					if err != nil {
						return err
					}
					fmt.Fprintf(g.term.Err, "agenthost: %s indexed\n", ui.Plural(n, "message"))
				}
				hits, err := search.New(s).Messages(c.Context(), g.flags.Tenant, strings.Join(list, " "), &opts)
				if err != nil {
					return err
				}
				return cli.PrintAll(g.term, g.flags.JSON, hits, printHits)
			})
		},
	}
	c.Flags().IntVar(&opts.Limit, "limit", 0, "how many at most")
	c.Flags().StringVar(&opts.Thread, "thread", "", "the only thread to search")
	cli.CompleteBy(c, "thread", g.dirs.Stored(&g.flags.Data, g.threadIDs))
	c.Flags().BoolVar(&reindex, "reindex", false, "index every thread anew first")
	return c
}

func printHits(t *ui.Terminal, hits []search.Hit) error {
	if len(hits) == 0 {
		fmt.Fprintln(t.Out, "Nothing found.")
	}
	for i, h := range hits {
		if i > 0 {
			fmt.Fprintln(t.Out)
		}
		who := string(h.Role)
		if h.Agent != "" {
			who += " " + h.Agent
		}
		fmt.Fprintf(t.Out, "%s  %s\n%s %s  %s\n  %s\n", termtext.Printable(h.Thread), ui.OneLine(h.Title), termtext.Printable(who), termtext.Printable(h.Message),
			h.Time.Local().Format(time.DateTime), ui.OneLine(h.Snippet))
	}
	return nil
}

type pruneFlags struct {
	age      time.Duration
	keep     int
	maxBytes string
	dry      bool
}

func (g *group) prune() *cobra.Command {
	var p pruneFlags
	c := &cobra.Command{
		Use:   "prune",
		Short: "Remove old threads, or many, or large ones",
		Long: `Remove the threads of a tenant that any of the flags names. What a thread that
stays was forked from stays with it.`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			opts, err := p.options(time.Now())
			if err != nil {
				return cli.UsageError(err, c.CommandPath())
			}
			return g.withThreads(c.Context(), func(s *threads.Store) error {
				pruned, err := s.For(g.flags.Tenant).Prune(c.Context(), opts)
				if err != nil {
					return err
				}
				if g.flags.JSON {
					return ui.PrintJSON(g.term.Out, pruned)
				}
				verb := "Removed"
				if p.dry {
					verb = "Would remove"
				}
				for _, t := range pruned.Threads {
					fmt.Fprintf(g.term.Out, "%s  %s  %s\n", termtext.Printable(t.ID), t.Updated.Local().Format(time.DateTime), ui.OneLine(t.Title))
				}
				fmt.Fprintf(g.term.Out, "%s %s; %s.\n", verb, ui.Plural(len(pruned.Threads), "thread"), stayWords(pruned.Kept+pruned.Running))
				return nil
			})
		},
	}
	flags := c.Flags()
	flags.DurationVar(&p.age, "older-than", 0, "those that were not updated for so long, such as 720h")
	flags.IntVar(&p.keep, "keep", 0, "all but so many, those that were updated last")
	flags.StringVar(&p.maxBytes, "max-bytes", "", "all but those that were updated last and have stored no more than this, such as 500MB")
	flags.BoolVar(&p.dry, "dry-run", false, "say what would go, and remove nothing")
	return c
}

func stayWords(n int) string {
	if n == 1 {
		return "1 stays"
	}
	return fmt.Sprintf("%d stay", n)
}

func (p *pruneFlags) options(now time.Time) (threads.PruneOptions, error) {
	opts := threads.PruneOptions{Keep: p.keep, DryRun: p.dry}
	if p.age < 0 || p.keep < 0 {
		return opts, errors.New("--older-than and --keep are not negative")
	}
	if p.age > 0 {
		opts.Before = now.Add(-p.age)
	}
	if p.maxBytes != "" {
		n, err := termtext.ParseBytes(p.maxBytes)
		if err != nil || n == 0 {
			return opts, fmt.Errorf("--max-bytes %q is not a size such as 500MB", p.maxBytes)
		}
		opts.MaxBytes = n
	}
	if opts.Before.IsZero() && p.keep == 0 && opts.MaxBytes == 0 {
		return opts, errors.New("name what goes with --older-than, --keep or --max-bytes")
	}
	return opts, nil
}

// deletedThread is a thread that thread delete --json lists.
type deletedThread struct {
	ID      string `json:"id"`
	Deleted bool   `json:"deleted"`
}

func deletedThreads(ids []string) []deletedThread {
	out := make([]deletedThread, len(ids))
	for i, id := range ids {
		out[i] = deletedThread{id, true}
	}
	return out
}

func (g *group) delete() *cobra.Command {
	return &cobra.Command{
		Use:   "delete THREAD...",
		Short: "Remove threads for good",
		Args:  cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			return g.withThreads(c.Context(), func(s *threads.Store) error {
				for _, id := range list {
					if err := s.For(g.flags.Tenant).Delete(c.Context(), id); err != nil {
						return err
					}
					if !g.flags.JSON {
						fmt.Fprintf(g.term.Out, "Deleted %s.\n", termtext.Printable(id))
					}
				}
				if g.flags.JSON {
					return ui.PrintItems(g.term.Out, deletedThreads(list))
				}
				return nil
			})
		},
	}
}

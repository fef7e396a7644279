package threadcmd

import (
	"context"
	"errors"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/lookup"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/termtext"
)

// momentFlags name a moment of a thread.
type momentFlags struct {
	message, snapshot, branch string
	before                    bool
}

func (m *momentFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&m.message, "message", "", "up to and with that message: its id, or its number in thread show")
	flags.BoolVar(&m.before, "before", false, "stop before --message")
	flags.StringVar(&m.snapshot, "snapshot", "", "after that turn, by its run")
	flags.StringVar(&m.branch, "branch", "", "a branch, by its name in thread branches")
}

// at returns the moment. A number is the position of a message in the thread at the
// moment that the other flags name.
func (m *momentFlags) at(ctx context.Context, s *threads.Store, tenant, thread string) (threads.At, error) {
	at := threads.At{Snapshot: m.snapshot, Branch: m.branch}
	if m.message == "" {
		at.Before = m.before
		return at, nil
	}
	id, err := lookup.Message(ctx, s, tenant, thread, at, m.message)
	at.Message, at.Before = id, m.before
	return at, err
}

// withMoment opens a data directory and finds the named moment of a thread.
func (m *momentFlags) withMoment(c *cobra.Command, g *group, list []string, fn func(*threads.Store, threads.At) error) error {
	return g.withThread(c.Context(), list, m.find(c.Context(), g, list, fn))
}

// readMoment is withMoment for a command that changes nothing.
func (m *momentFlags) readMoment(c *cobra.Command, g *group, list []string, fn func(*threads.Store, threads.At) error) error {
	return g.readThread(c.Context(), list, m.find(c.Context(), g, list, fn))
}

func (m *momentFlags) find(ctx context.Context, g *group, list []string, fn func(*threads.Store, threads.At) error) func(*threads.Store) error {
	return func(s *threads.Store) error {
		thread := list[0]
		if err := m.complete(ctx, s, g.flags.Tenant, thread); err != nil {
			return err
		}
		at, err := m.at(ctx, s, g.flags.Tenant, thread)
		if err != nil {
			return err
		}
		return fn(s, at)
	}
}

// complete completes the id of a turn.
func (m *momentFlags) complete(ctx context.Context, s *threads.Store, tenant, thread string) (err error) {
	if m.snapshot == "" {
		return nil
	}
	var ids []string
	for snap, err := range s.For(tenant).Snapshots(ctx, thread) {
		if err != nil {
			return err
		}
		ids = append(ids, snap.ID)
	}
	m.snapshot, err = lookup.ID("turn", m.snapshot, ids)
	return err
}

// withThread opens a data directory and completes the id of the thread that comes
// first in list.
func (g *group) withThread(ctx context.Context, list []string, fn func(*threads.Store) error) error {
	return g.withThreads(ctx, g.ofThread(ctx, list, fn))
}

// readThread is withThread for a command that changes nothing.
func (g *group) readThread(ctx context.Context, list []string, fn func(*threads.Store) error) error {
	return g.readThreads(ctx, g.ofThread(ctx, list, fn))
}

func (g *group) ofThread(ctx context.Context, list []string, fn func(*threads.Store) error) func(*threads.Store) error {
	return func(s *threads.Store) (err error) {
		if list[0], err = lookup.Thread(ctx, s, g.flags.Tenant, list[0]); err != nil {
			return err
		}
		return fn(s)
	}
}

// printChanged prints a thread after a change.
func (g *group) printChanged(t *threads.Thread, what string) error {
	return g.term.Report(g.flags.JSON, t, "%s: %s now has %s. What it was is kept: see agenthost thread branches.\n", what, termtext.Printable(t.ID), ui.Plural(t.Messages, "message"))
}

func (g *group) edit() *cobra.Command {
	var id string
	c := &cobra.Command{
		Use:   "edit THREAD MESSAGE TEXT",
		Short: "Put a text in the place of a message",
		Long: `Put a text in the place of a message of a thread: MESSAGE is its id or its number
in thread show. What follows stays, and the old message is kept in a branch. To
have the new one answered, run the project with --regenerate.`,
		Args: cli.Args(cli.OneText(2, "put the text in quotes")),
		RunE: func(c *cobra.Command, list []string) error {
			if !utf8.ValidString(list[2]) {
				return cli.NotUTF8("the text")
			}
			return g.withThread(c.Context(), list, func(s *threads.Store) error {
				old, err := lookup.Message(c.Context(), s, g.flags.Tenant, list[0], threads.At{}, list[1])
				if err != nil {
					return err
				}
				m := &host.Message{ID: id, Parts: []host.Part{&host.Text{Text: list[2]}}}
				t, err := s.For(g.flags.Tenant).EditMessage(c.Context(), list[0], old, m, nil)
				if err != nil {
					return err
				}
				return g.printChanged(t, "Edited")
			})
		},
	}
	c.Flags().StringVar(&id, "id", "", "the new message's id (default: a fresh one)")
	return c
}

func (g *group) deleteMessage() *cobra.Command {
	return &cobra.Command{
		Use:   "delete-message THREAD MESSAGE",
		Short: "Take a message out of a thread",
		Long: `Take a message out of a thread: MESSAGE is its id or its number in thread show. A
tool call goes with its results. What is taken out is kept in a branch.`,
		Args: cli.Args(cobra.ExactArgs(2)),
		RunE: func(c *cobra.Command, list []string) error {
			return g.withThread(c.Context(), list, func(s *threads.Store) error {
				id, err := lookup.Message(c.Context(), s, g.flags.Tenant, list[0], threads.At{}, list[1])
				if err != nil {
					return err
				}
				t, err := s.For(g.flags.Tenant).DeleteMessage(c.Context(), list[0], id, nil)
				if err != nil {
					return err
				}
				return g.printChanged(t, "Deleted")
			})
		},
	}
}

func (g *group) rewind() *cobra.Command {
	var m momentFlags
	c := &cobra.Command{
		Use:   "rewind THREAD",
		Short: "Go back to a message, a turn or a branch",
		Long: `Make a moment of a thread its present: messages, state and artifacts are those of
then, and the next turn goes on from there. What the thread was is kept in a
branch; to rewind to a branch is to resume it.`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			if m == (momentFlags{}) {
				return cli.UsageError(errors.New("name a moment with --message, --snapshot or --branch"), c.CommandPath())
			}
			return m.withMoment(c, g, list, func(s *threads.Store, at threads.At) error {
				t, err := s.For(g.flags.Tenant).Rewind(c.Context(), list[0], at, nil)
				if err != nil {
					return err
				}
				return g.printChanged(t, "Rewound")
			})
		},
	}
	m.add(c)
	return c
}

func (g *group) fork() *cobra.Command {
	var m momentFlags
	var id string
	c := &cobra.Command{
		Use:   "fork THREAD",
		Short: "Begin another thread as this one is, or once was",
		Args:  cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			return m.withMoment(c, g, list, func(s *threads.Store, at threads.At) error {
				t, err := s.For(g.flags.Tenant).Fork(c.Context(), list[0], &threads.ForkOptions{ID: id, At: at})
				if err != nil {
					return err
				}
				return g.term.Report(g.flags.JSON, t, "%s begins with %s of %s.\n", termtext.Printable(t.ID), ui.Plural(t.Messages, "message"), termtext.Printable(list[0]))
			})
		},
	}
	m.add(c)
	c.Flags().StringVar(&id, "id", "", "the new thread's id (default: a fresh one)")
	return c
}

func (g *group) branches() *cobra.Command {
	return &cobra.Command{
		Use:   "branches THREAD",
		Short: "List what a thread is and was",
		Long: `List the heads of a thread: the one it goes on from, and those that edits,
deletions and rewinds left, the last first. Turns can go on with one that is open,
by agenthost run --on BRANCH; others are resumed by thread rewind, or forked.`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			return g.readThread(c.Context(), list, func(s *threads.Store) error {
				return g.listBranches(c.Context(), s, list[0])
			})
		},
	}
}

func (g *group) listBranches(ctx context.Context, s *threads.Store, thread string) error {
	all := []*threads.Branch{}
	for b, err := range s.For(g.flags.Tenant).Branches(ctx, thread) {
		if err != nil {
			return err
		}
		all = append(all, b)
	}
	return cli.PrintAll(g.term, g.flags.JSON, all, printBranches)
}

func printBranches(t *ui.Terminal, all []*threads.Branch) error {
	table := ui.NewTable(t, "BRANCH", "MESSAGES", "TURNS", "OPEN", "SINCE", "BY")
	for _, b := range all {
		name, since := b.ID, ""
		if name == "" {
			name = "(now)"
		} else {
			since = b.Left.Local().Format(time.DateTime)
		}
		table.Row(name, strconv.Itoa(b.Messages), strconv.Itoa(b.Turns), strconv.FormatBool(b.Open), since, string(b.Cause)+" "+termtext.Printable(b.Message))
	}
	return table.Print()
}

package sessioncmd

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/control"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/internal/termtext"
)

// sessionFlags name a turn of a running host.
type sessionFlags struct {
	term *ui.Terminal
	host control.Flags

	target, tenant string
	timeout        time.Duration
}

// New returns the commands about turns in the background.
func New(t *ui.Terminal) *cobra.Command {
	c := &cobra.Command{
		Use:   "session",
		Short: "Wait for turns in the background, or end them",
		Long: `Turns in the background of a running host (agenthost dev PROJECT --data DIR): those
that agenthost chat --detach has begun. Each is known by its snapshot. A host that
is killed or stopped leaves them to the next one, which goes on behind their last
step.`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(sessionList(t), sessionStatus(t), sessionWait(t), sessionAbort(t))
	return c
}

func (f *sessionFlags) add(c *cobra.Command) *cobra.Command {
	if c.ValidArgsFunction == nil {
		c.ValidArgsFunction = f.completeSnapshot
	}
	f.host.AddTo(c)
	c.Flags().StringVar(&f.target, "target", "", "the network or agent (default: any)")
	c.Flags().StringVar(&f.tenant, "tenant", "", cli.TenantUsage("whose turns"))
	completeTarget(c, &f.host)
	return c
}

// hinted adds where snapshots are found to the error of one that is not there.
func (f *sessionFlags) hinted(err error) error {
	return cli.HintIfMissing(err, "agenthost session list%s names the turns in the background", f.host.Words())
}

func (f *sessionFlags) args(snapshot string) backgroundArgs {
	return backgroundArgs{Target: f.target, Tenant: f.tenant, Snapshot: snapshot}
}

// completeSnapshot completes the snapshot of a turn in the background.
func (f *sessionFlags) completeSnapshot(c *cobra.Command, list []string, _ string) ([]string, cobra.ShellCompDirective) {
	var turns []*sessions.Snapshot
	if len(list) > 0 || f.host.AskToComplete(c, "session.list", f.args(""), &turns) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ids := make([]string, len(turns))
	for i, t := range turns {
		ids[i] = t.ID + "\t" + string(t.Status)
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

// completeTarget completes --target with the networks and agents of the host.
func completeTarget(c *cobra.Command, flags *control.Flags) {
	cli.CompleteBy(c, "target", func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		var names []string
		if flags.AskToComplete(c, "target.list", nil, &names) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	})
}

func sessionList(t *ui.Terminal) *cobra.Command {
	f := &sessionFlags{term: t}
	return f.add(&cobra.Command{
		Use:   "list",
		Short: "List the turns in the background",
		Long: `List the turns in the background of a running host: those that run, and those that
ended without leaving a turn in their session, with why. One that has ended and is
stored is in its session: see agenthost thread show.`,
		Example: "  agenthost session list --data ./data",
		Args:    cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var turns []*sessions.Snapshot
			if err := f.host.Ask(c, "session.list", f.args(""), &turns); err != nil {
				return err
			}
			return cli.PrintAll(t, f.host.JSON, turns, printTurns)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	})
}

func printTurns(t *ui.Terminal, turns []*sessions.Snapshot) error {
	table := ui.NewTable(t, "SNAPSHOT", "STATUS", "TARGET", "SINCE", "ERROR")
	for _, t := range turns {
		why := ""
		if t.Error != nil {
			why = ui.OneLine(t.Error.Message)
		}
		table.Row(termtext.Printable(t.ID), string(t.Status), termtext.Printable(t.Agent), t.Created.Local().Format(time.DateTime), why)
	}
	return table.PrintOr("No turn is in the background.\n")
}

func sessionStatus(t *ui.Terminal) *cobra.Command {
	f := &sessionFlags{term: t}
	return f.add(&cobra.Command{
		Use:     "status SNAPSHOT",
		Short:   "Say how far a turn is",
		Example: "  agenthost session status SNAPSHOT --data ./data --json",
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			snap := &sessions.Snapshot{}
			if err := f.host.Ask(c, "session.status", f.args(list[0]), snap); err != nil {
				return f.hinted(err)
			}
			if f.host.JSON {
				return ui.PrintJSON(t.Out, snap)
			}
			fmt.Fprintf(t.Out, "%s (%s, since %s)\n", snap.Status, termtext.Printable(snap.Agent), snap.Created.Local().Format(time.DateTime))
			if snap.Error != nil {
				fmt.Fprintf(t.Out, "  %s\n", ui.OneLine(ui.ErrorText(snap.Error)))
			}
			return nil
		},
	})
}

func sessionWait(t *ui.Terminal) *cobra.Command {
	f := &sessionFlags{term: t}
	c := f.add(&cobra.Command{
		Use:   "wait SNAPSHOT",
		Short: "Wait for a turn to end, and show its answer",
		Long: `Wait for a turn to end, and show its answer. The exit code says how it ended: 0 if
it was completed, and that of its error otherwise; an aborted one is interrupted.
With --timeout the command waits no longer than that; the turn goes on.`,
		Example: "  agenthost session wait SNAPSHOT --data ./data --timeout 5m",
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			if f.timeout < 0 {
				return cli.UsageError(fmt.Errorf("--timeout is %s", f.timeout), c.CommandPath())
			}
			return f.wait(c, list[0])
		},
	})
	c.Flags().DurationVar(&f.timeout, "timeout", 0, "how long to wait at most (default: until it has ended)")
	return c
}

func (f *sessionFlags) wait(c *cobra.Command, id string) error {
	path, err := f.host.Path()
	if err != nil {
		return cli.UsageError(err, c.CommandPath())
	}
	ctx, until := c.Context(), time.Now().Add(f.timeout)
	if f.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, until)
		defer cancel()
	}
	for {
		snap := &sessions.Snapshot{}
		err := control.Call(ctx, path, "session.wait", f.args(id), snap)
		switch {
		case err == nil && snap.Status.Settled():
			return f.ended(snap)
		case f.timeout > 0 && !time.Now().Before(until) && c.Context().Err() == nil: // the timeout wins over the connection's error
			return host.Errorf(host.DeadlineExceeded, "the turn %s has not ended after %s", id, f.timeout).WithHint("it goes on: wait again, or abort it")
		case err != nil:
			return f.hinted(err)
		}
	}
}

// ended shows how a turn has ended.
func (f *sessionFlags) ended(snap *sessions.Snapshot) error {
	if f.host.JSON {
		if err := ui.PrintJSON(f.term.Out, snap); err != nil {
			return err
		}
	} else {
		f.answer(snap)
	}
	switch {
	case snap.Status == sessions.Completed:
		return nil
	case snap.Status == sessions.Aborted:
		return host.Errorf(host.Canceled, "the turn %s was aborted", snap.ID)
	case snap.Status == sessions.Expired:
		return host.Errorf(host.Unavailable, "the turn %s has expired: who ran it is gone", snap.ID).WithHint("start the host again: it goes on with it")
	case snap.Error != nil:
		return snap.Error
	}
	return host.Errorf(host.Internal, "the turn %s is %s", snap.ID, snap.Status)
}

func (f *sessionFlags) answer(snap *sessions.Snapshot) {
	if snap.State != nil {
		for i := len(snap.State.Messages) - 1; i >= 0; i-- {
			m := snap.State.Messages[i]
			if m.Role == host.User {
				break
			}
			if m.Role == host.Assistant && m.Text() != "" {
				fmt.Fprintln(f.term.Out, termtext.Printable(m.Text()))
				break
			}
		}
	}
	for _, q := range snap.Questions {
		fmt.Fprintf(f.term.Out, "%s asks: %s\n", termtext.Printable(q.Tool), ui.OneLine(q.Reason))
	}
	fmt.Fprintf(f.term.Out, "(%s; session %s; snapshot %s)\n", snap.Status, termtext.Printable(snap.Session), termtext.Printable(snap.ID))
}

func sessionAbort(t *ui.Terminal) *cobra.Command {
	f := &sessionFlags{term: t}
	return f.add(&cobra.Command{
		Use:   "abort SNAPSHOT",
		Short: "Ask a turn to end",
		Long: `Ask a turn to end. It is aborting until it has, and then aborted; what was finished
of it is kept under its snapshot. A turn that has ended keeps its status.`,
		Example: "  agenthost session abort SNAPSHOT --data ./data",
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			status := &turnStatus{}
			if err := f.host.Ask(c, "session.abort", f.args(list[0]), status); err != nil {
				return f.hinted(err)
			}
			return t.Report(f.host.JSON, status, "%s\n", status.Status)
		},
	})
}

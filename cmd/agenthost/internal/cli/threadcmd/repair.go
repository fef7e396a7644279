package threadcmd

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/termtext"
)

func (g *group) repair() *cobra.Command {
	return &cobra.Command{
		Use:   "repair THREAD",
		Short: "Replace what is damaged of a thread, so that it goes on",
		Long: `Replace the damaged entries that keep a thread from being read, which agenthost data
verify finds: a message by a line that says so, in its place; the state by that of
the last turn whose state can be read; records of turns in the background are
removed. What is replaced is lost: if there is a backup, restore that instead.`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			return g.withThread(c.Context(), list, func(s *threads.Store) error {
				repaired, err := s.For(g.flags.Tenant).Repair(c.Context(), list[0])
				if err != nil {
					return err
				}
				removed, err := sessions.Repair(c.Context(), s.Driver(), g.flags.Tenant, list[0])
				if err != nil {
					return err
				}
				if g.flags.JSON {
					return ui.PrintJSON(g.term.Out, struct {
						*threads.Repaired
						Background []string `json:"background,omitempty"` // runs whose records were removed
					}{repaired, removed})
				}
				printRepaired(g.term.Out, list[0], repaired, removed)
				return nil
			})
		},
	}
}

func printRepaired(w io.Writer, thread string, r *threads.Repaired, removed []string) {
	if len(r.Messages)+len(removed) == 0 && !r.State {
		fmt.Fprintf(w, "%s can be read: nothing was changed.\n", termtext.Printable(thread))
		return
	}
	for _, id := range r.Messages {
		fmt.Fprintf(w, "Message %s is lost: a line in its place says so.\n", termtext.Printable(id))
	}
	switch {
	case r.State && r.StateOf == "":
		fmt.Fprintln(w, "The state is lost: the thread has none.")
	case r.State:
		fmt.Fprintf(w, "The state is lost: the thread has that after turn %s.\n", termtext.Printable(r.StateOf))
	}
	for _, run := range removed {
		fmt.Fprintf(w, "The record of turn %s in the background is removed.\n", termtext.Printable(run))
	}
}

package sessioncmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/control"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/internal/termtext"
)

type chatFlags struct {
	term *ui.Terminal
	host control.Flags

	target, tenant, session, snapshot string
	detach                            bool
}

// NewChat returns the command agenthost chat.
func NewChat(t *ui.Terminal) *cobra.Command {
	f := chatFlags{term: t}
	c := &cobra.Command{
		Use:   "chat [PROMPT|-]",
		Short: "Say something in a session of a running host",
		Long: `Say something in a session of a running host (agenthost dev PROJECT --data DIR),
and see the answer as it comes, on stdout; the session and snapshot are on stderr. The host keeps the session: --session goes on
with one from its last completed turn, or begins it; --snapshot goes on from one of
its turns, whatever came after it. Without either a new session begins. An empty
text ("") has the last turn tried again, if it failed. Without a text, on a terminal, it is
a conversation.

With --detach the turn runs in the background: the command ends at once, and says
by which snapshot agenthost session wait, status and abort know the turn. It goes
on whoever listens; if the host ends, the next one goes on with it.

What the configuration hides from clients (client: {hide: [...]}) is not shown.`,
		Example: `  agenthost chat --data ./data --session desk "where is order 1042?"
  agenthost chat --data ./data --session desk "and 1043?" --json
  agenthost chat --data ./data --detach "check all open orders"`,
		Args: cli.Args(cli.OneText(0, "say it in quotes")),
		RunE: func(c *cobra.Command, list []string) error {
			path, err := f.host.Path()
			if err != nil {
				return cli.UsageError(err, c.CommandPath())
			}
			if len(list) == 0 {
				if !t.InIsTerminal || f.detach || f.host.JSON {
					return cli.UsageError(errors.New("say something: a conversation needs a terminal, and neither --detach nor --json"), c.CommandPath())
				}
				return f.talk(c.Context(), path)
			}
			text := list[0]
			if text == "-" {
				if text, _, err = cli.ReadPrompt(t, list, true); err != nil {
					return err
				}
			}
			if !utf8.ValidString(text) { // on its way to the host it would be changed
				return cli.NotUTF8("the text")
			}
			return f.say(c.Context(), path, text)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f.host.AddTo(c)
	flags := c.Flags()
	flags.StringVar(&f.session, "session", "", "the session to go on with, or to begin")
	flags.StringVar(&f.snapshot, "snapshot", "", "the turn to go on from")
	flags.BoolVar(&f.detach, "detach", false, "have the turn run in the background")
	flags.StringVar(&f.target, "target", "", "the network or agent (default: the configuration's)")
	flags.StringVar(&f.tenant, "tenant", "", "whose session it is")
	completeTarget(c, &f.host)
	return c
}

// say runs one turn and shows it.
func (f *chatFlags) say(ctx context.Context, path, text string) error {
	chat, err := sessions.NewChat(socketClient{path, f.target, f.tenant}, &sessions.Start{Session: f.session, Snapshot: f.snapshot})
	if err != nil {
		return err
	}
	if text == "" {
		if done, err := f.printNothingToRetry(ctx, path); done || err != nil {
			return err
		}
	}
	said := &sessions.Say{Text: text, Detach: f.detach}
	wrote := false
	for chunk, err := range chat.Stream(ctx, said) {
		if err != nil {
			return err
		}
		if f.host.JSON {
			line, err := json.Marshal(chunk.Event)
			if err != nil {
				return host.Errorf(host.Internal, "write an event: %w", err)
			}
			fmt.Fprintf(f.term.Out, "%s\n", line)
		}
		switch d := chunk.Data.(type) {
		case *runevent.TextDelta:
			if !f.host.JSON {
				fmt.Fprint(f.term.Out, termtext.Printable(d.Text))
				wrote = true
			}
		case *sessions.TurnEnded:
			return f.ended(&d.Output, wrote)
		}
	}
	return nil
}

// printNothingToRetry reports whether an empty text has no turn to try again, because the
// last one was completed. It prints so, and the model is not asked.
func (f *chatFlags) printNothingToRetry(ctx context.Context, path string) (bool, error) {
	if f.session == "" && f.snapshot == "" {
		return false, nil
	}
	var last lastTurn
	err := control.Call(ctx, path, "session.last", lastTurnArgs{Target: f.target, Tenant: f.tenant, Session: f.session, Snapshot: f.snapshot}, &last)
	switch {
	case host.CodeOf(err) == host.NotFound && err != nil: // the turn names the missing session
		return false, nil
	case err != nil:
		return false, err
	case last.Status != string(sessions.Completed):
		return false, nil
	}
	if f.host.JSON {
		return true, ui.PrintJSON(f.term.Out, last)
	}
	_, err = fmt.Fprintln(f.term.Out, "The last turn was completed: there is nothing to try again.")
	return true, err
}

// ended prints how a turn has ended, and the session and snapshot to continue from.
func (f *chatFlags) ended(out *sessions.Output, wrote bool) error {
	if !f.host.JSON {
		if wrote {
			fmt.Fprintln(f.term.Out)
		}
		for _, q := range out.Questions {
			fmt.Fprintf(f.term.Err, "%s asks: %s\n", termtext.Printable(q.Tool), ui.OneLine(q.Reason))
		}
		if out.FinishReason == sessions.FinishDetached {
			f.printWaitCommand(out)
		} else if out.Snapshot != "" {
			fmt.Fprintf(f.term.Err, "(session %s; snapshot %s)\n", termtext.Printable(out.Session), termtext.Printable(out.Snapshot))
		}
	}
	if out.Error != nil {
		return out.Error
	}
	if len(out.Questions) > 0 {
		return cli.QuietExit(cli.ExitWaiting)
	}
	return nil
}

// printWaitCommand prints the command that waits for a turn in the background.
func (f *chatFlags) printWaitCommand(out *sessions.Output) {
	tenant := ""
	if f.tenant != "" {
		tenant = " --tenant " + termtext.ShellWord(f.tenant)
	}
	fmt.Fprintf(f.term.Out, "The turn runs in the background (session %s; snapshot %s). Wait for it with:\n  %s session wait %s%s%s\n",
		termtext.Printable(out.Session), termtext.Printable(out.Snapshot), ui.Self(), termtext.ShellWord(out.Snapshot), control.HostWords(&f.host.Data, cmp.Or(f.host.Socket, control.SocketPath(f.host.Data.LocalDir()))), tenant)
}

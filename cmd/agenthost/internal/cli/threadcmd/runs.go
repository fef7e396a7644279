package threadcmd

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/lookup"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/termtext"
)

func (g *group) runs() *cobra.Command {
	return &cobra.Command{
		Use:   "runs",
		Short: "List the runs that wait for an answer, or whose process ended",
		Args:  cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return g.readThreads(c.Context(), func(s *threads.Store) error {
				runs, err := s.For(g.flags.Tenant).Runs(c.Context())
				if err == nil {
					runs, err = lookup.Answerable(c.Context(), s, g.flags.Tenant, runs)
				}
				if err != nil {
					return err
				}
				if g.flags.JSON {
					return ui.PrintItems(g.term.Out, shownRuns(runs))
				}
				head := []string{"RUN", "STATUS", "TARGET", "THREAD", "UPDATED"}
				if slices.ContainsFunc(runs, func(r *host.RunRecord) bool { return len(r.Asks) > 0 }) {
					head = append(head, "KEY", "UNTIL")
				}
				table := ui.NewTable(g.term, head...)
				for _, r := range runs {
					cells := []string{r.Run, string(r.Status), termtext.Printable(r.Target), termtext.Printable(r.Thread), r.Updated.Local().Format(time.DateTime)}
					table.Row(append(cells, termsWords(r.Asks)...)...)
				}
				return table.PrintOr("No run of tenant %s waits.\n", termtext.Printable(cli.TenantOr(g.flags.Tenant)))
			})
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
}

// termsWords are the keys of questions and the first time at which one is over, as
// the last columns of a table; nothing for questions without either.
func termsWords(asks []host.AskedQuestion) []string {
	if len(asks) == 0 {
		return nil
	}
	var keys []string
	var until *time.Time
	for _, a := range asks {
		if a.Key != "" {
			keys = append(keys, termtext.Printable(a.Key))
		}
		if a.Expires != nil && (until == nil || a.Expires.Before(*until)) {
			until = a.Expires
		}
	}
	words := []string{strings.Join(keys, ", "), ""}
	if until != nil {
		words[1] = until.Local().Format(time.DateTime)
	}
	return words
}

// shownRun is a run as thread runs --json prints it.
type shownRun struct {
	Run     string         `json:"run"`
	Status  host.RunStatus `json:"status"`
	Target  string         `json:"target"`
	Thread  string         `json:"thread,omitempty"`
	Created time.Time      `json:"created_at"`
	Updated time.Time      `json:"updated_at"`

	Questions []host.AskedQuestion `json:"questions,omitempty"` // if one has a key or a time
}

func shownRuns(runs []*host.RunRecord) []shownRun {
	out := make([]shownRun, len(runs))
	for i, r := range runs {
		out[i] = shownRun{Run: r.Run, Status: r.Status, Target: r.Target, Thread: r.Thread, Created: r.Created, Updated: r.Updated, Questions: r.Asks}
	}
	return out
}

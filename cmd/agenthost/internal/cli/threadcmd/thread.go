package threadcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/open"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/trace"
	"github.com/agenthost/agenthost/internal/termtext"
)

// group is what the commands of agenthost thread share: the terminal, how data directories
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
		Use:   "thread",
		Short: "Look at stored conversations, change and move them",
		Args:  cli.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	g.dirs.AddFlags(c, &g.flags, "where threads are kept")
	g.flags.AddTenantTo(c, cli.TenantUsage("whose threads"))
	cli.CompleteBy(c, "tenant", dirs.Tenants(&g.flags.Data))
	c.AddCommand(g.list(), g.show(), g.exportCommand(), g.importCommand(), g.runs(),
		g.edit(), g.deleteMessage(), g.rewind(), g.fork(), g.branches(), g.repair(),
		g.search(), g.prune(), g.delete())
	open.CompleteArgs(c, "THREAD", dirs.Stored(&g.flags.Data, g.threadIDs))
	open.CompleteArgs(c, "THREAD...", dirs.Stored(&g.flags.Data, g.threadIDs))
	return c
}

// readThreads opens an existing data directory to read it: the user need not be able
// to write to it.
func (g *group) readThreads(ctx context.Context, fn func(*threads.Store) error) (err error) {
	if err := open.CheckData(&g.flags.Data, "agenthost thread"); err != nil {
		return err
	}
	driver, err := datadir.OpenToRead(ctx, g.flags.Data.Text(), g.dirs.Options(), g.dirs.NoteCopy(g.flags.Data.String()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, driver.Close()) }()
	return g.hinted(fn(threads.New(driver.Driver, nil)))
}

// hinted adds where ids are found to the error of a thread, or a message, that is not there.
func (g *group) hinted(err error) error {
	return cli.HintIfMissing(err, "agenthost thread list%s names the threads, and thread show the messages of one", g.flags.Words())
}

// withThreads opens a data directory that must exist.
func (g *group) withThreads(ctx context.Context, fn func(*threads.Store) error) error {
	return g.dirs.With(ctx, &g.flags.Data, "agenthost thread", func(dir *datadir.Dir) error {
		return g.hinted(fn(threads.New(dir.Driver, &threads.Options{Repaired: dir.AnnounceRepair, Deleted: func(ctx context.Context, tenant, id string) error {
			traces, err := g.traces(dir)
			if err != nil {
				return err
			}
			return dir.ThreadOptions(traces).Deleted(ctx, tenant, id)
		}})))
	})
}

// traces opens the traces of the data; nil if no run is stored.
func (g *group) traces(data *datadir.Dir) (*trace.Log, error) {
	if dir := g.flags.Data.At().Dir(); dir != "" {
		if _, err := os.Stat(datadir.TracesPath(dir)); err != nil {
			return nil, nil
		}
	}
	return data.OpenTraces(g.term.Logger())
}

func (g *group) list() *cobra.Command {
	var page cli.Page
	c := &cobra.Command{
		Use:   "list",
		Short: "List threads, the one that moved last first",
		Args:  cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return g.readThreads(c.Context(), func(s *threads.Store) error {
				list, err := s.For(g.flags.Tenant).List(c.Context(), &threads.ListOptions{Limit: page.Limit, Cursor: page.Cursor})
				if err != nil {
					return err
				}
				return cli.PrintPage(g.term, g.flags.JSON, list.Threads, list.Next, g.printThreads)
			})
		},
	}
	page.AddTo(c)
	return c
}

func (g *group) printThreads(t *ui.Terminal, list []*threads.Thread) error {
	table := ui.NewTable(t, "THREAD", "UPDATED", "MESSAGES", "STATUS", "TITLE")
	for _, th := range list {
		table.Row(termtext.Printable(th.ID), th.Updated.Local().Format(time.DateTime), strconv.Itoa(th.Messages), string(th.Status), ui.OneLine(th.Title))
	}
	return table.PrintOr("Tenant %s has no threads yet.\n", termtext.Printable(cli.TenantOr(g.flags.Tenant)))
}

func (g *group) show() *cobra.Command {
	var limit int
	var m momentFlags
	c := &cobra.Command{
		Use:   "show THREAD",
		Short: "Show a thread's messages",
		Args:  cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			return m.readMoment(c, g, list, func(s *threads.Store, at threads.At) error {
				t, err := s.For(g.flags.Tenant).ShowAt(c.Context(), list[0], at, limit)
				if err != nil {
					return err
				}
				if g.flags.JSON {
					return ui.PrintJSON(g.term.Out, t)
				}
				return printTranscript(g.term.Out, t)
			})
		},
	}
	c.Flags().IntVar(&limit, "limit", 0, "the last messages only")
	m.add(c)
	return c
}

func printTranscript(w io.Writer, t *threads.Transcript) error {
	fmt.Fprintf(w, "%s  %s  %s\n", termtext.Printable(t.Thread.ID), ui.OneLine(t.Thread.Title), shownOf(len(t.Messages), t.First))
	for i, m := range t.Messages {
		who := string(m.Role)
		if m.Agent != "" {
			who += " " + m.Agent
		}
		fmt.Fprintf(w, "\n[%d] %s  %s\n", t.First+i, termtext.Printable(who), m.CreatedAt.Local().Format(time.DateTime))
		for _, part := range m.Parts {
			fmt.Fprintln(w, "  "+strings.ReplaceAll(ui.PartText(part), "\n", "\n  "))
		}
		if s := endingAt(t, t.First+i+1); s != nil && s.Error != nil {
			fmt.Fprintf(w, "  (%s)\n", endWords(s))
		}
	}
	if left := besideMessages(t); left != "" {
		fmt.Fprintf(w, "\nNot shown: %s. See --json.\n", left)
	}
	return nil
}

// shownOf counts the messages of a transcript, and names those shown.
func shownOf(shown, before int) string {
	if before == 0 {
		return ui.Plural(shown, "message")
	}
	return fmt.Sprintf("%s, of which the last %d %s shown; see --limit", ui.Plural(before+shown, "message"), shown, isAre(shown))
}

// endWords describes the end of a turn that did not complete.
func endWords(s *threads.Snapshot) string {
	if s.Error.Message == string(s.Status) {
		return termtext.Printable(s.Error.Message)
	}
	return fmt.Sprintf("%s: %s", s.Status, termtext.Printable(s.Error.Message))
}

// besideMessages names the other contents of a thread, beside its messages.
func besideMessages(t *threads.Transcript) string {
	var what []string
	if state := string(t.State); state != "" && state != "{}" && state != "null" {
		what = append(what, "the state ("+ui.ShortBytes(int64(len(state)))+")")
	}
	if n := len(t.Artifacts); n > 0 {
		what = append(what, ui.Plural(n, "artifact"))
	}
	return strings.Join(what, " and ")
}

// endingAt returns the snapshot of the last turn that ended at a position, also
// if it left no message.
func endingAt(t *threads.Transcript, at int) *threads.Snapshot {
	for _, s := range slices.Backward(t.Snapshots) {
		if s.To == at {
			return s
		}
	}
	return nil
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

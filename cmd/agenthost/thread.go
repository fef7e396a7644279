package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/termtext"
)

type threadFlags struct {
	data, tenant string
	json         bool
}

func threadCommand(env *environment) *cobra.Command {
	var f threadFlags
	c := &cobra.Command{
		Use:   "thread",
		Short: "Look at stored conversations, change and move them",
		Args:  args(cobra.NoArgs),
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.PersistentFlags().StringVar(&f.data, "data", "", "directory that keeps threads (required)")
	c.PersistentFlags().StringVar(&f.tenant, "tenant", "", tenantUsage("whose threads"))
	c.PersistentFlags().BoolVar(&f.json, "json", false, "print JSON")
	c.AddCommand(threadList(env, &f), threadShow(env, &f), threadExport(env, &f), threadImport(env, &f), threadRuns(env, &f),
		threadEdit(env, &f), threadDeleteMessage(env, &f), threadRewind(env, &f), threadFork(env, &f), threadBranches(env, &f),
		threadSearch(env, &f), threadPrune(env, &f), threadDelete(env, &f))
	return c
}

// readThreads opens an existing data directory to read it: the user need not be able
// to write to it.
func readThreads(ctx context.Context, env *environment, f *threadFlags, fn func(*threads.Store) error) (err error) {
	if err := checkData(f.data, "agenthost thread"); err != nil {
		return err
	}
	driver, err := datadir.OpenToRead(ctx, f.data, env.dataOptions(), env.noteCopy(f.data))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, driver.Close()) }()
	return fn(threads.New(driver.Driver, nil))
}

// withThreads opens a data directory that must exist.
func withThreads(env *environment, f *threadFlags, fn func(*threads.Store) error) (err error) {
	if err := checkData(f.data, "agenthost thread"); err != nil {
		return err
	}
	driver, err := datadir.OpenShared(context.Background(), f.data, env.dataOptions())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, driver.Close()) }()
	return fn(threads.New(driver.Driver, &threads.Options{Deleted: func(_ context.Context, tenant, id string) error {
		if _, err := os.Stat(datadir.TracesPath(f.data)); err != nil {
			return nil // no run is stored
		}
		traces, err := driver.OpenTraces(f.data, env.logger())
		if err != nil {
			return err
		}
		return traces.EraseThread(tenant, id)
	}}))
}

func threadList(env *environment, f *threadFlags) *cobra.Command {
	var limit int
	var cursor string
	c := &cobra.Command{
		Use:   "list",
		Short: "List threads, the one that moved last first",
		Args:  args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return readThreads(c.Context(), env, f, func(s *threads.Store) error {
				page, err := s.For(f.tenant).List(c.Context(), &threads.ListOptions{Limit: limit, Cursor: cursor})
				if err != nil {
					return err
				}
				if f.json {
					return printPage(env.stdout, page.Threads, page.Next)
				}
				return printThreads(env.stdout, page)
			})
		},
	}
	c.Flags().IntVar(&limit, "limit", 0, "how many at most")
	c.Flags().StringVar(&cursor, "cursor", "", "go on where a page ended")
	return c
}

func printThreads(w io.Writer, page *threads.Page) error {
	if len(page.Threads) == 0 {
		fmt.Fprintln(w, "No threads yet.")
		return nil
	}
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "THREAD\tUPDATED\tMESSAGES\tSTATUS\tTITLE")
	for _, t := range page.Threads {
		fmt.Fprintf(tw, "%s\t%s\t%d\t%s\t%s\n", termtext.Printable(t.ID), t.Updated.Local().Format(time.DateTime), t.Messages, t.Status, oneLine(t.Title))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if page.Next != "" {
		fmt.Fprintf(w, "More with: --cursor %s\n", page.Next)
	}
	return nil
}

func oneLine(s string) string { return termtext.Printable(strings.Join(strings.Fields(s), " ")) }

func threadShow(env *environment, f *threadFlags) *cobra.Command {
	var limit int
	var m momentFlags
	c := &cobra.Command{
		Use:   "show THREAD",
		Short: "Show a thread's messages",
		Args:  args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			return m.readMoment(c, env, f, list, func(s *threads.Store, at threads.At) error {
				t, err := s.For(f.tenant).ShowAt(c.Context(), list[0], at, limit)
				if err != nil {
					return err
				}
				if f.json {
					return printJSON(env.stdout, t)
				}
				return printTranscript(env.stdout, t)
			})
		},
	}
	c.Flags().IntVar(&limit, "limit", 0, "the last messages only")
	m.add(c)
	return c
}

func printTranscript(w io.Writer, t *threads.Transcript) error {
	fmt.Fprintf(w, "%s  %s  %s\n", termtext.Printable(t.Thread.ID), oneLine(t.Thread.Title), shownOf(len(t.Messages), t.First))
	for i, m := range t.Messages {
		who := string(m.Role)
		if m.Agent != "" {
			who += " " + m.Agent
		}
		fmt.Fprintf(w, "\n[%d] %s  %s\n", t.First+i, termtext.Printable(who), m.CreatedAt.Local().Format(time.DateTime))
		for _, part := range m.Parts {
			fmt.Fprintln(w, "  "+strings.ReplaceAll(partLine(part), "\n", "\n  "))
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
		return plural(shown, "message")
	}
	return fmt.Sprintf("%s, of which the last %d %s shown; see --limit", plural(before+shown, "message"), shown, isAre(shown))
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
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
		what = append(what, "the state ("+shortBytes(int64(len(state)))+")")
	}
	if n := len(t.Artifacts); n > 0 {
		what = append(what, plural(n, "artifact"))
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

func partLine(part host.Part) string {
	switch p := part.(type) {
	case *host.Text:
		return termtext.Printable(p.Text)
	case *host.ToolCall:
		return fmt.Sprintf("calls %s %s", termtext.Printable(p.Name), clip(string(p.Arguments)))
	case *host.ToolResult:
		mark := "→"
		if p.IsError {
			mark = "✗"
		}
		return fmt.Sprintf("%s %s %s", mark, termtext.Printable(p.Name), clip(string(p.Content)))
	case *host.Reasoning:
		return "thinks: " + clip(p.Text)
	}
	return "(" + termtext.Printable(part.Type()) + ")"
}

package threadcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/files"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/transfer"
	"github.com/agenthost/agenthost/internal/termtext"
)

func formatNames(formats []transfer.Format) string {
	var names []string
	for _, f := range formats {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ")
}

// completeFormat completes --format.
func completeFormat(c *cobra.Command, formats []transfer.Format) {
	cli.CompleteWords(c, "format", strings.Split(formatNames(formats), ", "))
}

func (g *group) exportCommand() *cobra.Command {
	var format, out string
	c := &cobra.Command{
		Use:   "export THREAD",
		Short: "Write a thread to stdout or a file",
		Long: `Write a thread to stdout or, with --out, to a file, which is there whole or not at
all. The format thread is everything there is; openai and openai-jsonl are its
messages as OpenAI's chat API has them.`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			return g.readThread(c.Context(), list, func(s *threads.Store) error {
				if out == "" {
					return transfer.Export(c.Context(), s.For(g.flags.Tenant), list[0], transfer.Format(format), g.term.Out)
				}
				n, err := g.exportFile(c.Context(), s, list[0], transfer.Format(format), out)
				if err != nil {
					return err
				}
				return g.term.Report(g.flags.JSON, exported{Thread: list[0], Format: transfer.Format(format), File: out, Bytes: n}, "Wrote thread %s to %s: %s.\n", termtext.Printable(list[0]), out, ui.ByteWords(n))
			})
		},
	}
	c.Flags().StringVar(&format, "format", string(transfer.FormatThread), "one of: "+formatNames(transfer.Formats()))
	completeFormat(c, transfer.Formats())
	c.Flags().StringVarP(&out, "out", "o", "", "a file to write to")
	return c
}

// exported is the output of thread export --out --json.
type exported struct {
	Thread string          `json:"thread"`
	Format transfer.Format `json:"format"`
	File   string          `json:"file"`
	Bytes  int64           `json:"bytes"`
}

func (g *group) exportFile(ctx context.Context, s *threads.Store, id string, format transfer.Format, out string) (int64, error) {
	show := ui.NewProgress(g.term)
	defer show.End()
	count := &counted{tell: func(n int64) { show.Say("%s", ui.ByteWords(n)) }}
	err := files.Stream(out, func(w io.Writer) error {
		count.w = w
		return transfer.Export(ctx, s.For(g.flags.Tenant), id, format, count)
	})
	return count.n, err
}

// counted counts the bytes written through it.
type counted struct {
	w    io.Writer
	n    int64
	tell func(int64)
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	c.tell(c.n)
	return n, err
}

func (g *group) importCommand() *cobra.Command {
	var format, thread string
	c := &cobra.Command{
		Use:   "import FILE|-",
		Short: "Store a thread that was exported, or one of OpenAI messages",
		Long: `Store a thread from a file, or from stdin with -. The format is seen from how the
file begins, unless --format names it: a thread that was exported comes with its
turns, state and artifacts, and under its id unless --thread names another; a file
of OpenAI messages, as an object with "messages", an array, or one a line, needs
--thread. A training file of OpenAI's (openai-training), one object with "messages"
a line, is a thread a line: --thread chats makes chats-1, chats-2 and so on.

Importing a file again stores nothing twice, and goes on with an import that was
interrupted. A thread of that id that is another conversation is left alone.`,
		Example: "  agenthost thread import t1.json --data ./data\n" +
			"  agenthost thread import chat.jsonl --thread t2 --data ./data\n" +
			"  agenthost thread import training.jsonl --thread chats --data ./data",
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			return g.importFile(c.Context(), list[0], thread, transfer.Format(format))
		},
	}
	c.Flags().StringVar(&format, "format", "", "one of: "+formatNames(transfer.ImportFormats()))
	completeFormat(c, transfer.ImportFormats())
	c.Flags().StringVar(&thread, "thread", "", "the id to import it under; of a training file, what the ids begin with")
	return c
}

func (g *group) importFile(ctx context.Context, file, thread string, format transfer.Format) (err error) {
	if !g.flags.Data.Given() {
		return cli.UsageError(errors.New("--data is required: where the threads are kept"), "agenthost thread import")
	}
	in, closeIn, err := files.Open(g.term.In, file)
	if err != nil {
		return err
	}
	defer closeIn()
	if format == "" {
		if format, in, err = transfer.Detect(in); err != nil {
			return importHint(err, file)
		}
	}
	if format == transfer.FormatOpenAITraining {
		return g.importTraining(ctx, file, thread, in)
	}
	src, err := transfer.NewSource(format, in)
	if err != nil {
		return importHint(err, file)
	}
	driver, err := datadir.OpenShared(ctx, g.flags.Data.Text(), g.dirs.Options())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, driver.Close()) }()
	show := ui.NewProgress(g.term)
	got, err := transfer.Import(ctx, threads.New(driver.Driver, nil).For(g.flags.Tenant), src, &transfer.ImportOptions{
		Thread: thread, Progress: func(n int) { show.Say("%s", ui.Plural(n, "message")) },
	})
	show.End()
	if err != nil {
		return importHint(err, file)
	}
	if g.flags.JSON {
		return ui.PrintJSON(g.term.Out, got)
	}
	return g.printImported(got)
}

// importHint adds a command-line hint to an error without one.
func importHint(err error, file string) error {
	e := *fault.AsError(err)
	e.Err = err
	e.Message = strings.Replace(e.Message, "import:", "import "+cmp.Or(file, "-")+":", 1)
	switch {
	case errors.Is(err, transfer.ErrTrailing):
		e.Hint = "a file with a conversation on each line is imported with --format " + string(transfer.FormatOpenAITraining)
	case errors.Is(err, transfer.ErrNoThread):
		e.Hint = "name one with --thread"
	case e.Code == host.AlreadyExists:
		e.Hint = "what the thread has is as it was; import under another id with --thread"
	}
	return &e
}

// importTraining imports each line of a training file as a thread of its own.
func (g *group) importTraining(ctx context.Context, file, prefix string, in io.Reader) (err error) {
	if prefix == "" {
		return cli.UsageError(errors.New("--thread is required: what the ids of a training file's threads begin with"), "agenthost thread import")
	}
	sources, err := transfer.NewSources(transfer.FormatOpenAITraining, in)
	if err != nil {
		return importHint(err, file)
	}
	driver, err := datadir.OpenShared(ctx, g.flags.Data.Text(), g.dirs.Options())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, driver.Close()) }()
	store := threads.New(driver.Driver, nil)
	show := ui.NewProgress(g.term)
	defer show.End()
	n, made, messages := 0, 0, 0
	for src, err := range sources {
		id := fmt.Sprintf("%s-%d", prefix, n+1)
		var got *transfer.Imported
		if err == nil {
			got, err = transfer.Import(ctx, store.For(g.flags.Tenant), src, &transfer.ImportOptions{Thread: id})
		}
		if err != nil {
			return lineError(importHint(err, file), n)
		}
		n, messages = n+1, messages+got.Messages
		if got.Created {
			made++
		}
		show.Say("%s", ui.Plural(n, "thread"))
		if g.flags.JSON {
			if err := ui.PrintJSON(g.term.Out, got); err != nil {
				return err
			}
		}
	}
	if !g.flags.JSON {
		show.End()
		rest := ""
		if made < n {
			rest = "; the others were there already"
		}
		fmt.Fprintf(g.term.Out, "Imported %s of %s, with %s%s.\n", ui.Plural(made, "thread"), ui.Plural(n, "conversation"), ui.Plural(messages, "message"), rest)
	}
	return nil
}

// lineError says which conversation of a file an error is about.
func lineError(err error, before int) error {
	e := *fault.AsError(err)
	e.Message = fmt.Sprintf("conversation %d: %s", before+1, e.Message)
	if e.Hint == "" {
		e.Hint = fmt.Sprintf("mend it and import the file again: of the %s before it nothing is stored twice", ui.Plural(before, "conversation"))
	}
	e.Err = err
	return &e
}

func (g *group) printImported(got *transfer.Imported) error {
	t := got.Thread
	switch {
	case got.Messages+got.Turns == 0 && !got.Created:
		fmt.Fprintf(g.term.Out, "Thread %s has all of it already: %s.\n", termtext.Printable(t.ID), ui.Plural(t.Messages, "message"))
	case !got.Created:
		fmt.Fprintf(g.term.Out, "Added %s to thread %s.\n", ui.Plural(got.Messages, "message"), termtext.Printable(t.ID))
	default:
		fmt.Fprintf(g.term.Out, "Imported thread %s: %s, %s.\n", termtext.Printable(t.ID), ui.Plural(t.Messages, "message"), ui.Plural(t.Turns, "turn"))
	}
	tenant := ""
	if g.flags.Tenant != "" {
		tenant = " --tenant " + termtext.ShellWord(g.flags.Tenant)
	}
	fmt.Fprintf(g.term.Out, "Show it with: agenthost thread show %s%s%s\n", termtext.ShellWord(t.ID), g.flags.Data.Words(), tenant)
	return nil
}

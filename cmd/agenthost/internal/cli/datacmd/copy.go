package datacmd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/kvcopy"
	"github.com/agenthost/agenthost/internal/termtext"
)

func (g *group) copy() *cobra.Command {
	var fromKeyFile string
	var history bool
	c := &cobra.Command{
		Use:   "copy FROM TO",
		Short: "Copy all data to another directory or database",
		Long: `Copy all data of every tenant to another directory or database, and compare the two
at the end. FROM and TO are directories, postgres://user:password@host:5432/database,
or env:NAME for the address in a variable. No host may have FROM or TO open: stop it
first, or what it writes meanwhile is missing and the command says so. Deletions of
tenants in FROM must have ended.

An interrupted copy is resumed by the same command, which only compares the two if the
copy had ended; until it has ended no host uses TO. Nothing changes in FROM, which stays
as it is when the copy has ended.

TO is encrypted with the key that is set, if one is; FROM is read with that key, or with
the one in --from-key-file. Not copied: the traces of runs, and the list of tenants that
were deleted.

With --history FROM is a database with the tables that the flag --history of earlier
versions made (examples/postgreshistory). Its conversations are added to TO, each
compared with what was stored; of a thread that is there already, what is missing.`,
		Example: "  agenthost data copy ./data env:DATABASE_URL",
		Args:    cli.Args(cobra.ExactArgs(2)),
		RunE: func(c *cobra.Command, list []string) error {
			if history {
				return g.printHistory(g.copyHistory(c.Context(), list[0], list[1]))
			}
			report, err := g.copyData(c.Context(), list[0], list[1], fromKeyFile)
			if err != nil {
				return err
			}
			if g.flags.JSON {
				return ui.PrintJSON(g.term.Out, report)
			}
			fmt.Fprintf(g.term.Out, "Copied %s of %s, %s, from %s to %s: both are the same (SHA-256 %.16s...).\n",
				entryWords(report.Entries), ui.Plural(report.Partitions, "partition"), ui.ByteWords(report.Bytes), report.From, report.To, report.Digest)
			if report.Written < report.Entries {
				fmt.Fprintf(g.term.Out, "%s had been copied before.\n", entryWords(report.Entries-report.Written))
			}
			return nil
		},
	}
	g.dirs.AddWaitLock(c.Flags())
	c.Flags().StringVar(&fromKeyFile, "from-key-file", "", "a file with the key of FROM, if it is another than the one that is set")
	c.Flags().BoolVar(&history, "history", false, "copy the conversations in the tables that earlier versions made of their flag --history")
	c.MarkFlagsMutuallyExclusive("history", "from-key-file")
	return c
}

// printHistory prints the result of copyHistory.
func (g *group) printHistory(r *historyReport, err error) error {
	switch {
	case err != nil:
		return err
	case g.flags.JSON:
		return ui.PrintJSON(g.term.Out, r)
	}
	_, err = fmt.Fprintf(g.term.Out, "Copied %s of %s with %s from %s to %s: each is what was stored. %s had not been copied before.\n",
		ui.Plural(r.Threads, "thread"), ui.Plural(r.Tenants, "tenant"), ui.Plural(r.Messages, "message"), r.From, r.To, ui.Plural(r.Written, "message"))
	return err
}

// copyReport is the output of data copy.
type copyReport struct {
	From string `json:"from"`
	To   string `json:"to"`
	kvcopy.Report
}

func (g *group) copyData(ctx context.Context, fromText, toText, fromKeyFile string) (_ *copyReport, err error) {
	fromAt, err := g.dirs.Resolve(fromText)
	if err != nil {
		return nil, err
	}
	toAt, err := g.dirs.Resolve(toText)
	switch {
	case err != nil:
		return nil, err
	case fromAt.InMemory() || toAt.InMemory():
		return nil, cli.UsageError(errors.New("FROM and TO are directories or addresses of databases"), "agenthost data copy")
	case fromAt.String() == toAt.String():
		return nil, cli.UsageError(fmt.Errorf("FROM and TO are both %s", fromAt), "agenthost data copy")
	}
	from, err := g.openSource(ctx, fromAt, fromKeyFile)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	opts := g.dirs.Options()
	opts.Unfinished = true
	to, err := datadir.Open(ctx, toAt.Text(), opts)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	show := ui.NewProgress(g.term)
	defer show.End()
	report, err := kvcopy.Copy(ctx, to, from, &kvcopy.Options{Source: fromAt.String(), Progress: func(p kvcopy.Progress) {
		doing := "copied"
		if p.Comparing {
			doing = "compared"
		}
		show.Say("%s %s", entryWords(p.Entries), doing)
	}})
	if err != nil {
		return nil, copyError(ctx, fromAt, toAt, err)
	}
	return &copyReport{From: fromAt.String(), To: toAt.String(), Report: *report}, nil
}

// openSource opens the data that is copied, or a temporary copy of a directory that this
// user can only read.
func (g *group) openSource(ctx context.Context, at datadir.Address, keyFile string) (*datadir.Dir, error) {
	if !at.IsDatabase() {
		if err := g.dirs.CheckDir(at.Dir()); err != nil {
			return nil, err
		}
	}
	opts := g.dirs.Options()
	if keyFile != "" {
		getenv := opts.Getenv
		opts.Getenv = func(name string) string {
			switch name {
			case datadir.KeyFileVariable:
				return keyFile
			case datadir.KeyVariable:
				return ""
			}
			return getenv(name)
		}
	}
	from, err := datadir.Open(ctx, at.Text(), opts)
	if errors.Is(err, kv.ErrReadOnly) && !at.IsDatabase() {
		from, err = datadir.OpenCopy(ctx, at.Dir(), opts, g.dirs.NoteCopy(at.String()))
	}
	if err != nil {
		return nil, err
	}
	erasing, err := from.Erasing(ctx)
	if err == nil && len(erasing) > 0 {
		err = host.Errorf(host.FailedPrecondition, "%s: the deletion of %s has not ended", at, ui.Plural(len(erasing), "tenant")).
			WithHint("end it first: agenthost data erase %s --data %s --yes", termtext.ShellWord(erasing[0]), addressWord(at))
	}
	if err != nil {
		return nil, errors.Join(err, from.Close())
	}
	return from, nil
}

// copyError returns the error of a copy with its code and the next step.
func copyError(ctx context.Context, from, to datadir.Address, err error) error {
	again := fmt.Sprintf("agenthost data copy %s %s", addressWord(from), addressWord(to))
	message, _, _ := strings.Cut(err.Error(), "; ")
	e := host.Errorf(host.CodeOf(err), "copy %s to %s: %s", from, to, message).WithHint("resume it: %s", again)
	e.Err = err
	switch {
	case ctx.Err() != nil:
		e.Code = host.CodeOf(fault.ContextError(ctx))
	case errors.Is(err, kvcopy.ErrNotEmpty):
		e.Code = host.FailedPrecondition
		e.WithHint("copy to a new directory, or to another schema of the database (?schema=NAME); nothing was changed")
	case errors.Is(err, kvcopy.ErrDiffers):
		e.Code = host.Conflict
		e.WithHint("stop the hosts that write to %s, and copy what is missing: %s", from, again)
	case errors.Is(err, kv.ErrCorrupt):
		e.Code = host.DataLoss
		e.WithHint("see all of the damage: agenthost data verify --data %s", addressWord(from))
	case errors.Is(err, kv.ErrNoSpace):
		e.Code = host.ResourceExhausted
		e.WithHint("free some space, and resume it: %s", again)
	case errors.Is(err, kv.ErrUnavailable):
		e.Code = host.Unavailable
	}
	return e
}

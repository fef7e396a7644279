package auditcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/files"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/open"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host/audit"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/internal/termtext"
)

// group is what the commands of agenthost audit share.
type group struct {
	term  *ui.Terminal
	dirs  *open.Data
	flags cli.StoredFlags
}

// New returns the command.
func New(t *ui.Terminal, dirs *open.Data) *cobra.Command {
	g := &group{term: t, dirs: dirs}
	c := &cobra.Command{
		Use:   "audit",
		Short: "List, verify, export and trim the log of changes",
		Long: `List, verify, export and trim the log of changes by administrators and tenants: who, what, to
which thing, of which tenant, and whether it was allowed. Entries are a chain: one that was
removed, moved or changed is found. A host that runs may append meanwhile.`,
		Example: `  agenthost audit list --tenant acme --data ./data
  agenthost audit export audit.ndjson --data ./data`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	g.dirs.AddFlags(c, &g.flags, "where the log is kept")
	c.AddCommand(g.list(), g.verify(), g.export(), g.trim())
	return c
}

// withLog opens the log, in data that must exist.
func (g *group) withLog(ctx context.Context, fn func(*audit.Log) error) error {
	return g.dirs.With(ctx, &g.flags.Data, "agenthost audit", func(dir *datadir.Dir) error { return fn(audit.New(dir.Driver)) })
}

func (g *group) list() *cobra.Command {
	var f audit.Filter
	var page cli.Page
	c := &cobra.Command{
		Use:   "list",
		Short: "List entries, the last one first",
		Args:  cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			f.Limit = page.Limit
			if f.Before, err = page.Number(c); err != nil {
				return err
			}
			return g.withLog(c.Context(), func(l *audit.Log) error {
				list, err := l.List(c.Context(), &f)
				if err != nil {
					return err
				}
				next := ""
				if list.Next > 0 {
					next = strconv.FormatUint(list.Next, 10)
				}
				return cli.PrintPage(g.term, g.flags.JSON, list.Entries, next, printEntries)
			})
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.Tenant, "tenant", "", "only entries about that tenant")
	flags.StringVar(&f.Actor, "actor", "", "only entries of that caller, such as admin/abcd2345")
	flags.StringVar(&f.Action, "action", "", "only entries of that action, such as tenant.suspend")
	flags.StringVar(&f.Object, "object", "", "only entries about that thing, such as key/abcd2345")
	page.AddTo(c)
	cli.CompleteBy(c, "tenant", g.dirs.Tenants(&g.flags.Data))
	return c
}

func printEntries(t *ui.Terminal, list []*audit.Entry) error {
	table := ui.NewTable(t, "SEQ", "TIME", "ACTOR", "ACTION", "TENANT", "OBJECT", "OUTCOME")
	for _, e := range list {
		table.Row(strconv.FormatUint(e.Seq, 10), e.Time.Local().Format(time.DateTime), word(e.Actor), word(e.Action), word(e.Tenant), word(e.Object), word(e.Outcome))
	}
	return table.PrintOr("There is no entry.\n")
}

func word(text string) string { return cmp.Or(termtext.Printable(text), "-") }

// headFlag is the flag of a head that was kept elsewhere: SEQ:SUM.
type headFlag struct {
	head  audit.Head
	given bool
}

func (f *headFlag) String() string {
	if !f.given {
		return ""
	}
	return headText(f.head)
}

func (f *headFlag) Type() string { return "SEQ:SUM" }

func (f *headFlag) Set(text string) (err error) {
	seq, sum, _ := strings.Cut(text, ":")
	if f.head.Seq, err = strconv.ParseUint(seq, 10, 64); err != nil {
		return errors.New("write a head as audit verify prints it: SEQ:SUM")
	}
	f.given = true
	return f.head.Sum.UnmarshalText([]byte(sum))
}

func headText(h audit.Head) string { return fmt.Sprintf("%d:%s", h.Seq, h.Sum) }

func (g *group) verify() *cobra.Command {
	var known headFlag
	var file string
	c := &cobra.Command{
		Use:   "verify",
		Short: "Check that no entry was removed, moved or changed",
		Long: `Check that no entry was removed, moved or changed, and print the head of the log: SEQ:SUM.
Someone who can write to the data can also compute a whole chain again: a head that was
kept elsewhere, given with --head, shows that. With --export it reads an exported file.`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if file != "" {
				return g.verifyExport(file, known.head)
			}
			return g.withLog(c.Context(), func(l *audit.Log) error {
				var heads []audit.Head
				if known.given {
					heads = append(heads, known.head)
				}
				head, err := l.Verify(c.Context(), heads...)
				if err != nil {
					return err
				}
				return g.printHead("The log is whole", head)
			})
		},
	}
	c.Flags().Var(&known, "head", "a head that was kept elsewhere; with --export that before its first line")
	c.Flags().StringVar(&file, "export", "", "check this file of audit export")
	return c
}

func (g *group) verifyExport(file string, after audit.Head) error {
	in, closeIn, err := files.Open(g.term.In, file)
	if err != nil {
		return err
	}
	defer closeIn()
	head, err := audit.VerifyExport(after, in)
	if err != nil {
		return err
	}
	return g.printHead("The export is whole", head)
}

func (g *group) printHead(text string, head audit.Head) error {
	return g.term.Report(g.flags.JSON, head, "%s: %s. Its head, to be kept elsewhere:\n%s\n", text, entries(head.Seq), headText(head))
}

func entries(n uint64) string {
	if n == 1 {
		return "1 entry"
	}
	return termtext.Thousands(int64(n)) + " entries"
}

func (g *group) export() *cobra.Command {
	var after headFlag
	c := &cobra.Command{
		Use:   "export FILE",
		Short: "Write entries to a file, with their sums",
		Long: `Write entries to a file, or to stdout if it is -: a line of JSON each, with its sum. They
are verified meanwhile. With --after the file continues one that ends with that head.`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			return g.withLog(c.Context(), func(l *audit.Log) error {
				if list[0] == "-" {
					_, err := l.Export(c.Context(), after.head, g.term.Out)
					return err
				}
				var head audit.Head
				err := files.Stream(list[0], func(w io.Writer) (err error) {
					head, err = l.Export(c.Context(), after.head, w)
					return err
				})
				if err != nil {
					return err
				}
				return g.printHead("Wrote "+list[0], head)
			})
		},
	}
	c.Flags().Var(&after, "after", "the head after which to begin")
	return c
}

func (g *group) trim() *cobra.Command {
	var to headFlag
	c := &cobra.Command{
		Use:   "trim",
		Short: "Remove the oldest entries, which an export has",
		Long: `Remove the entries up to a head that audit export has printed, and that file has from then
on. The log begins after them: it is verified from there, and later exports continue the file.
The log is verified up to the head before anything is removed, and trimming is an entry of it.`,
		Example: `  agenthost audit export audit.ndjson --data ./data
  agenthost audit trim --to SEQ:SUM --data ./data`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !to.given {
				return cli.UsageError(errors.New("--to is missing: the head that audit export printed"), "agenthost audit trim")
			}
			return g.dirs.With(c.Context(), &g.flags.Data, "agenthost audit trim", func(dir *datadir.Dir) error {
				if err := open.Record(c.Context(), dir.Driver, "audit.trim", "", fmt.Sprintf("entry/%d", to.head.Seq)); err != nil {
					return err
				}
				removed, err := audit.New(dir.Driver).Trim(c.Context(), to.head)
				if err != nil {
					return err
				}
				done := struct {
					Removed int        `json:"removed"`
					Start   audit.Head `json:"start"`
				}{removed, to.head}
				return g.term.Report(g.flags.JSON, done, "Removed %s. The log begins after:\n%s\n", entries(uint64(removed)), headText(to.head))
			})
		},
	}
	c.Flags().Var(&to, "to", "the head up to which entries are removed")
	return c
}

package datacmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/open"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/audit"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/erasure"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/tenants"
	"github.com/agenthost/agenthost/internal/termtext"
)

// withTenants asks op of the host that has the data directory open, or does it.
func (g *group) withTenants(ctx context.Context, op, tenant string, do func(*erasure.Tenants, *audit.Log) (*erasure.Report, error)) (*erasure.Report, error) {
	out := &erasure.Report{}
	err := g.withData(ctx, op, tenantArgs{tenant}, out, func(s *datadir.Dir) error {
		traces, err := s.OpenTraces(g.term.Logger())
		if err != nil {
			return err
		}
		out, err = do(s.Erasures(traces, nil, nil, tenants.NewRecords(s.Driver)), audit.New(s.Driver))
		return err
	})
	return out, err
}

// NewDelete returns the command agenthost data erase under the name delete, of a group of
// commands with flags of its own.
func NewDelete(t *ui.Terminal, dirs *open.Data, flags *cli.StoredFlags) *cobra.Command {
	return (&group{term: t, dirs: dirs, flags: flags}).erase("delete", "agenthost tenant delete")
}

// NewProve returns the command agenthost data prove, of another group of commands.
func NewProve(t *ui.Terminal, dirs *open.Data, flags *cli.StoredFlags) *cobra.Command {
	return (&group{term: t, dirs: dirs, flags: flags}).prove("agenthost tenant prove")
}

func (g *group) erase(name, command string) *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   name + " TENANT",
		Short: "Delete everything that is kept of a tenant, also from the files",
		Long: `Delete everything that is kept of a tenant: threads, sessions, artifacts, memories, jobs,
what plugins keep for it, traces. From the beginning on nothing of it can be read, and
its data key is destroyed; at the end nothing of it is in any file of the directory. A
host that has the directory open does it for this command, and serves on. If it is
interrupted, the tenant stays deleted, and running it again ends the rest; so does a
host, when it starts.

Backups of before are not touched. Of an encrypted directory they can be restored with
the key file alone, which has no key of the tenant any more; copies of the key file of
before must go. The bytes of a backup of a directory that is not encrypted can be
read, and a restore leaves the tenant out only if it is given the key file.`,
		Example: "  " + command + " acme --data ./data --yes",
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			if err := open.CheckData(&g.flags.Data, command); err != nil {
				return err
			}
			if !yes {
				return cli.UsageError(fmt.Errorf("--yes is required: everything of tenant %s is deleted, and cannot be restored", termtext.ShellWord(list[0])), command)
			}
			report, err := g.withTenants(c.Context(), "data.erase", list[0], func(all *erasure.Tenants, log *audit.Log) (*erasure.Report, error) {
				return eraseAndProve(c.Context(), all, log, fmt.Sprintf("cli/%d", os.Getuid()), list[0])
			})
			if err != nil {
				return err
			}
			return g.printReport(report, true)
		},
	}
	g.addOpenFlags(c)
	c.Flags().BoolVar(&yes, "yes", false, "delete it")
	return c
}

func (g *group) prove(command string) *cobra.Command {
	c := &cobra.Command{
		Use:   "prove TENANT",
		Short: "Show what the files have of a tenant",
		Long: `Show what the files of a data directory have of a tenant, by reading every entry in all of
them, deleted ones included. It ends with exit code 3 if anything is left of a tenant
that was deleted.`,
		Example: "  " + command + " acme --data ./data",
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			if err := open.CheckData(&g.flags.Data, command); err != nil {
				return err
			}
			report, err := g.withTenants(c.Context(), "data.prove", list[0], func(all *erasure.Tenants, _ *audit.Log) (*erasure.Report, error) {
				return all.Prove(c.Context(), list[0])
			})
			if err != nil {
				return err
			}
			return g.printReport(report, report.Store.Erasing)
		},
	}
	g.addOpenFlags(c)
	return c
}

// printReport prints the data stored of a tenant. With deleted set, any data left is
// an error.
func (g *group) printReport(r *erasure.Report, deleted bool) error {
	if g.flags.JSON {
		if err := ui.PrintJSON(g.term.Out, r); err != nil {
			return err
		}
	} else {
		writeReport(g.term.Out, r)
	}
	if r.Gone || !deleted {
		return nil
	}
	return host.Errorf(host.FailedPrecondition, "something is left of tenant %s", termtext.ShellWord(r.Tenant)).
		WithHint("run it again: agenthost data erase %s%s --yes", termtext.ShellWord(r.Tenant), g.flags.Data.Words())
}

func writeReport(w io.Writer, r *erasure.Report) {
	p := r.Store
	fmt.Fprintf(w, "Scanned %s in %s (%s, %s) of %s.\n", entryWords(p.Scanned), ui.Plural(p.Files, "file"), ui.Plural(p.Tables, "table"), ui.Plural(p.Logs, "log"), ui.ByteWords(p.Bytes))
	fmt.Fprintf(w, "Of tenant %s: %s, %d of them readable", ui.OneLine(r.Tenant), entryWords(p.Found), p.Readable)
	if p.Blobs > 0 {
		fmt.Fprintf(w, "; %s", ui.Plural(p.Blobs, "large value"))
	}
	for _, part := range r.Parts {
		fmt.Fprintf(w, "; %s: %d", part.Part, part.Found)
	}
	fmt.Fprintf(w, "; data key: %s.\n", map[bool]string{true: "yes", false: "none"}[p.DataKey])
	for _, name := range p.Unread {
		fmt.Fprintf(w, "  not part of the store: %s\n", name)
	}
	switch {
	case p.Erasing:
		fmt.Fprintln(w, "It is being erased.")
	case r.Gone && p.ErasedAt != nil:
		fmt.Fprintf(w, "Nothing of it is left. It was erased at %s.\n", p.ErasedAt.Local().Format("2006-01-02 15:04:05"))
	case r.Gone:
		fmt.Fprintln(w, "There is nothing of it.")
	}
}

func (g *group) purge() *cobra.Command {
	c := &cobra.Command{
		Use:   "purge",
		Short: "Remove from the files what was deleted",
		Long: `Remove from the files what was deleted: threads, messages, memories. They are out of
sight at once when they are deleted, and their bytes leave the files within ` + fmt.Sprint(badgerkv.DefaultPurgeInterval) + `
of a running host; this does it now.`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := open.CheckDirectory(&g.flags.Data, "agenthost data purge", "the server does it by itself (autovacuum); vacuum does it now"); err != nil {
				return err
			}
			var none struct{}
			err := g.withData(c.Context(), "data.purge", nil, &none, func(s *datadir.Dir) error { return s.Badger().Purge(c.Context()) })
			if err != nil {
				return purgeError(g.flags.Data.At().Dir(), err)
			}
			fmt.Fprintln(g.term.Out, "Nothing that was deleted is in the files.")
			return nil
		},
	}
	g.addOpenFlags(c)
	return c
}

// purgeError gives the error of a store, but not that of a host, its code.
func purgeError(dir string, err error) error {
	var own *host.Error
	if errors.As(err, &own) {
		return err
	}
	return datadir.Error(dir, err)
}

package tenantcmd

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/files"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/open"
	"github.com/agenthost/agenthost/host/audit"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/keys"
	"github.com/agenthost/agenthost/host/memory"
	"github.com/agenthost/agenthost/host/plugin/library"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/host/tenants"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/usage"
	"github.com/agenthost/agenthost/internal/termtext"
)

func (g *group) export() *cobra.Command {
	return &cobra.Command{
		Use:   "export TENANT FILE",
		Short: "Write a tenant's record and data to a file",
		Long: `Write a tenant's record, threads, memories, keys without secrets, usage, entries of the
audit log and uploaded plugins with their modules to a file, or to stdout if it is -: lines of
JSON, {"part":"thread","data":{...}}. The file is there whole or not at all. A host that runs
may serve the tenant meanwhile.`,
		Example: "  agenthost tenant export acme acme.ndjson --data ./data",
		Args:    cli.Args(cobra.ExactArgs(2)),
		RunE: func(c *cobra.Command, list []string) error {
			return g.withTenants(c.Context(), func(dir *datadir.Dir, s *tenants.Store) error {
				if _, err := s.Get(c.Context(), list[0]); err != nil {
					return err
				}
				if err := open.Record(c.Context(), dir.Driver, "tenant.export", list[0], "tenant/"+list[0]); err != nil {
					return err
				}
				if list[1] == "-" {
					return exportTo(c.Context(), dir, s, list[0], g.term.Out)
				}
				err := files.Stream(list[1], func(w io.Writer) error { return exportTo(c.Context(), dir, s, list[0], w) })
				if err == nil && !g.flags.JSON {
					_, err = fmt.Fprintf(g.term.Out, "Wrote tenant %s to %s.\n", termtext.Printable(list[0]), list[1])
				}
				return err
			})
		},
	}
}

// exportTo writes a tenant with the data that a directory or database has of it.
func exportTo(ctx context.Context, dir *datadir.Dir, s *tenants.Store, id string, w io.Writer) (err error) {
	ledger, err := usage.New(dir.Driver, nil)
	if err != nil {
		return err
	}
	credentials := keys.New(dir.Driver, nil)
	defer func() { err = errors.Join(err, credentials.Close(), ledger.Close(context.WithoutCancel(ctx))) }()
	remembered, err := memory.New(dir.Driver, nil)
	if err != nil {
		return err
	}
	exports := &project.Exports{Threads: threads.New(dir.Driver, nil), Memory: remembered, Keys: credentials, Ledger: ledger, Audit: audit.New(dir.Driver),
		Plugins: library.Exporter(dir.Driver, s)}
	return s.Export(ctx, id, w, exports.Exporters()...)
}

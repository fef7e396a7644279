package plugincmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/open"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/pluginkv"
)

type eraseFlags struct {
	data      cli.DataFlag
	tenant    string
	all, json bool
}

func pluginErase(t *ui.Terminal, dirs *open.Data) *cobra.Command {
	var f eraseFlags
	c := &cobra.Command{
		Use:   "erase [ID]",
		Short: "Remove what plugins keep for a tenant, for good",
		Long: `Remove what the plugin with an ID keeps for a tenant, or with --all what all
plugins keep for it: when a customer leaves, or a plugin is unloaded for good.
It works while a host serves. What a plugin that is still loaded writes meanwhile
may stay: unload it before. Interrupted, it is finished by running it again.`,
		Example: "  agenthost plugin erase notes --tenant acme --data ./data\n  agenthost plugin erase --all --tenant acme --data ./data",
		Args:    cli.Args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			if err := f.check(c, list); err != nil {
				return err
			}
			n, err := f.erase(c.Context(), dirs, list)
			if f.json && err == nil {
				return ui.PrintJSON(t.Out, n)
			}
			if n.Items > 0 || err == nil {
				fmt.Fprintf(t.Out, "Erased %s, %s.\n", ui.Plural(n.Items, "item"), ui.Plural(int(n.Bytes), "byte"))
			}
			return err
		},
	}
	c.Flags().Var(&f.data, "data", cli.DataUsage("the data (required)"))
	dirs.AddWaitLock(c.Flags())
	c.Flags().StringVar(&f.tenant, "tenant", "", cli.TenantUsage("for whom it is kept"))
	c.Flags().BoolVar(&f.all, "all", false, "what all plugins keep for the tenant")
	c.Flags().BoolVar(&f.json, "json", false, cli.JSONUsage)
	cli.CompleteBy(c, "tenant", dirs.Tenants(&f.data))
	return c
}

func (f *eraseFlags) check(c *cobra.Command, list []string) error {
	if f.all == (len(list) == 1) {
		return cli.UsageError(errors.New("name one plugin by its ID, or all with --all"), c.CommandPath())
	}
	return open.CheckData(&f.data, c.CommandPath())
}

func (f *eraseFlags) erase(ctx context.Context, dirs *open.Data, list []string) (n plugin.Erased, err error) {
	driver, err := datadir.OpenShared(ctx, f.data.Text(), dirs.Options())
	if err != nil {
		return n, err
	}
	defer func() { err = errors.Join(err, driver.Close()) }()
	s := pluginkv.New(driver.Driver, nil)
	if f.all {
		return s.EraseTenant(ctx, cli.TenantOr(f.tenant))
	}
	return s.Erase(ctx, plugin.Owner{Tenant: cli.TenantOr(f.tenant), Plugin: list[0]})
}

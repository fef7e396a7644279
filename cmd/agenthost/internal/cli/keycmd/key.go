package keycmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/open"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/keys"
	"github.com/agenthost/agenthost/internal/termtext"
)

// group is what the commands of agenthost key share.
type group struct {
	term  *ui.Terminal
	dirs  *open.Data
	flags cli.StoredFlags
	admin bool // administrators' keys
}

// New returns the command.
func New(t *ui.Terminal, dirs *open.Data) *cobra.Command {
	g := &group{term: t, dirs: dirs}
	c := &cobra.Command{
		Use:   "key",
		Short: "Make and end the keys of tenants and of administrators",
		Long: `Make and end the keys with which tenants, and with --admin administrators, call agenthost
serve. A tenant's key reaches the data of that tenant alone, an administrator's the routes
below /v1/admin alone. A key is shown once, when it is made or rotated: the data has only
its SHA-256. A server that runs knows of a change within a second, and changes are in the
audit log: agenthost audit list.`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	g.dirs.AddFlags(c, &g.flags, "where the keys are kept")
	g.flags.AddTenantTo(c, cli.TenantUsage("whose keys"))
	c.PersistentFlags().BoolVar(&g.admin, "admin", false, "the keys of administrators, who are no tenant's")
	cli.CompleteBy(c, "tenant", dirs.Tenants(&g.flags.Data))
	c.AddCommand(g.create(), g.list(), g.show(), g.rotate(), g.revoke())
	open.CompleteArgs(c, "KEY", dirs.Stored(&g.flags.Data, g.keyIDs))
	return c
}

// keyIDs returns keys with their names, for a shell to complete.
func (g *group) keyIDs(ctx context.Context, dir *datadir.Dir) ([]string, error) {
	store := keys.New(dir.Driver, nil)
	defer store.Close()
	ring := store.Admins()
	if !g.admin {
		ring = store.Of(cli.TenantOr(g.flags.Tenant))
	}
	list, _, err := ring.List(ctx, "", ui.MaxCompletions)
	var ids []string
	for _, k := range list {
		ids = append(ids, ui.Completion(k.ID, k.Name))
	}
	return ids, err
}

// withKeys opens the keys, in data that must exist. A change is in the audit log before it
// is made; a read has no action.
func (g *group) withKeys(c *cobra.Command, action, id string, fn func(*keys.Keyring) error) error {
	if g.admin && g.flags.Tenant != "" {
		return cli.UsageError(errors.New("--admin and --tenant do not go together: administrators are no tenant's"), c.CommandPath())
	}
	if !g.admin {
		if err := host.ValidateTenant(cli.TenantOr(g.flags.Tenant)); err != nil {
			return cli.UsageError(err, c.CommandPath())
		}
	}
	return g.dirs.With(c.Context(), &g.flags.Data, "agenthost key", func(dir *datadir.Dir) (err error) {
		store := keys.New(dir.Driver, nil)
		defer func() { err = errors.Join(err, store.Close()) }()
		ring, tenant, kind := store.Admins(), "", "admin_key."
		if !g.admin {
			tenant, kind = cli.TenantOr(g.flags.Tenant), "key."
			ring = store.Of(tenant)
		}
		if action != "" {
			object := ""
			if id != "" {
				object = "key/" + id
			}
			if err := open.Record(c.Context(), dir.Driver, kind+action, tenant, object); err != nil {
				return err
			}
		}
		whose := g.flags.Words()
		if g.admin {
			whose += " --admin"
		}
		return cli.HintIfMissing(fn(ring), "agenthost key list%s names the keys", whose)
	})
}

// madeKey is a key with its credential, which is shown once.
type madeKey struct {
	Credential string    `json:"credential"`
	Key        *keys.Key `json:"key"`
}

func (g *group) printMade(credential string, key *keys.Key) error {
	if g.flags.JSON {
		return ui.PrintJSON(g.term.Out, madeKey{credential, key})
	}
	whose := "tenant " + termtext.Printable(key.Tenant)
	if g.admin {
		whose = "an administrator"
	}
	g.term.Note("key %s of %s, scopes: %s; this is the only time that it is shown", key.ID, whose, g.scopes(key))
	_, err := fmt.Fprintln(g.term.Out, credential)
	return err
}

func (g *group) create() *cobra.Command {
	var spec keys.Spec
	var life time.Duration
	c := &cobra.Command{
		Use:     "create",
		Short:   "Make a key, and print it",
		Example: "  KEY=$(agenthost key create --tenant acme --data ./data)",
		Args:    cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if life < 0 {
				return cli.UsageError(fmt.Errorf("--expires %s is in the past", life), c.CommandPath())
			}
			if life > 0 {
				spec.Expires = time.Now().Add(life)
			}
			if g.admin && !c.Flags().Changed("scope") {
				spec.Scopes = httpapi.AdminScopes()
			}
			if err := g.checkScopes(spec.Scopes); err != nil {
				return cli.UsageError(err, c.CommandPath())
			}
			return g.withKeys(c, "create", "", func(r *keys.Keyring) error {
				credential, key, err := r.Create(c.Context(), &spec)
				if err != nil {
					return err
				}
				return g.printMade(credential, key)
			})
		},
	}
	flags := c.Flags()
	flags.StringVar(&spec.Name, "name", "", "what the key is for, for people")
	flags.StringSliceVar(&spec.Scopes, "scope", httpapi.Scopes(), "what the key allows (with --admin: "+strings.Join(httpapi.AdminScopes(), ",")+")")
	flags.DurationVar(&life, "expires", 0, "how long the key is valid, such as 720h (default: for ever)")
	cli.CompleteWords(c, "scope", append(httpapi.Scopes(), httpapi.AdminScopes()...))
	return c
}

// checkScopes refuses scopes that no route asks for.
func (g *group) checkScopes(scopes []string) error {
	known := httpapi.Scopes()
	if g.admin {
		known = httpapi.AdminScopes()
	}
	for _, s := range scopes {
		if !slices.Contains(known, s) {
			return host.Errorf(host.InvalidArgument, "there is no scope %.80q", s).WithHint("the scopes are %s", strings.Join(known, ", "))
		}
	}
	return nil
}

func (g *group) list() *cobra.Command {
	var page cli.Page
	c := &cobra.Command{
		Use:   "list",
		Short: "List keys, without their secrets",
		Args:  cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return g.withKeys(c, "", "", func(r *keys.Keyring) error {
				list, next, err := r.List(c.Context(), page.Cursor, page.Limit)
				if err != nil {
					return err
				}
				return cli.PrintPage(g.term, g.flags.JSON, list, next, g.printKeys)
			})
		},
	}
	page.AddTo(c)
	return c
}

func (g *group) printKeys(t *ui.Terminal, list []*keys.Key) error {
	whose := "Tenant " + termtext.Printable(cli.TenantOr(g.flags.Tenant)) + " has"
	if g.admin {
		whose = "Administrators have"
	}
	table := ui.NewTable(t, "KEY", "NAME", "SCOPES", "CREATED", "EXPIRES", "LAST USED")
	for _, k := range list {
		table.Row(k.ID, termtext.Printable(k.Name), g.scopes(k), date(k.Created), date(k.Expires), date(k.LastUsed))
	}
	return table.PrintOr("%s no keys.\n", whose)
}

// scopes returns the scopes of a key in words; "all" if no other key has more.
func (g *group) scopes(k *keys.Key) string {
	all := httpapi.Scopes()
	if g.admin {
		all = httpapi.AdminScopes()
	}
	for _, s := range all {
		if !slices.Contains(k.Scopes, s) {
			return strings.Join(k.Scopes, ", ")
		}
	}
	return "all"
}

func date(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Local().Format(time.DateTime)
}

func (g *group) show() *cobra.Command {
	return &cobra.Command{
		Use:   "show KEY",
		Short: "Show a key, without its secret",
		Args:  cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			return g.withKeys(c, "", "", func(r *keys.Keyring) error {
				key, err := r.Get(c.Context(), list[0])
				if err != nil {
					return err
				}
				if g.flags.JSON {
					return ui.PrintJSON(g.term.Out, key)
				}
				return g.printKeys(g.term, []*keys.Key{key})
			})
		},
	}
}

func (g *group) rotate() *cobra.Command {
	var overlap time.Duration
	c := &cobra.Command{
		Use:   "rotate KEY",
		Short: "Give a key another secret, and print it",
		Args:  cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			return g.withKeys(c, "rotate", list[0], func(r *keys.Keyring) error {
				credential, key, err := r.Rotate(c.Context(), list[0], overlap)
				if err != nil {
					return err
				}
				return g.printMade(credential, key)
			})
		},
	}
	c.Flags().DurationVar(&overlap, "overlap", 0, "how long the present secret stays valid, such as 24h (default: it ends now)")
	return c
}

func (g *group) revoke() *cobra.Command {
	return &cobra.Command{
		Use:   "revoke KEY",
		Short: "End a key",
		Args:  cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			return g.withKeys(c, "revoke", list[0], func(r *keys.Keyring) error {
				if err := r.Revoke(c.Context(), list[0]); err != nil {
					return err
				}
				return g.term.Report(g.flags.JSON, map[string]string{"revoked": list[0]}, "Key %s is not valid any more.\n", termtext.Printable(list[0]))
			})
		},
	}
}

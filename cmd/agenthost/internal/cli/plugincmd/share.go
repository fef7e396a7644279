package plugincmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/files"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/open"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/share"
	"github.com/agenthost/agenthost/host/plugin/signature"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/internal/termtext"
)

// The annotations of a pushed plugin, which OCI names.
const (
	annotationTitle       = "org.opencontainers.image.title"
	annotationVersion     = "org.opencontainers.image.version"
	annotationDescription = "org.opencontainers.image.description"
)

// sharing is what the commands on shared plugins have in common.
type sharing struct {
	*local
	projects *open.Projects

	plainHTTP    bool
	addresses    []string
	key          string // a file
	passwordFile string
	asJSON       bool
}

// shareCommands returns the commands on registries and layout folders.
func shareCommands(l *local, projects *open.Projects) []*cobra.Command {
	return []*cobra.Command{
		(&sharing{local: l, projects: projects}).push(), (&sharing{local: l, projects: projects}).publish(),
		(&sharing{local: l, projects: projects}).pull(), (&sharing{local: l, projects: projects}).keys(),
		(&sharing{local: l, projects: projects}).diff(), (&verification{sharing: &sharing{local: l, projects: projects}}).command(),
	}
}

func (s *sharing) addReach(c *cobra.Command) {
	c.Flags().BoolVar(&s.plainHTTP, "plain-http", false, "ask the registry by http")
	c.Flags().StringSliceVar(&s.addresses, "address", nil, "a range of addresses that the registry may have although they are not public: 10.1.0.0/16")
	c.Flags().BoolVar(&s.asJSON, "json", false, cli.JSONUsage)
}

func (s *sharing) addKey(c *cobra.Command) {
	c.Flags().StringVar(&s.key, "key", "", "sign with the private key in this file, which plugin key or minisign has made")
	c.Flags().StringVar(&s.passwordFile, "password-file", "", "the file with the password of an encrypted key")
}

// client returns a client that reaches the registry of a reference as the flags say.
func (s *sharing) client(ref share.Reference) (*share.Client, error) {
	r := share.Registry{Host: ref.Registry, PlainHTTP: s.plainHTTP}
	for _, text := range s.addresses {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, host.Errorf(host.InvalidArgument, "--address: %q is no range of addresses", text).WithHint("write 10.1.0.0/16")
		}
		r.Addresses = append(r.Addresses, prefix)
	}
	if ref.Registry == "" {
		return s.plugins.Modules().ShareClient()
	}
	return s.plugins.Modules().ShareClient(r)
}

func (s *sharing) push() *cobra.Command {
	c := &cobra.Command{
		Use:   "push FILE REFERENCE",
		Short: "Push a plugin to a registry or a layout folder",
		Long: `Push a plugin to a registry (oci://HOST/NAME:TAG) or to a folder in the layout of OCI
(oci-layout:DIR:TAG), and print its digest. The credentials are those of docker login.

With --key it is signed for that repository: elsewhere the signature does not count. A signature in FILE.minisig, as minisign writes it, goes with it
too, and a bundle of sigstore in FILE.sigstore.json, as cosign sign-blob --bundle writes it.`,
		Example: "  agenthost plugin push orders.wasm oci://ghcr.io/acme/orders:1.2.0 --key acme.key",
		Args:    cli.Args(cobra.ExactArgs(2)),
		RunE: func(c *cobra.Command, list []string) error {
			ref, err := share.ParseReference(list[1])
			if err != nil {
				return err
			}
			return s.send(c.Context(), list[0], func(*plugin.Manifest) (share.Reference, []string, error) { return ref, nil, nil })
		},
	}
	s.addKey(c)
	s.addReach(c)
	return c
}

func (s *sharing) publish() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "publish FILE PLACE",
		Short: "Push a plugin under the version that it says it has",
		Long: `Push a plugin to PLACE, a reference without a tag, under the version in its manifest and
as latest. A version that is there already and differs is not replaced without --force:
others may have it.`,
		Example: "  agenthost plugin publish shop/plugins/orders oci://ghcr.io/acme/orders --key acme.key",
		Args:    cli.Args(cobra.ExactArgs(2)),
		RunE: func(c *cobra.Command, list []string) error {
			ref, err := share.ParseReference(list[1])
			if err != nil {
				return err
			}
			return s.send(c.Context(), list[0], func(m *plugin.Manifest) (share.Reference, []string, error) {
				if m == nil || m.Version == "" {
					return ref, nil, host.Errorf(host.InvalidArgument, "%s has no version in its manifest", list[0]).WithHint("give it one, or: agenthost plugin push FILE REFERENCE")
				}
				to := ref.WithTag(m.Version)
				if !force {
					if err := s.checkNew(c.Context(), list[0], to); err != nil {
						return ref, nil, err
					}
				}
				return to, []string{"latest"}, nil
			})
		},
	}
	c.Flags().BoolVar(&force, "force", false, "replace a version that is there")
	s.addKey(c)
	s.addReach(c)
	return c
}

// checkNew refuses a reference that names another module.
func (s *sharing) checkNew(ctx context.Context, file string, to share.Reference) (err error) {
	client, err := s.client(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	switch _, err := client.Resolve(ctx, to); {
	case err == nil:
		return host.Errorf(host.AlreadyExists, "publish %s: %s is there already", file, to).WithHint("raise the version in its manifest, or replace it with --force")
	case host.CodeOf(err) == host.NotFound:
		return nil
	default:
		return err
	}
}

// pushed is the output of push and publish.
type pushed struct {
	Reference string   `json:"reference"`
	Digest    string   `json:"digest"`
	Tags      []string `json:"tags"`
	Size      int      `json:"size"`
	Signed    int      `json:"signatures"`
	Bundles   int      `json:"bundles"`
}

// send pushes a plugin to where to says, with further tags.
func (s *sharing) send(ctx context.Context, file string, to func(*plugin.Manifest) (share.Reference, []string, error)) error {
	return s.plugins.WithReader(ctx, func(rt *plugin.Runtime) (err error) {
		from, err := s.plugins.Modules().Read(ctx, rt, file, s.term.Announce)
		if err != nil {
			return err
		}
		in := &inspection{File: file}
		if err := in.read(ctx, rt, from.Wasm); err != nil {
			return err
		}
		ref, tags, err := to(in.manifest)
		if err != nil {
			return err
		}
		a, err := project.SignedFile(file, from.Wasm)
		if err != nil {
			return err
		}
		a.Annotations = annotations(file, in.manifest)
		if s.key != "" {
			own, err := s.sign(from.Wasm, ref, in.manifest)
			if err != nil {
				return err
			}
			a.Signatures = slices.Insert(a.Signatures, 0, own)
		}
		client, err := s.client(ref)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, client.Close()) }()
		digest, err := client.Push(ctx, ref, a)
		if err != nil {
			return err
		}
		for _, tag := range tags {
			if err := client.Tag(ctx, ref.At(digest), tag); err != nil {
				return err
			}
		}
		return s.printPushed(&pushed{Reference: ref.String(), Digest: digest, Tags: append([]string{ref.Tag}, tags...), Size: len(from.Wasm), Signed: len(a.Signatures), Bundles: len(a.Bundles)})
	})
}

func (s *sharing) printPushed(p *pushed) error {
	return s.term.Report(s.asJSON, p, "%s\n  tags        %s\n  size        %s bytes\n  signatures  %d\n  bundles     %d\n  digest      %s\n",
		p.Reference, strings.Join(p.Tags, ", "), termtext.Thousands(int64(p.Size)), p.Signed, p.Bundles, p.Digest)
}

// annotations describe a plugin to people who look into a registry.
func annotations(file string, m *plugin.Manifest) map[string]string {
	out := map[string]string{annotationTitle: open.PluginID(file) + ".wasm"}
	if m == nil {
		return out
	}
	for name, text := range map[string]string{annotationVersion: m.Version, annotationDescription: m.Description} {
		if text != "" {
			out[name] = text
		}
	}
	return out
}

// sign returns the signature of a module by --key, for the repository of a reference.
func (s *sharing) sign(wasm []byte, ref share.Reference, m *plugin.Manifest) ([]byte, error) {
	key, err := s.readKey()
	if err != nil {
		return nil, err
	}
	comment := "plugin for " + path.Clean(ref.Place())
	if m != nil {
		comment = strings.TrimSpace("plugin " + ui.OneLine(m.Name) + " " + ui.OneLine(m.Version))
	}
	return key.Sign(wasm, share.SignedComment(ref, comment))
}

func (s *sharing) readKey() (signature.PrivateKey, error) {
	text, err := datadir.ReadFile(s.key, signature.MaxKeyBytes)
	if err != nil {
		return signature.PrivateKey{}, err
	}
	password, err := s.password()
	if err != nil {
		return signature.PrivateKey{}, err
	}
	key, err := signature.ReadPrivateKey(text, password)
	if err != nil {
		return key, host.Errorf(host.CodeOf(err), "%s: %w", s.key, err).WithHint("encrypted keys need --password-file")
	}
	return key, nil
}

func (s *sharing) password() (string, error) {
	if s.passwordFile == "" {
		return "", nil
	}
	text, err := datadir.ReadFile(s.passwordFile, signature.MaxKeyBytes)
	return strings.TrimRight(string(text), "\r\n"), err
}

func (s *sharing) keys() *cobra.Command {
	c := &cobra.Command{
		Use:   "key NAME",
		Short: "Make a pair of keys to sign plugins with",
		Long: `Make a pair of keys to sign plugins with: NAME.key, which signs, and NAME.pub, which
others trust. Both are files of minisign. With --password-file the private key is
encrypted; without, whoever reads the file can sign.`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, list []string) error { return s.makeKeys(list[0]) },
	}
	c.Flags().StringVar(&s.passwordFile, "password-file", "", "the file with the password to encrypt the private key with")
	return c
}

func (s *sharing) makeKeys(name string) error {
	password, err := s.password()
	if err != nil {
		return err
	}
	public, private, err := signature.Generate()
	if err != nil {
		return err
	}
	text, err := private.File(password)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(name+".key", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return host.Errorf(host.AlreadyExists, "%s.key is there already", name).WithHint("name another one: a key that is lost cannot be made again")
	}
	if err == nil {
		_, err = f.Write(text)
		err = errors.Join(err, f.Close())
	}
	if err == nil {
		err = files.Write(name+".pub", public.File())
	}
	if err != nil {
		return host.Errorf(host.FailedPrecondition, "write the keys: %w", err).WithHint("name files in a directory that you may write to")
	}
	_, err = fmt.Fprintf(s.term.Out, "%s.key signs: keep it to yourself.\n%s.pub verifies. Configurations trust it by\n  share: {trust: {keys: {%s: %s}}}\n", name, name, filepath.Base(name), public)
	return err
}

func (s *sharing) pull() *cobra.Command {
	var out, projectName string
	var update bool
	c := &cobra.Command{
		Use:   "pull REFERENCE | pull --project PROJECT",
		Short: "Pull a plugin into a file, or those of a project into its lock",
		Long: `Pull a plugin from a registry or a layout folder into a file, whatever others have signed.

With --project those of a project are pulled whose path is a reference, and checked against the
trust of the project and of its tenants. agenthost.lock then has their digests: the
project has these and no others, wherever it runs. What the lock has stays; --update asks
what the tags name now.`,
		Example: `  agenthost plugin pull oci://ghcr.io/acme/orders:1.2.0 -o orders.wasm
  agenthost plugin pull --project shop --update`,
		Args: cli.Args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			switch {
			case projectName != "" && len(list) == 0:
				return s.pullProject(c.Context(), projectName, update)
			case projectName == "" && len(list) == 1 && !update:
				return s.pullFile(c.Context(), list[0], out)
			}
			return cli.UsageError(errors.New("name a reference, or a project with --project, which --update goes with"), c.CommandPath())
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "", "the file to write (default: NAME.wasm, named like the repository)")
	c.Flags().StringVar(&projectName, "project", "", "the project whose plugins are pulled")
	c.Flags().BoolVar(&update, "update", false, "ask what tags name now")
	s.addReach(c)
	return c
}

func (s *sharing) pullFile(ctx context.Context, text, out string) (err error) {
	ref, err := share.ParseReference(text)
	if err != nil {
		return err
	}
	client, err := s.client(ref)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	a, err := client.Pull(ctx, ref)
	if err != nil {
		return err
	}
	beside, unread, err := client.Bundles(ctx, ref.At(a.Digest))
	if ctx.Err() != nil {
		return err
	}
	if err != nil { // the module may come from the cache, and the registry be out of reach
		fmt.Fprintf(s.term.Err, "bundles are those of the cache: %s\n", ui.OneLine(err.Error()))
		beside = client.KeptBundles(ref.At(a.Digest))
	}
	bundles := len(a.Bundles) + len(beside)
	if unread > 0 {
		fmt.Fprintf(s.term.Err, "%d more of the signatures beside it are not read: a plugin has at most %d bundles\n", unread, share.MaxBundles)
	}
	if out == "" {
		out = path.Base(ref.Repository+ref.Dir) + ".wasm"
	}
	if err := files.Write(out, a.Module); err != nil {
		return host.Errorf(host.FailedPrecondition, "write %s: %w", out, err).WithHint("name another file with -o")
	}
	return s.term.Report(s.asJSON, map[string]any{"file": out, "digest": a.Digest, "form": a.Form, "size": len(a.Module), "signatures": len(a.Signatures), "bundles": bundles}, "%s\n  from        %s\n  size        %s bytes\n  signatures  %d\n  bundles     %d\n  digest      %s\n",
		out, ref, termtext.Thousands(int64(len(a.Module))), len(a.Signatures), bundles, a.Digest)
}

func (s *sharing) pullProject(ctx context.Context, projectName string, update bool) error {
	file, err := open.ReadProject(projectName)
	if err != nil {
		return err
	}
	list, err := project.PullPlugins(ctx, file, update, s.projects.Options())
	if err != nil {
		return err
	}
	if s.asJSON {
		return ui.PrintItems(s.term.Out, list)
	}
	table := ui.NewTable(s.term, "PLUGIN", "DIGEST", "SIZE", "LOCK", "SIGNED BY")
	for _, p := range list {
		table.Row(p.Plugin, shortDigest(p.Now.Digest), termtext.Thousands(int64(p.Now.Size)), lockWords(p), cmp.Or(ui.OneLine(p.Now.Signed), "not asked for"))
	}
	return table.PrintOr("No plugin of the project has a reference for its path.\n")
}

// lockWords says what happened to an entry of the lock.
func lockWords(p project.Pulled) string {
	words := "as before"
	switch {
	case p.Before.Digest == "":
		words = "new"
	case p.Before.Digest != p.Now.Digest:
		words = "was " + shortDigest(p.Before.Digest)
	}
	return words
}

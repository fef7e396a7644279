package plugincmd

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/share"
	"github.com/agenthost/agenthost/host/plugin/signature"
	"github.com/agenthost/agenthost/host/plugin/sigstore"
	"github.com/agenthost/agenthost/host/project"
)

// verification is the command that verifies who has signed a plugin.
type verification struct {
	sharing   *sharing
	key, root string // files
	identity  share.Identity
}

func (v *verification) command() *cobra.Command {
	c := &cobra.Command{
		Use:   "verify FILE|REFERENCE",
		Short: "Verify who has signed a plugin",
		Long: `Verify that a plugin is signed: by the private key of a public one (--key), or with
sigstore by an issuer's subject (--root, --issuer, --subject). Signatures of a file are
beside it, in FILE.minisig and FILE.sigstore.json; those of a reference are with it and
beside it. An identity may sign the repository that the reference names; a key's
signature names it. With a key and an identity, one of them has to have signed.`,
		Example: `  agenthost plugin verify orders.wasm --key acme.pub
  agenthost plugin verify oci://ghcr.io/acme/orders:1.2.0 --root trusted_root.json \
    --issuer https://token.actions.githubusercontent.com --subject-pattern 'https://github\.com/acme/.*'`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			if v.key == "" && v.root == "" {
				return cli.UsageError(errors.New("give a public key with --key, or an identity with --root, --issuer and --subject"), c.CommandPath())
			}
			if id := v.identity; v.root == "" && (id.Issuer+id.IssuerPattern+id.Subject+id.SubjectPattern != "" || id.LogEntries != 0 || id.Timestamps != 0 || id.WithoutLog) {
				return cli.UsageError(errors.New("an identity goes with --root, the file of the trusted root"), c.CommandPath())
			}
			return v.sharing.plugins.WithReader(c.Context(), func(rt *plugin.Runtime) error { return v.verify(c.Context(), rt, list[0]) })
		},
	}
	c.Flags().StringVar(&v.key, "key", "", "the file of a public key")
	c.Flags().StringVar(&v.root, "root", "", "the file of the trusted root of an instance of sigstore")
	c.Flags().StringVar(&v.identity.Issuer, "issuer", "", "the issuer, exactly")
	c.Flags().StringVar(&v.identity.IssuerPattern, "issuer-pattern", "", "a regular expression of the whole issuer")
	c.Flags().StringVar(&v.identity.Subject, "subject", "", "the subject, exactly")
	c.Flags().StringVar(&v.identity.SubjectPattern, "subject-pattern", "", "a regular expression of the whole subject")
	c.Flags().IntVar(&v.identity.LogEntries, "log-entries", 0, "how many transparency logs must have the signature (1)")
	c.Flags().BoolVar(&v.identity.WithoutLog, "without-log", false, "ask for no transparency log, and for a timestamp")
	c.Flags().IntVar(&v.identity.Timestamps, "timestamps", 0, "how many timestamp authorities must have signed")
	v.sharing.addReach(c)
	return c
}

// identityName returns the name of the identity in the policy: its subject. That of the key is its
// file.
func (v *verification) identityName() string { return v.identity.Subject + v.identity.SubjectPattern }

// policy returns the policy that trusts whom a command line expects.
func (v *verification) policy() (*share.Policy, error) {
	p := &share.Policy{}
	if v.key != "" {
		text, err := datadir.ReadFile(v.key, signature.MaxKeyBytes)
		if err != nil {
			return nil, err
		}
		key, err := signature.ParsePublicKey(string(text))
		if err != nil {
			return nil, host.Errorf(host.CodeOf(err), "%s: %w", v.key, err)
		}
		p.Keys = map[string]signature.PublicKey{v.key: key}
	}
	if v.root != "" {
		var err error
		if v.identity.Root, err = datadir.ReadFile(v.root, share.MaxRootBytes); err != nil {
			return nil, err
		}
		bundles, err := sigstore.New(v.identity)
		if err != nil {
			return nil, err
		}
		p.Identities = map[string]share.BundleVerifier{v.identityName(): bundles}
	}
	return p, nil
}

func (v *verification) verify(ctx context.Context, rt *plugin.Runtime, where string) error {
	p, err := v.policy()
	if err != nil {
		return err
	}
	var a *share.Artifact
	var by share.Signer
	if share.IsReference(where) {
		a, by, err = v.verifyReference(ctx, where, p)
	} else {
		a, by, err = v.verifyFile(ctx, rt, where, p)
	}
	if err != nil {
		return host.Errorf(host.CodeOf(err), "%s: %w", where, err)
	}
	module := a.ModuleDigest()
	return v.sharing.term.Report(v.sharing.asJSON, map[string]string{"plugin": where, "signed": by.Who, "digest": a.Digest, "module": module}, "%s\n  signed by   %s\n  module      %s\n", where, ui.OneLine(by.Who), module)
}

func (v *verification) verifyReference(ctx context.Context, text string, p *share.Policy) (a *share.Artifact, by share.Signer, err error) {
	ref, err := share.ParseReference(text)
	if err != nil {
		return nil, by, err
	}
	client, err := v.sharing.client(ref)
	if err != nil {
		return nil, by, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	if a, err = client.Pull(ctx, ref); err != nil {
		return nil, by, err
	}
	if len(p.Identities) > 0 {
		beside, unread, err := client.Bundles(ctx, ref.At(a.Digest))
		if err != nil {
			return nil, by, err
		}
		a.Bundles, a.Unread = append(a.Bundles, beside...), unread
		p.Repositories = map[string][]string{v.identityName(): {ref.Registry + "/" + ref.Repository}}
	}
	by, err = p.CheckSigned(ctx, ref, a)
	return a, by, err
}

func (v *verification) verifyFile(ctx context.Context, rt *plugin.Runtime, file string, p *share.Policy) (a *share.Artifact, by share.Signer, err error) {
	wasm, err := v.sharing.plugins.Modules().ReadModule(ctx, rt, file, v.sharing.term.Announce)
	if err != nil {
		return nil, by, err
	}
	if a, err = project.SignedFile(file, wasm); err != nil {
		return nil, by, err
	}
	by, err = p.CheckModule(ctx, a)
	return a, by, err
}

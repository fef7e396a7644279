package project

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin/share"
	"github.com/agenthost/agenthost/host/plugin/signature"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
)

// trustPolicy is the trust of the project or of one tenant.
type trustPolicy struct {
	share.Policy
	files, uploads bool // must be signed
}

// maxIdentities bounds the verifiers that are kept; a configuration with more of them makes some again.
const maxIdentities = 1024

// trusts reads the trusts of a configuration. The verifiers of identities are made once for all
// tenants and plugins that have the same. It is safe for concurrent use.
type trusts struct {
	sigstore func(share.Identity) (share.BundleVerifier, error) // nil refuses identities

	mu   sync.Mutex
	made map[madeIdentity]share.BundleVerifier
}

// madeIdentity names a verifier by all that it is made of.
type madeIdentity struct {
	configfile.TrustIdentity
	root string
}

// read reads a trust, which is at a place of the configuration. nil trusts all.
func (r *trusts) read(c *configfile.Config, t *configfile.Trust, at configfile.KeyPath) (*trustPolicy, error) {
	if t == nil {
		return nil, nil
	}
	p := &trustPolicy{Policy: share.Policy{From: t.From, Keys: map[string]signature.PublicKey{}, Identities: map[string]share.BundleVerifier{}, Repositories: t.Repositories}}
	for name, text := range t.Keys {
		key, err := signature.ParsePublicKey(text)
		if err != nil {
			return nil, c.Wrap(err, at.To("keys", name))
		}
		p.Keys[name] = key
	}
	for _, name := range slices.Sorted(maps.Keys(t.Identities)) {
		if _, twice := t.Keys[name]; twice {
			return nil, c.ErrorAt(at.To("identities", name), "a key has the name %q too", name).WithHint("give one of them another name: repositories name them both")
		}
		v, err := r.identity(c, t.Identities[name])
		if err != nil {
			return nil, c.Wrap(err, at.To("identities", name))
		}
		p.Identities[name] = v
	}
	return p, p.readChoices(c, t, at)
}

// identity returns the verifier of an identity.
func (r *trusts) identity(c *configfile.Config, id configfile.TrustIdentity) (share.BundleVerifier, error) {
	if r.sigstore == nil {
		return nil, host.Errorf(host.FailedPrecondition, "this program cannot verify bundles of sigstore").
			WithHint("programs that embed a project set project.Options.Sigstore to sigstore.New of host/plugin/sigstore; the command agenthost has it")
	}
	root, err := readFile(c, id.Root, share.MaxRootBytes)
	if err != nil {
		return nil, host.Errorf(host.CodeOf(err), "read the trusted root: %w", err).WithHint("root is a file beside the configuration; cosign trusted-root create --with-default-services --out trusted_root.json writes one")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := madeIdentity{id, string(root)}
	if v, ok := r.made[key]; ok {
		return v, nil
	}
	v, err := r.sigstore(share.Identity{
		Issuer: id.Issuer, IssuerPattern: id.IssuerPattern, Subject: id.Subject, SubjectPattern: id.SubjectPattern,
		Root: root, LogEntries: id.LogEntries, WithoutLog: id.WithoutLog, Timestamps: id.Timestamps,
	})
	if err != nil {
		return nil, err
	}
	if r.made == nil || len(r.made) >= maxIdentities {
		r.made = map[madeIdentity]share.BundleVerifier{}
	}
	r.made[key] = &rememberingVerifier{verifier: v}
	return r.made[key], nil
}

// maxVerified bounds the verified bundles that a verifier remembers.
const maxVerified = 64

// rememberingVerifier verifies a bundle once for all tenants that trust its identity: the answer
// follows from the identity, the bundle and the digest alone.
type rememberingVerifier struct {
	verifier share.BundleVerifier

	mu       sync.Mutex
	verified map[verifiedBundle]verdict
}

type verifiedBundle struct {
	bundle [sha256.Size]byte
	digest string
}

type verdict struct {
	signer string
	err    error
}

// VerifyBundle implements [share.BundleVerifier].
func (r *rememberingVerifier) VerifyBundle(bundle []byte, digest string) (signer string, err error) {
	key := verifiedBundle{sha256.Sum256(bundle), digest}
	r.mu.Lock()
	v, known := r.verified[key]
	r.mu.Unlock()
	if known {
		return v.signer, v.err
	}
	v.signer, v.err = r.verifier.VerifyBundle(bundle, digest)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.verified == nil || len(r.verified) >= maxVerified {
		r.verified = map[verifiedBundle]verdict{}
	}
	r.verified[key] = v
	return v.signer, v.err
}

// readFile reads a file beside the configuration, of at most limit bytes.
func readFile(c *configfile.Config, name string, limit int) ([]byte, error) {
	var open fs.FS = configfile.OSFiles{}
	if c.Fsys != nil {
		open = c.Fsys
	}
	f, err := open.Open(c.FilePath(name))
	if err != nil {
		return nil, host.Errorf(host.InvalidArgument, "%w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	switch {
	case err != nil:
		return nil, host.Errorf(host.InvalidArgument, "%w", err)
	case len(text) > limit:
		return nil, host.Errorf(host.InvalidArgument, "%s has more than %d bytes", name, limit)
	}
	return text, nil
}

// readChoices reads what a trust says of keys and identities that it has.
func (p *trustPolicy) readChoices(c *configfile.Config, t *configfile.Trust, at configfile.KeyPath) error {
	names := slices.Sorted(maps.Keys(t.Keys))
	names = slices.AppendSeq(names, maps.Keys(t.Identities))
	slices.Sort(names)
	for _, name := range slices.Sorted(maps.Keys(t.Repositories)) {
		if !slices.Contains(names, name) {
			return c.ErrorAt(at.To("repositories", name), "there is no key and no identity %q", name).WithHint("there are: %s", strings.Join(names, ", "))
		}
	}
	for _, choice := range []struct {
		key, text string
		signed    *bool
	}{{"files", t.Files, &p.files}, {"uploads", t.Uploads, &p.uploads}} {
		switch choice.text {
		case "", configfile.TrustAllows:
		case configfile.TrustSigned:
			if *choice.signed = true; len(names) == 0 {
				return c.ErrorAt(at.To(choice.key), "signatures are asked for, and no key is trusted").WithHint("list public keys under keys, or who signs by sigstore under identities")
			}
		default:
			return c.ErrorAt(at.To(choice.key), "there is no choice %q", choice.text).WithHint("use %s or %s", configfile.TrustAllows, configfile.TrustSigned)
		}
	}
	return nil
}

// of returns the policies that apply to a plugin of the configuration: that of the
// project, and that of each tenant that has the plugin.
func (r *trusts) of(c *configfile.Config, id string) (map[string]*trustPolicy, error) {
	all := map[string]*trustPolicy{}
	add := func(whose string, t *configfile.Trust, at configfile.KeyPath) error {
		p, err := r.read(c, t, at)
		if p != nil {
			all[whose] = p
		}
		return err
	}
	if err := add("the project", c.Share.Trust, configfile.Keys("share", "trust")); err != nil {
		return nil, err
	}
	only := c.Plugins[id].Tenants
	for _, name := range slices.Sorted(maps.Keys(c.Tenants)) {
		t := c.Tenants[name]
		if len(only) > 0 && !slices.Contains(only, name) || t.Plugins != nil && !slices.Contains(t.Plugins, id) {
			continue
		}
		if err := add("tenant "+name, t.Trust, configfile.Keys("tenants", name, "trust")); err != nil {
			return nil, err
		}
	}
	if len(only) > 0 || c.AnyTenant.Plugins != nil && !slices.Contains(c.AnyTenant.Plugins, id) {
		return all, nil
	}
	return all, add("any tenant", c.AnyTenant.Trust, configfile.Keys("any_tenant", "trust"))
}

func trustError(whose string, err error) error {
	e := *fault.AsError(err)
	e.Message, e.Err = "by the trust of "+whose+": "+e.Message, err
	return &e
}

// checkFile holds the module of a plugin, which has come from a file or a directory, to the trusts
// that ask files for signatures.
func (r *trusts) checkFile(ctx context.Context, c *configfile.Config, id, where string, module []byte) error {
	policies, err := r.of(c, id)
	if err != nil {
		return err
	}
	maps.DeleteFunc(policies, func(_ string, p *trustPolicy) bool { return !p.files })
	var a *share.Artifact
	for _, whose := range slices.Sorted(maps.Keys(policies)) {
		if a == nil {
			if a, err = SignedFile(where, module); err != nil {
				return trustError(whose, err)
			}
		}
		if _, err := policies[whose].CheckModule(ctx, a); err != nil {
			return trustError(whose, err)
		}
	}
	return nil
}

// SignedFile returns the module of a file, or of the directory of a source, with the signatures beside
// it: of minisign in FILE.minisig, and of sigstore in FILE.sigstore.json, where FILE is the module of
// a directory. Code resource_exhausted for one that is too long.
func SignedFile(where string, module []byte) (*share.Artifact, error) {
	signatures, err := besideFile(where)
	if err != nil {
		return nil, err
	}
	return signedModule(module, signatures), nil
}

// besideFile returns the signatures beside a plugin's file.
func besideFile(where string) (list [][]byte, err error) {
	if info, err := os.Stat(filepath.FromSlash(where)); err == nil && info.IsDir() {
		where = ModulePath(where)
	}
	for _, beside := range []struct {
		ending string
		limit  int
	}{{".minisig", signature.MaxSignatureBytes}, {".sigstore.json", share.MaxBundleBytes}} {
		text, err := datadir.ReadFile(where+beside.ending, beside.limit)
		switch {
		case err == nil:
			list = append(list, text)
		case host.CodeOf(err) != host.NotFound:
			return nil, err
		}
	}
	return list, nil
}

// signedModule returns a module with its signatures: bundles of sigstore, which are JSON, and those
// of minisign, which are not.
func signedModule(module []byte, signatures [][]byte) *share.Artifact {
	a := &share.Artifact{Module: module}
	for _, text := range signatures {
		if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
			a.Bundles = append(a.Bundles, share.Bundle{Text: text})
		} else {
			a.Signatures = append(a.Signatures, text)
		}
	}
	return a
}

// uploadTrust are the policies that apply to uploads of plugins.
type uploadTrust struct {
	project, any *trustPolicy
	tenants      map[string]*trustPolicy // that the configuration lists; nil for one without a trust
}

func (r *trusts) uploads(c *configfile.Config) (*uploadTrust, error) {
	t := &uploadTrust{tenants: map[string]*trustPolicy{}}
	var err error
	if t.project, err = r.read(c, c.Share.Trust, configfile.Keys("share", "trust")); err != nil {
		return nil, err
	}
	if t.any, err = r.read(c, c.AnyTenant.Trust, configfile.Keys("any_tenant", "trust")); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(c.Tenants)) {
		if t.tenants[name], err = r.read(c, c.Tenants[name].Trust, configfile.Keys("tenants", name, "trust")); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// check holds the upload of a tenant to the trust of the project and of the tenant; one that is
// shared with all tenants, which tenant "" makes, to that of the project.
func (t *uploadTrust) check(ctx context.Context, tenant string, module []byte, signatures [][]byte) error {
	own, listed := t.tenants[tenant]
	if !listed && tenant != "" {
		own = t.any
	}
	a := signedModule(module, signatures)
	for _, held := range []struct {
		whose string
		*trustPolicy
	}{{"the project", t.project}, {"the tenant", own}} {
		if held.trustPolicy == nil || !held.uploads {
			continue
		}
		if _, err := held.CheckModule(ctx, a); err != nil {
			return trustError(held.whose, err)
		}
	}
	return nil
}

package share

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin/signature"
)

// Policy says which plugins are trusted. It is asked before anything is compiled. The
// zero value trusts every registry, and asks for no signature.
type Policy struct {
	// From are the registries that plugins may come from, and repositories of them: HOST or
	// HOST/PATH, which has everything below it. nil is any. Folders are not asked about.
	From []string
	// Keys and Identities are the keys, and the identities of sigstore, of which one has to have
	// signed a plugin, by the names that people give them. Without any no signature is asked for.
	Keys       map[string]signature.PublicKey
	Identities map[string]BundleVerifier
	// Repositories are the repositories that keys and identities may sign, by their names, as in
	// From. One that is not here may sign any, in signatures that name the repository.
	Repositories map[string][]string
}

// Signer is who has signed a plugin; the zero value for a plugin that need not be signed.
type Signer struct {
	Name string // of the key or the identity, in the policy
	Who  string // the key as a line, or the subject and the issuer of the identity
}

// repositoryMark begins the trusted comment of a signature that is of a repository.
const repositoryMark = "repository:"

// SignedComment returns the trusted comment of a signature that counts in the repository of a
// reference alone, with a text for people. A layout folder has no repository.
func SignedComment(ref Reference, text string) string {
	if ref.Dir != "" {
		return text
	}
	return strings.TrimSpace(repositoryMark + ref.repository() + " " + text)
}

// signedRepository returns the repository that the trusted comment of a signature names, "" if
// it names none.
func signedRepository(comment string) string {
	rest, ok := strings.CutPrefix(comment, repositoryMark)
	if !ok {
		return ""
	}
	repository, _, _ := strings.Cut(rest, " ")
	return repository
}

// CheckPlace refuses a reference to a registry that is not trusted, with code
// permission_denied.
func (p *Policy) CheckPlace(ref Reference) error {
	if p.From == nil || ref.Dir != "" {
		return nil
	}
	if isIn(ref.repository(), p.From) {
		return nil
	}
	return fault.Errorf(fault.PermissionDenied, "%s is no registry that is trusted", ref.Place()).WithHint("trusted are: %s", strings.Join(p.From, ", "))
}

// isIn reports whether a repository is one of a list or below one.
func isIn(repository string, list []string) bool {
	return slices.ContainsFunc(list, func(from string) bool { return strings.HasPrefix(repository+"/", strings.TrimSuffix(from, "/")+"/") })
}

// CheckSigned returns who has signed the plugin which ref names; the zero value if the policy asks
// for no signature. A signature of minisign is of the module, a bundle of sigstore of the module or
// of the artifact's digest. Each counts in the repository that it names, and one without that name
// in the repositories of its key or identity. A plugin in a folder has no repository. Code
// permission_denied for a plugin without a signature that counts there. The check asks no network,
// and ends with ctx between two signatures.
func (p *Policy) CheckSigned(ctx context.Context, ref Reference, a *Artifact) (Signer, error) {
	return p.checkSigned(ctx, a, func(name, repository string) error {
		if ref.Dir != "" {
			return nil
		}
		return p.checkRepository(name, ref.repository(), repository)
	})
}

// CheckModule is CheckSigned of a module that has come without a reference: a file, or an upload.
// Its signatures may be of any repository.
func (p *Policy) CheckModule(ctx context.Context, a *Artifact) (Signer, error) {
	return p.checkSigned(ctx, a, func(string, string) error { return nil })
}

// checkSigned returns who has signed an artifact, in a signature that counts.
func (p *Policy) checkSigned(ctx context.Context, a *Artifact, counts func(name, repository string) error) (Signer, error) {
	if len(p.Keys)+len(p.Identities) == 0 {
		return Signer{}, nil
	}
	err := errors.New("it is not signed")
	if len(a.Signatures) > 0 {
		err = errors.New("none of its signatures is by a trusted key")
	}
	for _, name := range slices.Sorted(maps.Keys(p.Keys)) {
		for i := range a.Signatures {
			if ctx.Err() != nil {
				return Signer{}, fault.ContextError(ctx)
			}
			comment, invalid := a.verify(p.Keys[name], i)
			if invalid != nil {
				continue
			}
			if err = counts(name, signedRepository(comment)); err == nil {
				return Signer{name, p.Keys[name].String()}, nil
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Identities)) {
		for _, b := range a.Bundles {
			if ctx.Err() != nil {
				return Signer{}, fault.ContextError(ctx)
			}
			who, repository, invalid := b.verify(p.Identities[name], a)
			if invalid == nil {
				invalid = counts(name, repository)
			}
			if invalid == nil {
				return Signer{name, who}, nil
			}
			err = fmt.Errorf("identity %s: %w", name, invalid)
		}
	}
	if a.Unread > 0 {
		err = fmt.Errorf("%w; %d more of the signatures beside it are not read, as %d bundles are the limit: remove old ones from the registry", err, a.Unread, MaxBundles)
	}
	return Signer{}, fault.Errorf(fault.PermissionDenied, "the plugin is not trusted: %w", err).WithHint("%s", p.howToSign())
}

// howToSign says by whom a plugin is signed.
func (p *Policy) howToSign() string {
	ways := []string{}
	if len(p.Keys) > 0 {
		ways = append(ways, "its author signs it with plugin push --key; trusted are the keys: "+strings.Join(slices.Sorted(maps.Keys(p.Keys)), ", "))
	}
	if len(p.Identities) > 0 {
		ways = append(ways, "its author signs it with cosign sign; trusted are the identities: "+strings.Join(slices.Sorted(maps.Keys(p.Identities)), ", "))
	}
	return strings.Join(ways, "; or ")
}

// checkRepository refuses a signature, which names the repository signed or none, by a key or an
// identity that does not count in a repository.
func (p *Policy) checkRepository(name, repository, signed string) error {
	allowed, scoped := p.Repositories[name]
	switch {
	case scoped && !isIn(repository, allowed):
		return fmt.Errorf("%s may not sign %s", name, repository)
	case signed != "" && dockerHub(signed) != dockerHub(repository):
		return fmt.Errorf("%s has signed it for %.200q, and not for %s", name, signed, repository)
	case signed == "" && !scoped:
		return fmt.Errorf("the signature by %s names no repository, and the trust has none for %s", name, name)
	}
	return nil
}

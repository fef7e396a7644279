package share

import (
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
	// Keys are the keys of which one has to have signed a plugin, by the names that people
	// give them. Without any no signature is asked for.
	Keys map[string]signature.PublicKey
	// Repositories are the repositories that keys may sign, by the names of the keys, as in
	// From. A key that is not here may sign any, in signatures that name the repository.
	Repositories map[string][]string
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

// CheckSigned returns the name of the key that has signed the module which ref names; "" if the
// policy asks for no signature and no key has. A signature counts in the repository that its
// trusted comment names; a signature without that name counts in the repositories of its key.
// A plugin in a folder has no repository. Code permission_denied for a plugin that no trusted
// key has signed for that place.
func (p *Policy) CheckSigned(ref Reference, a *Artifact) (signer string, err error) {
	return p.checkSigned(a.Module, a.Signatures, func(name, comment string) error {
		if ref.Dir != "" {
			return nil
		}
		return p.checkRepository(name, ref.repository(), comment)
	})
}

// CheckModule is CheckSigned of a module that has come without a reference: a file, or an upload.
// Its signatures may be of any repository.
func (p *Policy) CheckModule(module []byte, signatures [][]byte) (signer string, err error) {
	return p.checkSigned(module, signatures, func(string, string) error { return nil })
}

// checkSigned returns the name of a key that has signed a module, and whose signature counts.
func (p *Policy) checkSigned(module []byte, signatures [][]byte, counts func(name, comment string) error) (signer string, err error) {
	err = errors.New("none of its signatures is by a trusted key")
	for _, name := range slices.Sorted(maps.Keys(p.Keys)) {
		for _, s := range signatures {
			comment, invalid := p.Keys[name].Verify(module, s)
			if invalid != nil {
				continue
			}
			if err = counts(name, comment); err == nil {
				return name, nil
			}
		}
	}
	switch {
	case len(p.Keys) == 0:
		return "", nil
	case len(signatures) == 0:
		err = errors.New("it is not signed")
	}
	return "", fault.Errorf(fault.PermissionDenied, "the plugin is not trusted: %w", err).
		WithHint("its author signs it with plugin push --key; trusted are the keys: %s", strings.Join(slices.Sorted(maps.Keys(p.Keys)), ", "))
}

// checkRepository refuses a signature by a key that does not count in a repository.
func (p *Policy) checkRepository(key, repository, comment string) error {
	signed := signedRepository(comment)
	allowed, scoped := p.Repositories[key]
	switch {
	case scoped && !isIn(repository, allowed):
		return fmt.Errorf("the key %s may not sign %s", key, repository)
	case signed != "" && signed != repository:
		return fmt.Errorf("the key %s has signed it for %.200q, and not for %s", key, signed, repository)
	case signed == "" && !scoped:
		return fmt.Errorf("the signature by the key %s names no repository, and the trust has none for that key", key)
	}
	return nil
}

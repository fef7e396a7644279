package share

import (
	"errors"
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
}

// CheckPlace refuses a reference to a registry that is not trusted, with code
// permission_denied.
func (p *Policy) CheckPlace(ref Reference) error {
	if p.From == nil || ref.Dir != "" {
		return nil
	}
	place := ref.Registry + "/" + ref.Repository + "/"
	if slices.ContainsFunc(p.From, func(from string) bool { return strings.HasPrefix(place, strings.TrimSuffix(from, "/")+"/") }) {
		return nil
	}
	return fault.Errorf(fault.PermissionDenied, "%s is no registry that is trusted", ref.Place()).WithHint("trusted are: %s", strings.Join(p.From, ", "))
}

// CheckSigned returns the name of the key that has signed an artifact's module; "" if the
// policy asks for no signature and no key has. Code permission_denied for one that no
// trusted key has signed.
func (p *Policy) CheckSigned(a *Artifact) (signer string, err error) {
	for _, name := range slices.Sorted(maps.Keys(p.Keys)) {
		for _, s := range a.Signatures {
			if _, err := p.Keys[name].Verify(a.Module, s); err == nil {
				return name, nil
			}
		}
	}
	switch {
	case len(p.Keys) == 0:
		return "", nil
	case len(a.Signatures) == 0:
		err = errors.New("it is not signed")
	default:
		err = errors.New("none of its signatures is by a trusted key")
	}
	return "", fault.Errorf(fault.PermissionDenied, "the plugin is not trusted: %w", err).
		WithHint("its author signs it with plugin push --key; trusted are the keys: %s", strings.Join(slices.Sorted(maps.Keys(p.Keys)), ", "))
}

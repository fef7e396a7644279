package share

import (
	"strings"

	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/registry"

	"github.com/agenthost/agenthost/host/fault"
)

// The beginnings of references.
const (
	RegistryPrefix = "oci://"
	LayoutPrefix   = "oci-layout:"
)

// defaultTag is the tag of a reference without one.
const defaultTag = "latest"

// Reference names an artifact: of a registry, oci://HOST/REPOSITORY:TAG, or of a layout
// folder, oci-layout:DIR:TAG. @DIGEST in the place of the tag, or behind it, names one
// content for all time. Without either the tag is latest.
type Reference struct {
	Registry   string // HOST or HOST:PORT; "" for a folder
	Repository string // "" for a folder
	Dir        string // of a layout; "" for a registry
	Tag        string // "" if only the digest is given
	Digest     string // sha256:HEX; "" if only the tag is given
}

// IsReference reports whether text names an artifact, and no file.
func IsReference(text string) bool {
	return strings.HasPrefix(text, RegistryPrefix) || strings.HasPrefix(text, LayoutPrefix)
}

// ParseReference reads a reference. Code invalid_argument if it is none.
func ParseReference(text string) (Reference, error) {
	rest, inRegistry := strings.CutPrefix(text, RegistryPrefix)
	if !inRegistry {
		var ok bool
		if rest, ok = strings.CutPrefix(text, LayoutPrefix); !ok {
			return Reference{}, badReference(text, "it begins with neither "+RegistryPrefix+" nor "+LayoutPrefix)
		}
	}
	var r Reference
	if i := strings.IndexByte(rest, '@'); i >= 0 {
		rest, r.Digest = rest[:i], rest[i+1:]
		if d := digest.Digest(r.Digest); d.Validate() != nil || d.Algorithm() != digest.SHA256 {
			return Reference{}, badReference(text, "what follows @ is not sha256: and 64 hexadecimal digits")
		}
	}
	if i := strings.LastIndexByte(rest, ':'); i > strings.LastIndexByte(rest, '/') {
		rest, r.Tag = rest[:i], rest[i+1:]
		if (registry.Reference{Registry: "r", Repository: "r", Reference: r.Tag}).ValidateReferenceAsTag() != nil {
			return Reference{}, badReference(text, "its tag is not 1 to 128 letters, digits, dots, dashes and underscores")
		}
	}
	if r.Tag == "" && r.Digest == "" {
		r.Tag = defaultTag
	}
	if !inRegistry {
		r.Dir = rest
		if rest == "" {
			return Reference{}, badReference(text, "it names no folder")
		}
		return r, nil
	}
	r.Registry, r.Repository, _ = strings.Cut(rest, "/")
	if err := r.remote().ValidateRegistry(); err != nil || strings.ContainsAny(r.Registry, "@%?#") {
		return Reference{}, badReference(text, "its registry is not HOST or HOST:PORT")
	}
	if r.remote().ValidateRepository() != nil {
		return Reference{}, badReference(text, "its repository is not a path in small letters")
	}
	return r, nil
}

func badReference(text, why string) error {
	return fault.Errorf(fault.InvalidArgument, "%.200q does not name a shared plugin: %s", text, why).
		WithHint("write %sHOST/NAME:TAG or %sDIR:TAG", RegistryPrefix, LayoutPrefix)
}

func (r Reference) remote() registry.Reference {
	return registry.Reference{Registry: r.Registry, Repository: r.Repository, Reference: r.name()}
}

// name returns what the content is asked for by: the digest, or else the tag.
func (r Reference) name() string {
	if r.Digest != "" {
		return r.Digest
	}
	return r.Tag
}

// At returns the reference with a digest.
func (r Reference) At(digest string) Reference {
	r.Digest = digest
	return r
}

// WithTag returns the reference with a tag, and no digest.
func (r Reference) WithTag(tag string) Reference {
	r.Tag, r.Digest = tag, ""
	return r
}

// String returns the reference as [ParseReference] reads it.
func (r Reference) String() string {
	s := r.Place()
	if r.Tag != "" {
		s += ":" + r.Tag
	}
	if r.Digest != "" {
		s += "@" + r.Digest
	}
	return s
}

// repository returns HOST/REPOSITORY.
func (r Reference) repository() string { return r.Registry + "/" + r.Repository }

// Place returns the reference without its tag and digest: oci://HOST/REPOSITORY.
func (r Reference) Place() string {
	if r.Dir != "" {
		return LayoutPrefix + r.Dir
	}
	return RegistryPrefix + r.repository()
}

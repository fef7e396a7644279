package share

// Identity is who signs plugins by sigstore, without a key to keep: a workflow or a person, for
// whom an issuer of OpenID Connect vouches. Issuer and subject are each given as a text or as a
// pattern, and one of both has to be there.
type Identity struct {
	Issuer        string // https://token.actions.githubusercontent.com
	IssuerPattern string // a regular expression of the whole issuer
	// Subject is who signs: of a workflow of GitHub
	// https://github.com/OWNER/REPOSITORY/.github/workflows/FILE@refs/tags/TAG, of a person the
	// address of mail.
	Subject        string
	SubjectPattern string // a regular expression of the whole subject

	// Root is the trusted root of an instance of sigstore, in JSON: the keys of its authorities
	// and logs. Where it lists logs of certificates, a certificate has to be in one of them.
	Root []byte
	// LogEntries is how many transparency logs of the root must have the signature (1).
	LogEntries int
	// WithoutLog asks no transparency log. Timestamps is then at least 1.
	WithoutLog bool
	// Timestamps is how many timestamp authorities of the root must have said when the signature
	// was made. 0 leaves it open whether an authority or a log has.
	Timestamps int
}

// BundleVerifier verifies the bundles of one [Identity]. It is safe for concurrent use, and asks
// no network.
type BundleVerifier interface {
	// VerifyBundle returns who has signed the content of a digest, sha256: or sha512: and
	// hexadecimal digits, in words: its subject and issuer. Code permission_denied for a bundle
	// that does not show that the identity has signed it, invalid_argument for one that cannot be
	// read.
	VerifyBundle(bundle []byte, digest string) (signer string, err error)
}

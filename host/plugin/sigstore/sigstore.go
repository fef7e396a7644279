// Package sigstore verifies who signed a plugin, by bundles of sigstore: a workflow or a person
// signs with a key that lives for minutes, an authority certifies for whom it was made, and a
// public log has the signature.
//
//	trustedRoot, err := os.ReadFile("trusted_root.json")
//	release, err := sigstore.New(share.Identity{
//		Issuer:         "https://token.actions.githubusercontent.com",
//		SubjectPattern: `https://github\.com/acme/orders/\.github/workflows/release\.yml@refs/tags/.*`,
//		Root:           trustedRoot,
//	})
//	bundle, err := os.ReadFile("orders.wasm.sigstore.json")
//	signer, err := release.VerifyBundle(bundle, "sha256:6b86b273ff34...")
//
// The bundles are those of cosign sign-blob --bundle, cosign sign and GitHub's attestations, of the
// media types 0.1 to 0.3. Signed is the digest itself, or a statement of in-toto whose subjects have
// it, of one of [PredicateTypes].
//
// Nothing is asked of a network: the bundle has the entries of the logs, and the trusted root, a
// file that the operator refreshes, has the keys that they are verified with. Bundles are bytes of
// strangers: they are bounded, and a panic of the library over one is an error of that bundle. A
// verifier never changes, and any number of goroutines may use it.
package sigstore

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin/share"
)

// The bounds of texts that are read.
const (
	MaxBundleBytes  = share.MaxBundleBytes
	MaxRootBytes    = share.MaxRootBytes
	MaxPatternBytes = 1 << 10
	maxCauseRunes   = 300 // of the library's words in an error
)

// PredicateTypes returns the types of statements that count as a signature: what cosign writes when
// it signs, and provenance as SLSA has it. A statement of another type says something else of its
// subject, such as that a scan found faults in it.
func PredicateTypes() []string {
	return []string{"https://sigstore.dev/cosign/sign/v1", "https://slsa.dev/provenance/v1", "https://slsa.dev/provenance/v0.2"}
}

// verifier verifies the bundles of one identity. It never changes.
type verifier struct {
	library  *verify.Verifier
	identity verify.CertificateIdentity
	wants    string // the identity, in words
}

var _ share.BundleVerifier = (*verifier)(nil)

// New returns the verifier of an identity. Code invalid_argument for one that cannot be used.
func New(id share.Identity) (share.BundleVerifier, error) {
	issuer, err := pattern("issuer", id.Issuer, id.IssuerPattern)
	if err != nil {
		return nil, err
	}
	subject, err := pattern("subject", id.Subject, id.SubjectPattern)
	if err != nil {
		return nil, err
	}
	v := &verifier{wants: words(id.Subject+id.SubjectPattern, id.Issuer+id.IssuerPattern)}
	if v.identity, err = verify.NewShortCertificateIdentity(id.Issuer, issuer, id.Subject, subject); err != nil {
		return nil, fault.Errorf(fault.InvalidArgument, "the identity cannot be used: %v", err)
	}
	trusted, err := readRoot(id.Root)
	if err != nil {
		return nil, err
	}
	options, err := thresholds(&id, trusted)
	if err != nil {
		return nil, err
	}
	if v.library, err = verify.NewVerifier(trusted, options...); err != nil {
		return nil, fault.Errorf(fault.InvalidArgument, "the identity cannot be used: %v", err)
	}
	return v, nil
}

// pattern returns the regular expression of a whole issuer or subject; "" for one that is given as
// a text. An expression is compiled by itself first, so that none closes the brackets around it.
func pattern(what, text, expression string) (string, error) {
	switch {
	case (text == "") == (expression == ""):
		return "", fault.Errorf(fault.InvalidArgument, "the identity has both or neither of %s and %s_pattern", what, what).
			WithHint("say who signs: an exact %s, or a regular expression of it", what)
	case len(text)+len(expression) > MaxPatternBytes:
		return "", fault.Errorf(fault.InvalidArgument, "the %s of the identity has more than %d bytes", what, MaxPatternBytes)
	case expression == "":
		return "", nil
	}
	if _, err := regexp.Compile(expression); err != nil {
		return "", fault.Errorf(fault.InvalidArgument, "the %s_pattern of the identity is no regular expression: %v", what, err).WithHint(`write a dot as \.`)
	}
	whole := `\A(?:` + expression + `)\z`
	if _, err := regexp.Compile(whole); err != nil { // a quotation without an end takes in our bracket
		return "", fault.Errorf(fault.InvalidArgument, `the %s_pattern of the identity has a \Q that nothing ends`, what).WithHint(`end it with \E, or write a dot as \.`)
	}
	return whole, nil
}

// readRoot reads a trusted root.
func readRoot(text []byte) (trusted *root.TrustedRoot, err error) {
	if len(text) > MaxRootBytes {
		return nil, fault.Errorf(fault.InvalidArgument, "the trusted root has %d bytes, more than %d", len(text), MaxRootBytes)
	}
	err = guarded(func() (err error) { trusted, err = root.NewTrustedRootFromJSON(text); return err })
	if err == nil && len(trusted.FulcioCertificateAuthorities()) == 0 {
		err = errors.New("it lists no certificate authority")
	}
	if err != nil {
		return nil, fault.Errorf(fault.InvalidArgument, "it is no trusted root of sigstore: %s", cause(err)).
			WithHint("write one with: cosign trusted-root create --with-default-services --out trusted_root.json")
	}
	return trusted, nil
}

// thresholds returns what a bundle has to have beside a signature by the identity.
func thresholds(id *share.Identity, trusted *root.TrustedRoot) ([]verify.VerifierOption, error) {
	entries, authorities := max(id.LogEntries, 1), id.Timestamps
	if id.WithoutLog {
		entries, authorities = 0, max(authorities, 1)
	}
	logs := len(trusted.RekorLogs())
	switch {
	case id.LogEntries < 0 || id.Timestamps < 0:
		return nil, fault.Errorf(fault.InvalidArgument, "log_entries and timestamps are not negative")
	case id.WithoutLog && id.LogEntries > 0:
		return nil, fault.Errorf(fault.InvalidArgument, "the identity has without_log and log_entries").WithHint("keep one of them")
	case entries > logs:
		return nil, fault.Errorf(fault.InvalidArgument, "%d transparency logs must have a signature, and the trusted root lists %d", entries, logs).
			WithHint("lower log_entries, or set without_log for an instance that has none")
	case authorities > len(trusted.TimestampingAuthorities()):
		return nil, fault.Errorf(fault.InvalidArgument, "%d timestamp authorities must have signed, and the trusted root lists %d", authorities, len(trusted.TimestampingAuthorities())).
			WithHint("lower timestamps, or refresh the trusted root")
	}
	options := []verify.VerifierOption{verify.WithObserverTimestamps(1), verify.WithoutStatementPredicate()}
	if entries > 0 {
		options = append(options, verify.WithTransparencyLog(entries))
	}
	if authorities > 0 {
		options = append(options, verify.WithSignedTimestamps(authorities))
	}
	if len(trusted.CTLogs()) > 0 {
		options = append(options, verify.WithSignedCertificateTimestamps(1))
	}
	return options, nil
}

// VerifyBundle implements [share.BundleVerifier].
func (v *verifier) VerifyBundle(text []byte, digest string) (signer string, err error) {
	if len(text) > MaxBundleBytes {
		return "", fault.Errorf(fault.InvalidArgument, "the bundle has more than %d bytes", MaxBundleBytes)
	}
	algorithm, hash, err := parseDigest(digest)
	if err != nil {
		return "", err
	}
	var b bundle.Bundle
	if err := guarded(func() error { return b.UnmarshalJSON(text) }); err != nil {
		return "", fault.Errorf(fault.InvalidArgument, "it is no bundle of sigstore: %s", cause(err)).
			WithHint("cosign sign-blob --bundle FILE.sigstore.json writes one; those of the media types 0.1 to 0.3 are read")
	}
	var result *verify.VerificationResult
	err = guarded(func() (err error) {
		result, err = v.library.Verify(&b, verify.NewPolicy(verify.WithArtifactDigest(algorithm, hash), verify.WithCertificateIdentity(v.identity)))
		return err
	})
	switch {
	case err != nil:
		return "", fault.Errorf(fault.PermissionDenied, "the bundle is no signature of %s by %s: %s", digest, v.wants, cause(err)).
			WithHint("sign it again if another version was signed; refresh the trusted root if it is old")
	case result.Statement != nil && !slices.Contains(PredicateTypes(), result.Statement.GetPredicateType()):
		return "", fault.Errorf(fault.PermissionDenied, "the bundle is a statement of type %.200q, which is no signature", result.Statement.GetPredicateType()).
			WithHint("sign with cosign, or attest provenance: %s", strings.Join(PredicateTypes(), ", "))
	}
	by := result.Signature.Certificate
	return words(by.SubjectAlternativeName, by.Issuer), nil
}

// parseDigest reads sha256:HEX or sha512:HEX.
func parseDigest(text string) (algorithm string, hash []byte, err error) {
	algorithm, digits, _ := strings.Cut(text, ":")
	hash, err = hex.DecodeString(digits)
	if want := map[string]int{"sha256": sha256.Size, "sha512": sha512.Size}[algorithm]; err != nil || len(hash) != want || want == 0 {
		return "", nil, fault.Errorf(fault.InvalidArgument, "%.200q is no digest that a bundle can be of", text).WithHint("write sha256: and 64 hexadecimal digits")
	}
	return algorithm, hash, nil
}

// words says who signs.
func words(subject, issuer string) string { return subject + " (" + issuer + ")" }

// guarded calls the library on bytes of strangers. A panic of it is an error of these bytes, and
// ends no host.
func guarded(call func() error) (err error) {
	defer func() {
		if met := recover(); met != nil {
			err = fault.Errorf(fault.InvalidArgument, "it cannot be verified: %v", met)
		}
	}()
	return call()
}

// cause returns the library's words for a fault, in one short line.
func cause(err error) string {
	text := []rune(strings.Join(strings.Fields(strings.ToValidUTF8(err.Error(), "")), " "))
	if len(text) > maxCauseRunes {
		return string(text[:maxCauseRunes]) + "..."
	}
	return string(text)
}

package sigstore_test

// Scenario: what npm shows for a package, a bundle of the public instance of sigstore, is verified
// with that instance's trusted root. Both are test data of sigstore-go.

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sigstore/sigstore-go/pkg/testing/data"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin/share"
	"github.com/agenthost/agenthost/host/plugin/sigstore"
)

// The package sigstore 2.0.0 of npm, and the workflow that published it.
const (
	npmDigest  = "sha512:46d4e2f74c4877316640000a6fdf8a8b59f1e0847667973e9859f774dd31b8f1e0937813b777fb66a2ac67d50540fe34640966eee9fc2ccca387082b4c85cd3c"
	npmSubject = "https://github.com/sigstore/sigstore-js/.github/workflows/release.yml@refs/heads/main"
	npmIssuer  = "https://token.actions.githubusercontent.com"
)

// publicGood returns the verifier of the workflow, and its bundle.
func publicGood(t testing.TB, tt *testing.T) (share.BundleVerifier, []byte) {
	t.Helper()
	root, err := json.Marshal(data.TrustedRoot(tt, "public-good.json"))
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := json.Marshal(data.Bundle(tt, "sigstore.js@2.0.0-provenance.sigstore.json"))
	if err != nil {
		t.Fatal(err)
	}
	v, err := sigstore.New(share.Identity{Issuer: npmIssuer, SubjectPattern: `https://github\.com/sigstore/sigstore-js/\.github/workflows/release\.yml@refs/heads/.*`, Root: root})
	if err != nil {
		t.Fatal(err)
	}
	return v, bundle
}

func TestABundleOfThePublicInstanceIsVerified(t *testing.T) {
	v, bundle := publicGood(t, t)
	signer, err := v.VerifyBundle(bundle, npmDigest)
	if want := npmSubject + " (" + npmIssuer + ")"; err != nil || signer != want {
		t.Errorf("VerifyBundle = %q, %v, want %q", signer, err, want)
	}
	for _, digest := range []string{
		strings.Replace(npmDigest, "46d4", "46d5", 1),
		"sha256:" + npmDigest[len("sha512:"):len("sha512:")+64],
	} {
		if signer, err := v.VerifyBundle(bundle, digest); fault.CodeOf(err) != fault.PermissionDenied {
			t.Errorf("VerifyBundle of %s = %q, %v, want code permission_denied", digest, signer, err)
		}
	}
	for _, digest := range []string{"", "sha256:", "sha1:" + npmDigest[7:47], npmDigest[:40], "46d4"} {
		if _, err := v.VerifyBundle(bundle, digest); fault.CodeOf(err) != fault.InvalidArgument {
			t.Errorf("VerifyBundle of %q = %v, want code invalid_argument", digest, err)
		}
	}
}

// FuzzVerifyBundle holds that no bytes but a bundle of the digest count, and that none end the
// program.
func FuzzVerifyBundle(f *testing.F) {
	v, bundle := publicGood(f, &testing.T{})
	f.Add(bundle)
	f.Add([]byte(`{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","verificationMaterial":{"certificate":{"rawBytes":""},"tlogEntries":[{}]},"messageSignature":{"messageDigest":{"algorithm":"SHA2_256","digest":"AA=="},"signature":"AA=="}}`))
	f.Add([]byte(`{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","verificationMaterial":{"publicKey":{"hint":"x"},"timestampVerificationData":{"rfc3161Timestamps":[{}]}},"dsseEnvelope":{"payload":"e30=","payloadType":"application/vnd.in-toto+json","signatures":[{}]}}`))
	for _, cut := range []int{1, 100, len(bundle) / 2, len(bundle) - 1} {
		f.Add(bundle[:cut])
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		signer, err := v.VerifyBundle(text, npmDigest)
		switch code := fault.CodeOf(err); {
		case err == nil && signer != npmSubject+" ("+npmIssuer+")":
			t.Errorf("signed by %q", signer)
		case err != nil && code != fault.InvalidArgument && code != fault.PermissionDenied:
			t.Errorf("code %s: %v", code, err)
		}
	})
}

func BenchmarkVerifyBundle(b *testing.B) {
	v, bundle := publicGood(b, &testing.T{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.VerifyBundle(bundle, npmDigest); err != nil {
			b.Fatal(err)
		}
	}
}

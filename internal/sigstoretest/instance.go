// Package sigstoretest signs as an instance of sigstore would, with authorities and a log of its
// own, so that tests need no network and no file that grows old.
package sigstoretest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protodsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	"google.golang.org/protobuf/encoding/protojson"
)

// Who signs, unless a test says otherwise.
const (
	Issuer  = "https://token.actions.githubusercontent.com"
	Subject = "release@acme.example"
)

// The predicate types of statements.
const (
	CosignSign = "https://sigstore.dev/cosign/sign/v1"
	Provenance = "https://slsa.dev/provenance/v1"
)

// Instance is an instance of sigstore.
type Instance struct{ virtual *ca.VirtualSigstore }

// New returns an instance with keys of its own.
func New(t testing.TB) *Instance {
	t.Helper()
	virtual, err := ca.NewVirtualSigstore()
	if err != nil {
		t.Fatal(err)
	}
	return &Instance{virtual}
}

// Root returns the trusted root of the instance. It lists no log of certificates, for its authority
// enters none.
func (i *Instance) Root(t testing.TB) []byte {
	t.Helper()
	trusted, err := root.NewTrustedRoot(root.TrustedRootMediaType01, i.virtual.FulcioCertificateAuthorities(), nil,
		i.virtual.TimestampingAuthorities(), logsByHexID(i.virtual.RekorLogs()))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(trusted)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// logsByHexID gives the logs their ids in bytes: the virtual instance has them in hexadecimal.
func logsByHexID(logs map[string]*root.TransparencyLog) map[string]*root.TransparencyLog {
	for id, log := range logs {
		if raw, err := hex.DecodeString(id); err == nil {
			log.ID = raw
		}
	}
	return logs
}

// Change changes a bundle before it is written.
type Change func(*protobundle.Bundle)

// Sign returns a bundle of the digest of a content, as cosign sign-blob writes it.
func (i *Instance) Sign(t testing.TB, subject, issuer string, content []byte, changes ...Change) []byte {
	t.Helper()
	return i.signAt(t, subject, issuer, content, time.Now().Add(5*time.Minute), changes)
}

// SignLate is Sign of a content that the log enters after the certificate's end.
func (i *Instance) SignLate(t testing.TB, subject, issuer string, content []byte) []byte {
	t.Helper()
	return i.signAt(t, subject, issuer, content, time.Now().Add(30*time.Minute), nil)
}

func (i *Instance) signAt(t testing.TB, subject, issuer string, content []byte, entered time.Time, changes []Change) []byte {
	t.Helper()
	signed, err := i.virtual.SignAtTime(subject, issuer, content, entered)
	if err != nil {
		t.Fatal(err)
	}
	return i.bundle(t, signed, changes)
}

// Attest returns a bundle of a statement about a SHA-256 digest, as cosign sign writes it for what
// is in a registry, and GitHub for provenance.
func (i *Instance) Attest(t testing.TB, subject, issuer, predicateType string, digest []byte, changes ...Change) []byte {
	t.Helper()
	statement := fmt.Sprintf(`{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"orders","digest":{"sha256":"%x"}}],"predicateType":%q,"predicate":{}}`, digest, predicateType)
	signed, err := i.virtual.AttestAtTime(subject, issuer, []byte(statement), time.Now().Add(5*time.Minute), true)
	if err != nil {
		t.Fatal(err)
	}
	return i.bundle(t, signed, changes)
}

// AttestContent is Attest of the digest of a content.
func (i *Instance) AttestContent(t testing.TB, subject, issuer, predicateType string, content []byte) []byte {
	t.Helper()
	digest := sha256.Sum256(content)
	return i.Attest(t, subject, issuer, predicateType, digest[:])
}

// bundle writes what the virtual instance has signed.
func (i *Instance) bundle(t testing.TB, signed *ca.TestEntity, changes []Change) []byte {
	t.Helper()
	material, err := i.material(signed)
	if err != nil {
		t.Fatal(err)
	}
	out := &protobundle.Bundle{MediaType: "application/vnd.dev.sigstore.bundle.v0.3+json", VerificationMaterial: material}
	if err := setContent(out, signed); err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		change(out)
	}
	text, err := protojson.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// material returns the certificate, times and entries that a signature is verified with.
func (i *Instance) material(signed *ca.TestEntity) (*protobundle.VerificationMaterial, error) {
	by, err := signed.VerificationContent()
	if err != nil {
		return nil, err
	}
	out := &protobundle.VerificationMaterial{
		Content:                   &protobundle.VerificationMaterial_Certificate{Certificate: &protocommon.X509Certificate{RawBytes: by.Certificate().Raw}},
		TimestampVerificationData: &protobundle.TimestampVerificationData{},
	}
	times, err := signed.Timestamps()
	if err != nil {
		return nil, err
	}
	for _, one := range times {
		out.TimestampVerificationData.Rfc3161Timestamps = append(out.TimestampVerificationData.Rfc3161Timestamps, &protocommon.RFC3161SignedTimestamp{SignedTimestamp: one})
	}
	entries, err := signed.TlogEntries()
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		e := entry.TransparencyLogEntry()
		if err := i.enter(e); err != nil {
			return nil, err
		}
		out.TlogEntries = append(out.TlogEntries, e)
	}
	return out, nil
}

// enter gives an entry of the log its kind, the promise of the log and the proof that it is there,
// which the virtual instance keeps beside it.
func (i *Instance) enter(e *protorekor.TransparencyLogEntry) error {
	var body struct {
		Kind       string `json:"kind"`
		APIVersion string `json:"apiVersion"`
	}
	if err := json.Unmarshal(e.CanonicalizedBody, &body); err != nil {
		return err
	}
	e.KindVersion = &protorekor.KindVersion{Kind: body.Kind, Version: body.APIVersion}
	promise, err := i.virtual.RekorSignPayload(tlog.RekorPayload{
		Body: base64.StdEncoding.EncodeToString(e.CanonicalizedBody), IntegratedTime: e.IntegratedTime, LogIndex: e.LogIndex, LogID: hex.EncodeToString(e.LogId.KeyId),
	})
	if err != nil {
		return err
	}
	e.InclusionPromise = &protorekor.InclusionPromise{SignedEntryTimestamp: promise}
	e.InclusionProof, err = i.proof(e.CanonicalizedBody)
	return err
}

func (i *Instance) proof(body []byte) (*protorekor.InclusionProof, error) {
	proof, err := i.virtual.GetInclusionProof(body)
	if err != nil {
		return nil, err
	}
	hash, err := hex.DecodeString(*proof.RootHash)
	if err != nil {
		return nil, err
	}
	return &protorekor.InclusionProof{
		LogIndex: *proof.LogIndex, RootHash: hash, TreeSize: *proof.TreeSize, Checkpoint: &protorekor.Checkpoint{Envelope: *proof.Checkpoint},
	}, nil
}

// setContent sets the signed content: a digest, or a statement.
func setContent(out *protobundle.Bundle, signed *ca.TestEntity) error {
	content, err := signed.SignatureContent()
	if err != nil {
		return err
	}
	if digest := content.MessageSignatureContent(); digest != nil {
		out.Content = &protobundle.Bundle_MessageSignature{MessageSignature: &protocommon.MessageSignature{
			MessageDigest: &protocommon.HashOutput{Algorithm: protocommon.HashAlgorithm_SHA2_256, Digest: digest.Digest()}, Signature: digest.Signature(),
		}}
		return nil
	}
	envelope := content.EnvelopeContent().RawEnvelope()
	statement, err := envelope.DecodeB64Payload()
	if err != nil {
		return err
	}
	out.Content = &protobundle.Bundle_DsseEnvelope{DsseEnvelope: &protodsse.Envelope{
		Payload: statement, PayloadType: envelope.PayloadType, Signatures: []*protodsse.Signature{{Sig: content.Signature()}},
	}}
	return nil
}

package share_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin/share"
	"github.com/agenthost/agenthost/host/plugin/sigstore"
	"github.com/agenthost/agenthost/internal/sigstoretest"
)

// identities are those of a policy that trusts the release workflow of an instance.
func identities(t testing.TB, instance *sigstoretest.Instance) map[string]share.BundleVerifier {
	t.Helper()
	v, err := sigstore.New(share.Identity{Issuer: sigstoretest.Issuer, Subject: sigstoretest.Subject, Root: instance.Root(t)})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]share.BundleVerifier{"release": v}
}

// attached is what cosign puts beside an artifact.
type attached interface {
	content.Pusher
	content.Tagger
}

func push(t testing.TB, to attached, mediaType string, data []byte) ocispec.Descriptor {
	t.Helper()
	desc := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
	if err := to.Push(context.Background(), desc, bytes.NewReader(data)); err != nil && !errors.Is(err, errdef.ErrAlreadyExists) {
		t.Fatal(err)
	}
	return desc
}

// attach writes a manifest with layers of one type: one that refers to a subject, or one under a tag.
func attach(t testing.TB, to attached, subject *ocispec.Descriptor, tag string, layers ...ocispec.Descriptor) {
	t.Helper()
	m := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: push(t, to, ocispec.MediaTypeEmptyJSON, []byte("{}")), Layers: layers, Subject: subject,
	}
	if subject != nil {
		m.ArtifactType = strings.Replace(layers[0].MediaType, "simplesigning", "artifact.sig", 1)
	}
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	desc := push(t, to, ocispec.MediaTypeImageManifest, raw)
	if tag == "" {
		return
	}
	if err := to.Tag(context.Background(), desc, tag); err != nil {
		t.Fatal(err)
	}
}

// attachBundle attaches a bundle as cosign does now.
func attachBundle(t testing.TB, to attached, subject ocispec.Descriptor, text []byte) {
	t.Helper()
	attach(t, to, &subject, "", push(t, to, share.BundleType, text))
}

// attachSignature attaches a signature of a document as cosign did before it wrote bundles.
func attachSignature(t testing.TB, to attached, instance *sigstoretest.Instance, subject ocispec.Descriptor, document string) {
	t.Helper()
	attach(t, to, nil, strings.Replace(subject.Digest.String(), ":", "-", 1)+".sig", signatureLayer(t, to, instance, document))
}

// signatureLayer writes a document with its signature in the annotations.
func signatureLayer(t testing.TB, to attached, instance *sigstoretest.Instance, document string) ocispec.Descriptor {
	t.Helper()
	var b *protobundle.Bundle
	instance.Sign(t, sigstoretest.Subject, sigstoretest.Issuer, []byte(document), func(made *protobundle.Bundle) { b = made })
	layer := push(t, to, "application/vnd.dev.cosign.simplesigning.v1+json", []byte(document))
	entry := b.VerificationMaterial.TlogEntries[0]
	kept, err := json.Marshal(map[string]any{"SignedEntryTimestamp": entry.InclusionPromise.SignedEntryTimestamp, "Payload": map[string]any{
		"body": entry.CanonicalizedBody, "integratedTime": entry.IntegratedTime, "logIndex": entry.LogIndex, "logID": hex.EncodeToString(entry.LogId.KeyId),
	}})
	if err != nil {
		t.Fatal(err)
	}
	layer.Annotations = map[string]string{
		"dev.cosignproject.cosign/signature": base64.StdEncoding.EncodeToString(b.GetMessageSignature().Signature),
		"dev.sigstore.cosign/certificate":    string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: b.VerificationMaterial.GetCertificate().RawBytes})),
		"dev.sigstore.cosign/bundle":         string(kept),
	}
	return layer
}

// document is what cosign signs of an image.
func document(repository, digest string) string {
	return fmt.Sprintf(`{"critical":{"identity":{"docker-reference":%q},"image":{"docker-manifest-digest":%q},"type":"cosign container image signature"},"optional":null}`, repository, digest)
}

// Cosign and GitHub put what they sign beside an artifact: in registries that list it, in those
// that do not, and in folders.
func TestBundlesAreFoundWhereCosignPutsThem(t *testing.T) {
	instance, stranger := sigstoretest.New(t), sigstoretest.New(t)
	policy := &share.Policy{Identities: identities(t, instance)}
	module := []byte("module")
	attest := func(by *sigstoretest.Instance, d string) []byte {
		raw, err := hex.DecodeString(strings.TrimPrefix(d, "sha256:"))
		if err != nil {
			t.Fatal(err)
		}
		return by.Attest(t, sigstoretest.Subject, sigstoretest.Issuer, sigstoretest.CosignSign, raw)
	}
	rows := map[string]struct {
		attach func(t *testing.T, to attached, of ocispec.Descriptor, repository string)
		want   fault.Code
	}{
		"nothing": {func(*testing.T, attached, ocispec.Descriptor, string) {}, fault.PermissionDenied},
		"a bundle of the manifest": {func(t *testing.T, to attached, of ocispec.Descriptor, _ string) {
			attachBundle(t, to, of, attest(instance, of.Digest.String()))
		}, ""},
		"a bundle of the module": {func(t *testing.T, to attached, of ocispec.Descriptor, _ string) {
			attachBundle(t, to, of, instance.Sign(t, sigstoretest.Subject, sigstoretest.Issuer, module))
		}, ""},
		"a bundle of a stranger, and then ours": {func(t *testing.T, to attached, of ocispec.Descriptor, _ string) {
			attachBundle(t, to, of, attest(stranger, of.Digest.String()))
			attachBundle(t, to, of, attest(instance, of.Digest.String()))
		}, ""},
		"a bundle of another manifest": {func(t *testing.T, to attached, of ocispec.Descriptor, _ string) {
			attachBundle(t, to, of, attest(instance, digest.FromString("another").String()))
		}, fault.PermissionDenied},
		"a bundle that is none": {func(t *testing.T, to attached, of ocispec.Descriptor, _ string) {
			attachBundle(t, to, of, []byte("{}"))
		}, fault.PermissionDenied},
		"a huge bundle beside ours": {func(t *testing.T, to attached, of ocispec.Descriptor, _ string) {
			attachBundle(t, to, of, bytes.Repeat([]byte(" "), share.MaxBundleBytes+1))
			attachBundle(t, to, of, attest(instance, of.Digest.String()))
		}, ""},
		"a signature of the manifest": {func(t *testing.T, to attached, of ocispec.Descriptor, repository string) {
			attachSignature(t, to, instance, of, document(repository, of.Digest.String()))
		}, ""},
		"a signature behind many bundles of a stranger": {func(t *testing.T, to attached, of ocispec.Descriptor, repository string) {
			for range share.MaxBundles {
				attachBundle(t, to, of, attest(stranger, of.Digest.String()))
			}
			attachSignature(t, to, instance, of, document(repository, of.Digest.String()))
		}, ""},
		"a manifest of too many bundles beside ours": {func(t *testing.T, to attached, of ocispec.Descriptor, _ string) {
			layer := push(t, to, share.BundleType, attest(stranger, of.Digest.String()))
			attach(t, to, &of, "", slices.Repeat([]ocispec.Descriptor{layer}, share.MaxBundles+1)...)
			attachBundle(t, to, of, attest(instance, of.Digest.String()))
		}, ""},
		"a signature in a manifest that refers to it": {func(t *testing.T, to attached, of ocispec.Descriptor, repository string) {
			attach(t, to, &of, "", signatureLayer(t, to, instance, document(repository, of.Digest.String())))
		}, ""},
		"a signature of another manifest": {func(t *testing.T, to attached, of ocispec.Descriptor, repository string) {
			attachSignature(t, to, instance, of, document(repository, digest.FromString("another").String()))
		}, fault.PermissionDenied},
		"a signature of no document": {func(t *testing.T, to attached, of ocispec.Descriptor, repository string) {
			attachSignature(t, to, instance, of, `{"critical":{"type":"another"}}`)
		}, fault.PermissionDenied},
		"a signature of a stranger": {func(t *testing.T, to attached, of ocispec.Descriptor, repository string) {
			attachSignature(t, to, stranger, of, document(repository, of.Digest.String()))
		}, fault.PermissionDenied},
	}
	check := func(t *testing.T, c *share.Client, ref share.Reference, scoped bool, want fault.Code) {
		t.Helper()
		a, err := c.Pull(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		if a.Bundles, a.Unread, err = c.Bundles(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		p := *policy
		if scoped {
			p.Repositories = map[string][]string{"release": {ref.Registry + "/acme"}}
		}
		signer, err := p.CheckSigned(t.Context(), ref, a)
		if fault.CodeOf(err) != want && (want != "" || err != nil) || err == nil && signer.Who != sigstoretest.Subject+" ("+sigstoretest.Issuer+")" {
			t.Errorf("CheckSigned with %d bundles = %+v, %v, want code %q", len(a.Bundles), signer, err, want)
		}
	}
	for _, kind := range []string{"open", "referrers"} {
		addr := startRegistry(t, kind)
		for name, row := range rows {
			t.Run("registry "+kind+", "+name, func(t *testing.T) {
				c := newClient(t, addr, nil)
				ref := mustParse(t, "oci://"+addr+"/acme/"+strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), ",", "")+":1")
				of := pushed(t, c, ref, module)
				to, err := remote.NewRepository(ref.Registry + "/" + ref.Repository)
				if err != nil {
					t.Fatal(err)
				}
				to.PlainHTTP = true
				row.attach(t, to, of, ref.Registry+"/"+ref.Repository)
				check(t, c, ref, true, row.want)
			})
		}
	}
	for name, row := range rows {
		t.Run("folder, "+name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "dist")
			c := newClient(t, "localhost:1", nil)
			ref := mustParse(t, "oci-layout:"+dir+":1")
			of := pushed(t, c, ref, module)
			to, err := oci.New(dir)
			if err != nil {
				t.Fatal(err)
			}
			row.attach(t, to, of, "acme/orders")
			check(t, c, ref, false, row.want)
		})
	}
}

// Bundles beyond the limit are counted, and a refusal says that they are not read.
func TestBundlesBeyondTheLimitAreCounted(t *testing.T) {
	instance, stranger := sigstoretest.New(t), sigstoretest.New(t)
	addr := startRegistry(t, "referrers")
	c := newClient(t, addr, nil)
	ref := mustParse(t, "oci://"+addr+"/acme/orders:1")
	module := []byte("module")
	of := pushed(t, c, ref, module)
	to, err := remote.NewRepository(ref.Registry + "/" + ref.Repository)
	if err != nil {
		t.Fatal(err)
	}
	to.PlainHTTP = true
	for range share.MaxBundles + 3 {
		attachBundle(t, to, of, stranger.Sign(t, sigstoretest.Subject, sigstoretest.Issuer, module))
	}
	a, err := c.Pull(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if a.Bundles, a.Unread, err = c.Bundles(t.Context(), ref); err != nil || len(a.Bundles) != share.MaxBundles || a.Unread != 3 {
		t.Fatalf("Bundles = %d bundles, %d unread, %v, want %d and 3", len(a.Bundles), a.Unread, err, share.MaxBundles)
	}
	p := &share.Policy{Identities: identities(t, instance)}
	if _, err := p.CheckSigned(t.Context(), ref, a); fault.CodeOf(err) != fault.PermissionDenied || !strings.Contains(err.Error(), "3 more of the signatures") {
		t.Errorf("CheckSigned = %v, want code permission_denied that says that 3 are not read", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.CheckSigned(ended, ref, a); !errors.Is(err, context.Canceled) {
		t.Errorf("CheckSigned with a context that has ended = %v", err)
	}
}

// pushed pushes a module, and returns the descriptor of its manifest.
func pushed(t *testing.T, c *share.Client, ref share.Reference, module []byte) ocispec.Descriptor {
	t.Helper()
	a := &share.Artifact{Module: module}
	d, err := c.Push(t.Context(), ref, a)
	if err != nil {
		t.Fatal(err)
	}
	if ref.Dir != "" {
		raw, err := os.ReadFile(filepath.Join(ref.Dir, "blobs", "sha256", strings.TrimPrefix(d, "sha256:")))
		if err != nil {
			t.Fatal(err)
		}
		return ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.Digest(d), Size: int64(len(raw))}
	}
	to, err := remote.NewRepository(ref.Registry + "/" + ref.Repository)
	if err != nil {
		t.Fatal(err)
	}
	to.PlainHTTP = true
	desc, err := to.Resolve(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	return desc
}

func TestABundleCountsInTheRepositoriesOfItsIdentity(t *testing.T) {
	instance := sigstoretest.New(t)
	module := []byte("module")
	a := &share.Artifact{Module: module, Bundles: []share.Bundle{{Text: instance.Sign(t, sigstoretest.Subject, sigstoretest.Issuer, module)}}}
	for name, row := range map[string]struct {
		scope map[string][]string
		place string
		want  fault.Code
	}{
		"no repository":      {nil, "oci://ghcr.io/acme/orders:1", fault.PermissionDenied},
		"its repository":     {map[string][]string{"release": {"ghcr.io/acme"}}, "oci://ghcr.io/acme/orders:1", ""},
		"another repository": {map[string][]string{"release": {"ghcr.io/acme"}}, "oci://ghcr.io/mallory/orders:1", fault.PermissionDenied},
		"another identity's": {map[string][]string{"other": {"ghcr.io/acme"}}, "oci://ghcr.io/acme/orders:1", fault.PermissionDenied},
		"a folder":           {nil, "oci-layout:dist:1", ""},
	} {
		p := &share.Policy{Identities: identities(t, instance), Repositories: row.scope}
		if by, err := p.CheckSigned(t.Context(), mustParse(t, row.place), a); fault.CodeOf(err) != row.want && (row.want != "" || err != nil) {
			t.Errorf("%s: CheckSigned = %+v, %v, want code %q", name, by, err, row.want)
		}
	}
	p := &share.Policy{Identities: identities(t, instance)}
	if by, err := p.CheckModule(t.Context(), a); err != nil || by.Name != "release" {
		t.Errorf("CheckModule = %+v, %v", by, err)
	}
	if by, err := p.CheckModule(t.Context(), &share.Artifact{Module: module}); fault.CodeOf(err) != fault.PermissionDenied || !strings.Contains(err.Error(), "release") {
		t.Errorf("CheckModule of an unsigned module = %+v, %v, want code permission_denied that names the identity", by, err)
	}
}

func TestABundleOfTheModuleGoesWithIt(t *testing.T) {
	instance := sigstoretest.New(t)
	module := []byte("module")
	text := instance.Sign(t, sigstoretest.Subject, sigstoretest.Issuer, module)
	c := newClient(t, "localhost:1", nil)
	ref := mustParse(t, "oci-layout:"+filepath.Join(t.TempDir(), "dist")+":1")
	if _, err := c.Push(t.Context(), ref, &share.Artifact{Module: module, Bundles: []share.Bundle{{Text: text}}}); err != nil {
		t.Fatal(err)
	}
	a, err := c.Pull(t.Context(), ref)
	if err != nil || len(a.Bundles) != 1 || !bytes.Equal(a.Bundles[0].Text, text) {
		t.Errorf("Pull = %d bundles, %v, want that of the module", len(a.Bundles), err)
	}
	for name, bundles := range map[string][]share.Bundle{
		"empty": {{}}, "huge": {{Text: make([]byte, share.MaxBundleBytes+1)}}, "of a document": {{Text: text, Signed: []byte("{}")}}, "many": make([]share.Bundle, share.MaxBundles+1),
	} {
		if _, err := c.Push(t.Context(), ref, &share.Artifact{Module: module, Bundles: bundles}); fault.CodeOf(err) != fault.InvalidArgument {
			t.Errorf("Push of bundles that are %s = %v, want code invalid_argument", name, err)
		}
	}
}

func TestBundlesAreKeptForAStartWithoutTheRegistry(t *testing.T) {
	instance := sigstoretest.New(t)
	addr := startRegistry(t, "referrers")
	dir := t.TempDir()
	c := newClient(t, addr, func(o *share.Options) { o.CacheDir = dir })
	ref := mustParse(t, "oci://"+addr+"/acme/orders:1")
	module := []byte("module")
	of := pushed(t, c, ref, module)
	ref = ref.At(of.Digest.String())
	if kept := c.KeptBundles(ref); len(kept) != 0 {
		t.Errorf("%d bundles are kept before any was read", len(kept))
	}
	to, err := remote.NewRepository(ref.Registry + "/" + ref.Repository)
	if err != nil {
		t.Fatal(err)
	}
	to.PlainHTTP = true
	text := instance.Sign(t, sigstoretest.Subject, sigstoretest.Issuer, module)
	attachBundle(t, to, of, text)
	if _, _, err := c.Bundles(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	if kept := c.KeptBundles(ref); len(kept) != 1 || !bytes.Equal(kept[0].Text, text) {
		t.Errorf("%d bundles are kept, want the one that was read", len(kept))
	}
	files, err := filepath.Glob(filepath.Join(dir, "bundles", "sha256", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files of bundles: %v, %v", files, err)
	}
	if err := os.WriteFile(files[0], []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if kept := c.KeptBundles(ref); len(kept) != 0 {
		t.Errorf("a file that cannot be read has %d bundles", len(kept))
	}
}

// everything is the verifier of an identity that has signed everything.
type everything struct{}

func (everything) VerifyBundle([]byte, string) (string, error) {
	return "release@acme.example", nil
}

// Docker's registry has two names in documents of cosign. Another host that begins with its longer
// one's first word is another host.
func TestADocumentOfCosignCountsInItsRepositoryAlone(t *testing.T) {
	of := digest.FromString("manifest").String()
	for _, row := range []struct {
		named, reference string
		want             fault.Code
	}{
		{"ghcr.io/acme/orders", "oci://ghcr.io/acme/orders:1", ""},
		{"ghcr.io/acme/orders:1", "oci://ghcr.io/acme/orders:1", ""},
		{"ghcr.io/acme/other", "oci://ghcr.io/acme/orders:1", fault.PermissionDenied},
		{"index.docker.io/acme/orders", "oci://docker.io/acme/orders:1", ""},
		{"docker.io/acme/orders", "oci://index.docker.io/acme/orders:1", ""},
		{"index.acme.example/acme/orders", "oci://index.acme.example/acme/orders:1", ""},
		{"index.acme.example/acme/orders", "oci://acme.example/acme/orders:1", fault.PermissionDenied},
		{"acme.example/acme/orders", "oci://index.acme.example/acme/orders:1", fault.PermissionDenied},
	} {
		ref := mustParse(t, row.reference)
		p := &share.Policy{Identities: map[string]share.BundleVerifier{"release": everything{}}, Repositories: map[string][]string{"release": {ref.Registry}}}
		a := &share.Artifact{Module: []byte("module"), Digest: of, Bundles: []share.Bundle{{Text: []byte("{}"), Signed: []byte(document(row.named, of))}}}
		if _, err := p.CheckSigned(t.Context(), ref, a); fault.CodeOf(err) != row.want && (row.want != "" || err != nil) {
			t.Errorf("a document of %s in %s: %v, want code %q", row.named, row.reference, err, row.want)
		}
	}
}

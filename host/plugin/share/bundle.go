package share

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"

	"github.com/agenthost/agenthost/host/fault"
)

// The bounds of a search for bundles beside an artifact.
const (
	maxReferrers     = 64 // manifests that refer to an artifact
	maxReferrerPages = 8
	maxSignedBytes   = 16 << 10 // of a document of cosign

	maxBundlesFileBytes = 2 * MaxBundles * (MaxBundleBytes + maxSignedBytes) // in the cache, in base64
)

// bundleTypePrefix begins the media types of bundles, of all versions.
const bundleTypePrefix = "application/vnd.dev.sigstore.bundle"

// Bundle is a bundle of sigstore, which says who has signed something.
type Bundle struct {
	Text []byte // in JSON
	// Signed is the signed document, which names the digest of an artifact: cosign signs one where
	// it writes no bundles. nil for a bundle of a digest.
	Signed []byte
}

// verify returns who has signed an artifact, and the repository that the signature names, "" if it
// names none.
func (b *Bundle) verify(v BundleVerifier, a *Artifact) (who, repository string, err error) {
	if b.Signed != nil {
		if who, err = v.VerifyBundle(b.Text, digestOf(b.Signed)); err != nil {
			return "", "", err
		}
		repository, err = readSigned(b.Signed, a.Digest)
		return who, repository, err
	}
	if a.Digest != "" {
		if who, err = v.VerifyBundle(b.Text, a.Digest); err == nil {
			return who, "", nil
		}
	}
	who, err = v.VerifyBundle(b.Text, a.ModuleDigest())
	return who, "", err
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// bundles returns the bundles among layers. A larger one than the bound is left out: it is of a
// long statement, and not of a signature.
func (r *reader) bundles(ctx context.Context, layers []ocispec.Descriptor) (list []Bundle, err error) {
	for _, layer := range layers {
		if !strings.HasPrefix(layer.MediaType, bundleTypePrefix) || layer.Size > MaxBundleBytes {
			continue
		}
		if len(list) == MaxBundles {
			return nil, fault.Errorf(fault.ResourceExhausted, "the artifact has more than %d bundles", MaxBundles)
		}
		text, err := r.fetch(ctx, "a bundle", layer, MaxBundleBytes)
		if err != nil {
			return nil, err
		}
		list = append(list, Bundle{Text: text})
	}
	return list, nil
}

// Bundles returns the first MaxBundles bundles that lie beside an artifact: under the tag
// sha256-HEX.sig, where cosign put signatures before it wrote bundles, and in manifests that refer
// to it. A manifest that cannot be read counts for nothing. unread is how many bundles, and
// manifests that may have some, are left out: the caller sets [Artifact].Unread to it.
//
// The bundles are not verified: that is the caller's policy. The cache keeps those of a registry.
// Codes are those of Pull.
func (c *Client) Bundles(ctx context.Context, ref Reference) (list []Bundle, unread int, err error) {
	err = c.do(ctx, "look for bundles of", ref, func(ctx context.Context) error {
		from, err := c.source(ctx, ref)
		if err != nil {
			return err
		}
		desc, err := c.resolve(ctx, ref)
		if err != nil {
			return err
		}
		r := &reader{from: from, moduleBytes: c.opts.ModuleBytes}
		if list, err = signedByTag(ctx, from, r, desc); err != nil {
			return err
		}
		newer, left, err := referring(ctx, from, r, desc)
		if err != nil {
			return err
		}
		list = append(list, newer...)
		unread = left + max(len(list)-MaxBundles, 0)
		list = list[:min(len(list), MaxBundles)]
		if ref.Registry != "" {
			c.cache.keepBundles(desc.Digest, list)
		}
		return nil
	})
	return list, unread, err
}

// KeptBundles returns the bundles of an artifact that the cache has, so that a start needs no
// network. They lie beside the artifact of a reference with a digest.
func (c *Client) KeptBundles(ref Reference) []Bundle {
	if ref.Digest == "" || ref.Registry == "" {
		return nil
	}
	return c.cache.bundles(digest.Digest(ref.Digest))
}

// referring returns the bundles in manifests that refer to an artifact, and how many of the
// manifests are not read, as there are bundles or manifests enough without them.
func referring(ctx context.Context, from source, r *reader, desc ocispec.Descriptor) (list []Bundle, unread int, err error) {
	manifests, err := from.Predecessors(ctx, desc)
	if err != nil {
		return nil, 0, wrap(err, "ask what refers to it")
	}
	manifests = slices.DeleteFunc(manifests, func(m ocispec.Descriptor) bool {
		return m.MediaType != ocispec.MediaTypeImageManifest || !mayHaveBundles(m.ArtifactType)
	})
	for i, m := range manifests {
		if i >= maxReferrers || len(list) >= MaxBundles {
			return list, len(manifests) - i, nil
		}
		more, err := r.referrer(ctx, m)
		if err != nil && !unreadable(err) {
			return nil, 0, err
		}
		list = append(list, more...)
	}
	return list, 0, nil
}

// unreadable reports whether the content of a registry is at fault, which stays so when the
// registry is asked again.
func unreadable(err error) bool {
	return slices.Contains([]fault.Code{fault.InvalidArgument, fault.ResourceExhausted, fault.DataLoss, fault.NotFound}, fault.CodeOf(err))
}

// referrer returns the bundles in a manifest that refers to an artifact.
func (r *reader) referrer(ctx context.Context, m ocispec.Descriptor) (list []Bundle, err error) {
	doc, err := r.manifest(ctx, m)
	if err != nil {
		return nil, err
	}
	if list, err = r.bundles(ctx, doc.Layers); err != nil {
		return nil, err
	}
	older, err := r.documents(ctx, doc.Layers)
	return append(list, older...), err
}

// mayHaveBundles reports whether a list says so of a manifest, or leaves it open: folders list no
// types, and older registries that of the config.
func mayHaveBundles(artifactType string) bool {
	return artifactType == "" || artifactType == ocispec.MediaTypeEmptyJSON || artifactType == cosignArtifactType || strings.HasPrefix(artifactType, bundleTypePrefix)
}

// signedByTag returns the signatures of cosign under the tag of an artifact's digest, as bundles.
func signedByTag(ctx context.Context, from source, r *reader, desc ocispec.Descriptor) (list []Bundle, err error) {
	found, err := from.Resolve(ctx, strings.Replace(desc.Digest.String(), ":", "-", 1)+".sig")
	if errors.Is(err, errdef.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, wrap(err, "ask for the tag of its signatures")
	}
	doc, err := r.manifest(ctx, found)
	if err == nil {
		list, err = r.documents(ctx, doc.Layers)
	}
	if err != nil && !unreadable(err) {
		return nil, err
	}
	return list, nil
}

// documents returns the signed documents of cosign among layers, as bundles.
func (r *reader) documents(ctx context.Context, layers []ocispec.Descriptor) (list []Bundle, err error) {
	for _, layer := range layers {
		if layer.MediaType != simpleSigningType || layer.Size > maxSignedBytes {
			continue
		}
		signed, err := r.fetch(ctx, "a document of cosign", layer, maxSignedBytes)
		if err != nil {
			return list, err
		}
		text, err := bundleOf(signed, layer.Annotations)
		if err != nil {
			continue // signed by a key, or in another way that has no identity
		}
		list = append(list, Bundle{Text: text, Signed: signed})
	}
	return list, nil
}

// bundlesFile is the form of bundles in the cache.
type bundlesFile struct {
	Bundles []Bundle `json:"bundles"`
}

func readBundlesFile(raw []byte) []Bundle {
	var file bundlesFile
	if json.Unmarshal(raw, &file) != nil || len(file.Bundles) > MaxBundles {
		return nil
	}
	return file.Bundles
}

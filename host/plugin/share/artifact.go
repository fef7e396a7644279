package share

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin/signature"
)

// The types of what a pushed plugin is made of.
const (
	ArtifactType  = "application/vnd.agenthost.plugin.v1"
	ModuleType    = "application/wasm"
	SignatureType = "application/vnd.agenthost.plugin.signature.v1.minisig"
	BundleType    = "application/vnd.dev.sigstore.bundle.v0.3+json" // of sigstore
)

// The media types of others.
const (
	dockerManifestType = "application/vnd.docker.distribution.manifest.v2+json"
	dockerIndexType    = "application/vnd.docker.distribution.manifest.list.v2+json"
	dockerLayerType    = "application/vnd.docker.image.rootfs.diff.tar.gzip"
)

// The bounds of an artifact.
const (
	MaxManifestBytes   = 256 << 10
	MaxLayers          = 32
	MaxSignatures      = 8
	MaxSignatureBytes  = 4 << 10
	MaxBundles         = 16
	MaxBundleBytes     = 128 << 10
	MaxRootBytes       = 1 << 20 // of an identity
	MaxAnnotations     = 64
	DefaultModuleBytes = 16 << 20
	maxImageFiles      = 4096 // entries of an image's layer that are looked at
)

// imageModule is the file of a container image that is a plugin.
const imageModule = "plugin.wasm"

// The forms of artifacts that Pull reads.
const (
	FormPlugin = "plugin" // of this program
	FormWasm   = "wasm"   // a WebAssembly artifact of the CNCF, as Wassette has them
	FormImage  = "image"  // a container image, as hyper-mcp has them
)

// Artifact is a plugin in a registry. It is checked by any number of policies, one after another or
// at once: what one of them has computed of the module and its signatures is kept for the others, so
// neither changes after the first check. It is not copied.
type Artifact struct {
	Module      []byte
	Signatures  [][]byte          // of the module, as minisign writes them
	Bundles     []Bundle          // of sigstore: of the module in its layers, and those of [Client.Bundles]
	Unread      int               // what [Client.Bundles] left out beside the artifact
	Annotations map[string]string // of the manifest

	Digest string // of the manifest; set by Pull
	Form   string // set by Pull

	mu           sync.Mutex
	moduleDigest string
	comments     map[signedBy]signedComment
}

// signedBy is one signature of an artifact with a key that may have made it.
type signedBy struct {
	key       string
	signature int
}

// signedComment is the trusted comment of a signature, or why the signature does not hold.
type signedComment struct {
	text    string
	invalid error
}

// ModuleDigest returns the digest of the module, sha256: and hexadecimal digits.
func (a *Artifact) ModuleDigest() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.moduleDigest == "" {
		a.moduleDigest = digestOf(a.Module)
	}
	return a.moduleDigest
}

// verify verifies the signature of an index by a key, and returns its trusted comment.
func (a *Artifact) verify(key signature.PublicKey, index int) (comment string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	by := signedBy{key.String(), index}
	c, known := a.comments[by]
	if !known {
		c.text, c.invalid = key.Verify(a.Module, a.Signatures[index])
		if a.comments == nil {
			a.comments = map[signedBy]signedComment{}
		}
		a.comments[by] = c
	}
	return c.text, c.invalid
}

// check refuses an artifact that Pull would refuse.
func (a *Artifact) check(moduleBytes int) error {
	switch {
	case len(a.Module) == 0:
		return fault.Errorf(fault.InvalidArgument, "the plugin to push has no module")
	case len(a.Module) > moduleBytes:
		return fault.Errorf(fault.ResourceExhausted, "the module has %d bytes, more than the limit ModuleBytes of %d", len(a.Module), moduleBytes)
	case len(a.Signatures) > MaxSignatures:
		return fault.Errorf(fault.InvalidArgument, "the plugin has %d signatures, more than %d", len(a.Signatures), MaxSignatures)
	case len(a.Annotations) > MaxAnnotations:
		return fault.Errorf(fault.InvalidArgument, "the plugin has %d annotations, more than %d", len(a.Annotations), MaxAnnotations)
	}
	for _, s := range a.Signatures {
		if len(s) == 0 || len(s) > MaxSignatureBytes {
			return fault.Errorf(fault.InvalidArgument, "a signature has %d bytes, not 1 to %d", len(s), MaxSignatureBytes)
		}
	}
	if len(a.Bundles) > MaxBundles {
		return fault.Errorf(fault.InvalidArgument, "the plugin has %d bundles, more than %d", len(a.Bundles), MaxBundles)
	}
	for _, b := range a.Bundles {
		if len(b.Text) == 0 || len(b.Text) > MaxBundleBytes || b.Signed != nil {
			return fault.Errorf(fault.InvalidArgument, "a bundle is not of the module, or has not 1 to %d bytes", MaxBundleBytes)
		}
	}
	return nil
}

// blob is a content with its descriptor.
type blob struct {
	desc ocispec.Descriptor
	data []byte
}

// blobs returns the contents of an artifact in the order in which they are pushed: the
// manifest last.
func (a *Artifact) blobs() ([]blob, error) {
	config := blob{ocispec.DescriptorEmptyJSON, ocispec.DescriptorEmptyJSON.Data}
	config.desc.Data = nil
	all := []blob{config, newBlob(ModuleType, a.Module)}
	for _, s := range a.Signatures {
		all = append(all, newBlob(SignatureType, s))
	}
	for _, b := range a.Bundles {
		all = append(all, newBlob(BundleType, b.Text))
	}
	manifest := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: ArtifactType,
		Config: config.desc, Annotations: maps.Clone(a.Annotations),
	}
	for _, b := range all[1:] {
		manifest.Layers = append(manifest.Layers, b.desc)
	}
	if title := a.Annotations[ocispec.AnnotationTitle]; title != "" { // the name of the file, for oras pull
		manifest.Layers[0].Annotations = map[string]string{ocispec.AnnotationTitle: title}
	}
	raw, err := json.Marshal(manifest)
	if err != nil {
		return nil, fault.Errorf(fault.Internal, "write the manifest: %w", err)
	}
	if len(raw) > MaxManifestBytes {
		return nil, fault.Errorf(fault.InvalidArgument, "the manifest has %d bytes, more than %d", len(raw), MaxManifestBytes).WithHint("shorten the annotations")
	}
	last := newBlob(ocispec.MediaTypeImageManifest, raw)
	last.desc.ArtifactType = ArtifactType
	return append(all, last), nil
}

func newBlob(mediaType string, data []byte) blob {
	return blob{ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}, data}
}

// reader reads one artifact out of a place that is not trusted.
type reader struct {
	from        content.Fetcher
	moduleBytes int
}

// read reads the artifact of a manifest, or of an index of manifests.
func (r *reader) read(ctx context.Context, desc ocispec.Descriptor) (*Artifact, error) {
	m, err := r.manifest(ctx, desc)
	if err != nil {
		return nil, err
	}
	a := &Artifact{Digest: desc.Digest.String(), Annotations: m.Annotations}
	if a.Signatures, err = r.signatures(ctx, m.Layers); err != nil {
		return nil, err
	}
	if a.Bundles, err = r.bundles(ctx, m.Layers); err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(m.Layers, isModule); i >= 0 {
		a.Form = FormWasm
		if m.ArtifactType == ArtifactType {
			a.Form = FormPlugin
		}
		a.Module, err = r.fetch(ctx, "the module", m.Layers[i], r.moduleBytes)
		return a, err
	}
	a.Form = FormImage
	a.Module, err = r.fromImage(ctx, m.Layers)
	return a, err
}

// signatures returns the signatures of minisign among layers.
func (r *reader) signatures(ctx context.Context, layers []ocispec.Descriptor) (list [][]byte, err error) {
	for _, layer := range layers {
		if layer.MediaType != SignatureType {
			continue
		}
		if len(list) == MaxSignatures {
			return nil, fault.Errorf(fault.ResourceExhausted, "the artifact has more than %d signatures", MaxSignatures)
		}
		s, err := r.fetch(ctx, "a signature", layer, MaxSignatureBytes)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// isModule reports whether a layer is a module, or a component: those are refused where
// they are loaded, with a sentence that says why.
func isModule(d ocispec.Descriptor) bool {
	return slices.Contains([]string{ModuleType, "application/vnd.wasm.content.layer.v1+wasm", "application/vnd.module.wasm.content.layer.v1+wasm",
		"application/vnd.wasm.component.v1", "application/vnd.bytecodealliance.wasm.component.layer.v0+wasm"}, d.MediaType)
}

func isIndex(mediaType string) bool {
	return mediaType == ocispec.MediaTypeImageIndex || mediaType == dockerIndexType
}

// manifest reads a manifest. Of an index it is the manifest for WebAssembly, or else that
// for Linux, which images of plugins are built for.
func (r *reader) manifest(ctx context.Context, desc ocispec.Descriptor) (*document, error) {
	if isIndex(desc.MediaType) {
		raw, err := r.fetch(ctx, "the index", desc, MaxManifestBytes)
		if err != nil {
			return nil, err
		}
		var index document
		if err := index.decode(raw, desc.MediaType); err != nil {
			return nil, err
		}
		if len(index.Layers) > 0 {
			return nil, fault.Errorf(fault.InvalidArgument, "the index has layers: it could be read as another thing")
		}
		if desc, err = choose(index.Manifests); err != nil {
			return nil, err
		}
	}
	if desc.MediaType != ocispec.MediaTypeImageManifest && desc.MediaType != dockerManifestType {
		return nil, fault.Errorf(fault.InvalidArgument, "the registry has something of media type %.100q there, which is no plugin", desc.MediaType)
	}
	raw, err := r.fetch(ctx, "the manifest", desc, MaxManifestBytes)
	if err != nil {
		return nil, err
	}
	m := &document{}
	switch err := m.decode(raw, desc.MediaType); {
	case err != nil:
		return nil, err
	case len(m.Manifests) > 0:
		return nil, fault.Errorf(fault.InvalidArgument, "the manifest has manifests: it could be read as another thing")
	case len(m.Layers) > MaxLayers:
		return nil, fault.Errorf(fault.ResourceExhausted, "the manifest has %d layers, more than %d", len(m.Layers), MaxLayers)
	case len(m.Annotations) > MaxAnnotations:
		return nil, fault.Errorf(fault.ResourceExhausted, "the manifest has %d annotations, more than %d", len(m.Annotations), MaxAnnotations)
	}
	return m, nil
}

// document is a manifest or an index. The registry says which one it is, and the digest
// does not hold that: one that could be both is refused.
type document struct {
	MediaType    string               `json:"mediaType"`
	ArtifactType string               `json:"artifactType"`
	Layers       []ocispec.Descriptor `json:"layers"`
	Manifests    []ocispec.Descriptor `json:"manifests"`
	Annotations  map[string]string    `json:"annotations"`
}

func (d *document) decode(raw []byte, mediaType string) error {
	if err := json.Unmarshal(raw, d); err != nil {
		return fault.Errorf(fault.InvalidArgument, "the manifest is not JSON of its form: %v", err)
	}
	if d.MediaType != "" && d.MediaType != mediaType {
		return fault.Errorf(fault.InvalidArgument, "the manifest is of media type %.100q by itself, and of %q by the registry", d.MediaType, mediaType)
	}
	return nil
}

// choose returns the manifest of an index that holds a plugin.
func choose(list []ocispec.Descriptor) (ocispec.Descriptor, error) {
	rank := func(d ocispec.Descriptor) int {
		switch p := cmp.Or(d.Platform, &ocispec.Platform{}); {
		case d.MediaType != ocispec.MediaTypeImageManifest && d.MediaType != dockerManifestType, p.OS == "unknown":
			return 0
		case p.Architecture == "wasm", strings.HasPrefix(p.OS, "wasi"):
			return 4
		case p.OS == "linux" && p.Architecture == "amd64":
			return 3
		case p.OS == "linux":
			return 2
		}
		return 1
	}
	best := ocispec.Descriptor{}
	for _, d := range list {
		if rank(d) > rank(best) {
			best = d
		}
	}
	if rank(best) == 0 {
		return best, fault.Errorf(fault.InvalidArgument, "the index holds no manifest of a plugin")
	}
	return best, nil
}

// fetch reads a content of at most limit bytes and holds it to its digest.
func (r *reader) fetch(ctx context.Context, what string, desc ocispec.Descriptor, limit int) ([]byte, error) {
	switch {
	case desc.Digest.Validate() != nil:
		return nil, fault.Errorf(fault.InvalidArgument, "%s has a digest that cannot be checked: %.100q", what, desc.Digest)
	case desc.Size < 0 || desc.Size > int64(limit):
		return nil, fault.Errorf(fault.ResourceExhausted, "%s has %d bytes, more than %d", what, desc.Size, limit)
	}
	data, err := content.FetchAll(ctx, r.from, desc)
	switch {
	case err == nil:
		return data, nil
	case errors.Is(err, content.ErrMismatchedDigest), errors.Is(err, content.ErrTrailingData), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fault.Errorf(fault.DataLoss, "%s is not the content of digest %s", what, desc.Digest).
			WithHint("the registry, or something before it, has changed it: pull it from elsewhere")
	}
	return nil, wrap(err, "read "+what)
}

// fromImage returns the file plugin.wasm in the root directory of a container image: that
// of the last layer which has it, as a container would see it.
func (r *reader) fromImage(ctx context.Context, layers []ocispec.Descriptor) ([]byte, error) {
	for _, layer := range slices.Backward(layers) {
		zipped := layer.MediaType == ocispec.MediaTypeImageLayerGzip || layer.MediaType == dockerLayerType
		if !zipped && layer.MediaType != ocispec.MediaTypeImageLayer {
			continue
		}
		data, err := r.fetch(ctx, "a layer", layer, r.moduleBytes)
		if err != nil {
			return nil, err
		}
		module, err := r.fromLayer(data, zipped)
		if module != nil || err != nil {
			return module, err
		}
	}
	types := []string{}
	for _, layer := range layers {
		types = append(types, layer.MediaType)
	}
	return nil, fault.Errorf(fault.InvalidArgument, "the artifact holds no plugin: neither a layer of %s nor an image with %s (its layers: %.300s)",
		ModuleType, imageModule, strings.Join(types, ", "))
}

// fromLayer returns plugin.wasm of a layer; nil if it has none.
func (r *reader) fromLayer(data []byte, zipped bool) ([]byte, error) {
	var in io.Reader = bytes.NewReader(data)
	if zipped {
		unzip, err := gzip.NewReader(in)
		if err != nil {
			return nil, fault.Errorf(fault.InvalidArgument, "a layer of the image is not gzip: %v", err)
		}
		in = unzip
	}
	unpacked := &io.LimitedReader{R: in, N: 2 * int64(r.moduleBytes)}
	files := tar.NewReader(unpacked)
	for range maxImageFiles {
		h, err := files.Next()
		switch {
		case unpacked.N <= 0:
			return nil, fault.Errorf(fault.ResourceExhausted, "a layer of the image unpacks to more than %d bytes", 2*r.moduleBytes)
		case errors.Is(err, io.EOF):
			return nil, nil
		case err != nil:
			return nil, fault.Errorf(fault.InvalidArgument, "a layer of the image is not tar: %v", err)
		case path.Clean("/"+h.Name) != "/"+imageModule || h.Typeflag != tar.TypeReg:
			continue
		case h.Size > int64(r.moduleBytes):
			return nil, fault.Errorf(fault.ResourceExhausted, "%s of the image has %d bytes, more than %d", imageModule, h.Size, r.moduleBytes)
		}
		module, err := io.ReadAll(files)
		if err != nil {
			return nil, fault.Errorf(fault.InvalidArgument, "%s of the image: %v", imageModule, err)
		}
		return module, nil
	}
	return nil, fault.Errorf(fault.ResourceExhausted, "a layer of the image has more than %d files", maxImageFiles)
}

// Package share keeps plugins in OCI registries and layout folders, where other tools
// keep container images.
//
//	client, err := share.New(nil)
//	defer client.Close()
//	ref, err := share.ParseReference("oci://ghcr.io/acme/orders:1.2.0")
//	digest, err := client.Push(ctx, ref, &share.Artifact{Module: wasm})
//	artifact, err := client.Pull(ctx, ref.At(digest))
//
// A registry is not trusted. Its answers are bounded before they are read, every content
// is compared with its digest, and requests go through [egress]: a registry can send the host
// to no address inside of its network. The requests of a private registry carry the
// credentials of docker login.
//
// # The artifact
//
// A pushed plugin is an OCI image manifest of artifact type [ArtifactType] with the empty
// config. Its first layer is the module, of media type [ModuleType]; each further layer is
// a signature of the module as minisign writes it, of media type [SignatureType], or a bundle of
// sigstore, of media type [BundleType]. Without times in it, the same plugin has the same digest wherever and whenever it is pushed.
// Annotations are those of OCI: org.opencontainers.image.title, version, description,
// source, licenses.
//
// [Client.Bundles] finds what cosign has put beside an artifact. A [Policy] says which keys and
// which identities of sigstore are trusted; host/plugin/sigstore makes the verifiers of identities.
//
// Pull also reads what others push: WebAssembly artifacts of the CNCF (one layer of
// application/wasm), with the policy layer that Wassette adds, which is left out; and
// container images with a plugin.wasm in their root directory, as hyper-mcp has them.
package share

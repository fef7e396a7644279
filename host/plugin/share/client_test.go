package share_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin/share"
)

// module is the content that tests push: for a registry any bytes do.
func module() []byte {
	return append([]byte("\x00asm\x01\x00\x00\x00"), bytes.Repeat([]byte("orders"), 20_000)...)
}

func artifact() *share.Artifact {
	return &share.Artifact{Module: module(), Signatures: [][]byte{[]byte("a signature\n")},
		Annotations: map[string]string{"org.opencontainers.image.title": "orders.wasm", "org.opencontainers.image.version": "1.2.0"}}
}

func TestWhatIsPushedIsPulled(t *testing.T) {
	addr := startRegistry(t, "open")
	for name, place := range map[string]string{
		"a registry":      "oci://" + addr + "/acme/orders:1.2.0",
		"a layout folder": "oci-layout:" + filepath.Join(t.TempDir(), "dist") + ":1.2.0",
	} {
		t.Run(name, func(t *testing.T) {
			c, ref := newClient(t, addr, nil), mustParse(t, place)
			digest, err := c.Push(t.Context(), ref, artifact())
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range []share.Reference{ref, ref.At(digest), mustParse(t, ref.Place()+"@"+digest)} {
				got, err := c.Pull(t.Context(), at)
				if err != nil {
					t.Fatal(err)
				}
				want := artifact()
				want.Digest, want.Form = digest, share.FormPlugin
				if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(share.Artifact{})); diff != "" {
					t.Errorf("Pull(%s) (-want +got):\n%s", at, diff)
				}
			}
			again, err := c.Push(t.Context(), ref.WithTag("again"), artifact())
			if err != nil || again != digest {
				t.Errorf("the same plugin has the digests %s and %s (%v)", digest, again, err)
			}
			if err := c.Tag(t.Context(), ref.At(digest), "latest"); err != nil {
				t.Fatal(err)
			}
			if got, err := c.Resolve(t.Context(), mustParse(t, ref.Place())); err != nil || got != digest {
				t.Errorf("Resolve of the new tag = %s, %v; want %s", got, err, digest)
			}
			if tags, err := c.Tags(t.Context(), ref); err != nil || !slices.Equal(tags, []string{"1.2.0", "again", "latest"}) {
				t.Errorf("Tags = %q, %v", tags, err)
			}
			if _, err := c.Pull(t.Context(), ref.WithTag("none")); fault.CodeOf(err) != fault.NotFound {
				t.Errorf("Pull of an absent tag = %v, want code not_found", err)
			}
		})
	}
}

func TestATagThatMovesNamesTheNewPlugin(t *testing.T) {
	addr := startRegistry(t, "open")
	c, ref := newClient(t, addr, nil), mustParse(t, "oci://"+addr+"/acme/orders:stable")
	first, err := c.Push(t.Context(), ref, artifact())
	if err != nil {
		t.Fatal(err)
	}
	second, err := c.Push(t.Context(), ref, &share.Artifact{Module: []byte("another")})
	if err != nil || first == second {
		t.Fatalf("digests %s, %s, %v", first, second, err)
	}
	if got, err := c.Pull(t.Context(), ref); err != nil || string(got.Module) != "another" {
		t.Errorf("Pull of the tag = %v, %v", got, err)
	}
	if got, err := c.Pull(t.Context(), ref.At(first)); err != nil || !bytes.Equal(got.Module, module()) {
		t.Errorf("Pull of the earlier digest: %v", err)
	}
}

func TestPrivateRegistriesAreAskedWithTheCredentialsOfDocker(t *testing.T) {
	for _, kind := range []string{"basic", "token"} {
		t.Run(kind, func(t *testing.T) {
			addr := startRegistry(t, kind)
			ref := mustParse(t, "oci://"+addr+"/acme/orders:1")
			for name, file := range map[string]string{"no credentials": "", "those of another": dockerConfig(t, addr, "mallory", "guess")} {
				c := newClient(t, addr, func(o *share.Options) { o.DockerConfig = file })
				if _, err := c.Push(t.Context(), ref, artifact()); fault.CodeOf(err) != fault.PermissionDenied || !strings.Contains(err.Error(), "docker login") {
					t.Errorf("Push with %s = %v, want code permission_denied with the remedy", name, err)
				}
			}
			c := newClient(t, addr, func(o *share.Options) { o.DockerConfig = dockerConfig(t, addr, user, password) })
			if _, err := c.Push(t.Context(), ref, artifact()); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Pull(t.Context(), ref); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestARegistryOnAPrivateAddressIsNotAskedUnlessItIsConfigured(t *testing.T) {
	addr := startRegistry(t, "open")
	c, err := share.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Pull(t.Context(), mustParse(t, "oci://"+addr+"/acme/orders:1")); fault.CodeOf(err) != fault.PermissionDenied {
		t.Errorf("Pull from loopback = %v, want code permission_denied", err)
	}
}

func TestAPulledDigestIsKeptAndHeldToItsContent(t *testing.T) {
	addr := startRegistry(t, "open")
	dir := t.TempDir()
	c := newClient(t, addr, func(o *share.Options) { o.CacheDir = dir })
	ref := mustParse(t, "oci://"+addr+"/acme/orders:1")
	digest, err := c.Push(t.Context(), ref, artifact())
	if err != nil {
		t.Fatal(err)
	}
	want, err := c.Pull(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	// The cache has it, and no server answers at that name.
	offline := newClient(t, "127.0.0.1:1", func(o *share.Options) { o.CacheDir = dir })
	away := mustParse(t, "oci://127.0.0.1:1/acme/orders@"+digest)
	got, err := offline.Pull(t.Context(), away)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(share.Artifact{})); diff != "" {
		t.Errorf("the kept plugin (-pulled +kept):\n%s", diff)
	}
	damage(t, dir, module())
	if _, err := offline.Pull(t.Context(), away); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("Pull of a damaged entry without the registry = %v, want code unavailable", err)
	}
	if got, err := c.Pull(t.Context(), ref.At(digest)); err != nil || !bytes.Equal(got.Module, module()) {
		t.Errorf("Pull of a damaged entry with the registry: %v", err)
	}
	if _, err := offline.Pull(t.Context(), away); err != nil {
		t.Errorf("the damaged entry was not replaced: %v", err)
	}
}

// damage changes a byte of the file that has a content.
func damage(t *testing.T, dir string, of []byte) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "blobs", "sha256", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b, of) {
			continue
		}
		b[len(b)/2] ^= 1
		if err := errorsOf(os.Chmod(file, 0o600), os.WriteFile(file, b, 0o600)); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatal("no file has the content")
}

func errorsOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestWhatCannotBePulledIsNotPushed(t *testing.T) {
	c := newClient(t, "127.0.0.1:1", func(o *share.Options) { o.ModuleBytes = 1000 })
	ref := mustParse(t, "oci-layout:"+t.TempDir()+":1")
	for name, a := range map[string]*share.Artifact{
		"no module":          {},
		"a large module":     {Module: make([]byte, 1001)},
		"many signatures":    {Module: []byte("m"), Signatures: make([][]byte, share.MaxSignatures+1)},
		"an empty signature": {Module: []byte("m"), Signatures: [][]byte{{}}},
		"a large annotation": {Module: []byte("m"), Annotations: map[string]string{"a": strings.Repeat("x", share.MaxManifestBytes)}},
		"a large signature":  {Module: []byte("m"), Signatures: [][]byte{make([]byte, share.MaxSignatureBytes+1)}},
	} {
		if _, err := c.Push(t.Context(), ref, a); err == nil {
			t.Errorf("Push of %s succeeds", name)
		}
	}
	if _, err := c.Push(t.Context(), mustParse(t, ref.Place()+"@sha256:"+strings.Repeat("0", 64)), artifact()); fault.CodeOf(err) != fault.InvalidArgument {
		t.Errorf("Push to a digest = %v, want code invalid_argument", err)
	}
}

package share_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/agenthost/agenthost/host/plugin/share"
)

func TestArtifactsOfOthersAreRead(t *testing.T) {
	for name, row := range map[string]struct {
		make func(*shelf)
		form string
	}{
		"a WebAssembly artifact of the CNCF": {func(s *shelf) {
			s.list(map[string]any{"config": s.layer("application/vnd.wasm.config.v0+json", []byte(`{"architecture":"wasm","os":"wasip1"}`))}, s.layer("application/wasm", module()))
		}, share.FormWasm},
		"Wassette's, with a policy": {func(s *shelf) {
			s.list(map[string]any{"config": s.layer("application/vnd.wasm.config.v0+json", []byte(`{"architecture":"wasm","os":"wasip2"}`))},
				s.layer("application/vnd.wasm.component.v1", module()), s.layer("application/vnd.wasm.policy.v1+yaml", []byte("version: \"1.0\"\n")))
		}, share.FormWasm},
		"hyper-mcp's, a container image": {func(s *shelf) {
			s.list(nil, s.layer("application/vnd.oci.image.layer.v1.tar+gzip", image(t, "other", []byte("x"))),
				s.layer("application/vnd.docker.image.rootfs.diff.tar.gzip", image(t, "plugin.wasm", module())))
		}, share.FormImage},
		"an index of images and attestations": {func(s *shelf) {
			s.list(nil, s.layer("application/vnd.oci.image.layer.v1.tar+gzip", image(t, "./plugin.wasm", module())))
			list := []map[string]any{}
			for _, platform := range []string{"unknown", "windows", "linux"} {
				m := s.manifest
				if platform != "linux" {
					m = []byte(`{}`)
				}
				d := s.layer(manifestType, m)
				d["platform"] = map[string]string{"os": platform, "architecture": "amd64"}
				list = append(list, d)
			}
			s.mediaType = "application/vnd.oci.image.index.v1+json"
			s.manifest, _ = json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": s.mediaType, "manifests": list})
		}, share.FormImage},
	} {
		t.Run(name, func(t *testing.T) {
			s := &shelf{}
			row.make(s)
			a, err := pull(t, s)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(a.Module, module()) || a.Form != row.form || a.Digest != digestOf(s.manifest) {
				t.Errorf("Pull = %d bytes of form %s and digest %s", len(a.Module), a.Form, a.Digest)
			}
		})
	}
}

// FuzzManifest reads manifests out of a layout folder.
func FuzzManifest(f *testing.F) {
	s := &shelf{}
	s.list(map[string]any{"artifactType": share.ArtifactType}, s.layer(share.ModuleType, []byte("module")), s.layer(share.SignatureType, []byte("signature")))
	f.Add(s.manifest, []byte("module"))
	f.Add([]byte(`{"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar"}]}`), []byte{})
	dir := f.TempDir()
	if err := errorsOf(os.MkdirAll(filepath.Join(dir, "blobs", "sha256"), 0o700), os.WriteFile(filepath.Join(dir, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o600)); err != nil {
		f.Fatal(err)
	}
	c := newClient(f, "127.0.0.1:1", nil)
	f.Fuzz(func(t *testing.T, manifest, blob []byte) {
		index, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []any{map[string]any{
			"mediaType": manifestType, "digest": digestOf(manifest), "size": len(manifest), "annotations": map[string]string{"org.opencontainers.image.ref.name": "1"}}}})
		file := func(b []byte) string { return filepath.Join(dir, "blobs", "sha256", digestOf(b)[len("sha256:"):]) }
		if err := errorsOf(err, os.WriteFile(file(manifest), manifest, 0o600), os.WriteFile(file(blob), blob, 0o600), os.WriteFile(filepath.Join(dir, "index.json"), index, 0o600)); err != nil {
			t.Fatal(err)
		}
		a, err := c.Pull(t.Context(), mustParse(t, "oci-layout:"+dir+":1"))
		if (a == nil) == (err == nil) {
			t.Errorf("Pull = %v, %v", a, err)
		}
	})
}

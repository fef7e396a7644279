package share_test

// Scenario: a registry that answers with what it should not.

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin/share"
)

const manifestType = "application/vnd.oci.image.manifest.v1+json"

// shelf is a registry that answers with the contents that it is given, whatever they are.
type shelf struct {
	manifest  []byte
	mediaType string
	blobs     map[string][]byte // by digest
	handle    func(w http.ResponseWriter, r *http.Request) bool
	patience  time.Duration // of its client; 0 is the default
}

func digestOf(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }

// layer puts a content on the shelf and returns its descriptor.
func (s *shelf) layer(mediaType string, b []byte) map[string]any {
	if s.blobs == nil {
		s.blobs = map[string][]byte{}
	}
	s.blobs[digestOf(b)] = b
	return map[string]any{"mediaType": mediaType, "digest": digestOf(b), "size": len(b)}
}

// list puts a manifest with layers on the shelf.
func (s *shelf) list(more map[string]any, layers ...map[string]any) {
	m := map[string]any{"schemaVersion": 2, "mediaType": manifestType, "config": s.layer("application/vnd.oci.empty.v1+json", []byte("{}")), "layers": layers}
	for name, v := range more {
		m[name] = v
	}
	s.manifest, _ = json.Marshal(m)
	s.mediaType = manifestType
}

// ServeHTTP implements [http.Handler].
func (s *shelf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.handle != nil && s.handle(w, r) {
		return
	}
	_, name, isBlob := strings.Cut(r.URL.Path, "/blobs/")
	switch {
	case isBlob && s.blobs[name] != nil:
		_, _ = w.Write(s.blobs[name])
	case isBlob:
		http.NotFound(w, r)
	default:
		_, name, _ := strings.Cut(r.URL.Path, "/manifests/")
		body, mediaType := s.manifest, s.mediaType
		if b := s.blobs[name]; b != nil {
			body, mediaType = b, manifestType
		}
		w.Header().Set("Content-Type", mediaType)
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		w.Header().Set("Docker-Content-Digest", digestOf(body))
		if r.Method != http.MethodHead {
			_, _ = w.Write(body)
		}
	}
}

// pull pulls from a shelf with small bounds.
func pull(t testing.TB, s *shelf) (*share.Artifact, error) {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	addr := strings.TrimPrefix(server.URL, "http://")
	c := newClient(t, addr, func(o *share.Options) { o.ModuleBytes, o.Timeout = 1<<20, s.patience })
	return c.Pull(t.Context(), mustParse(t, "oci://"+addr+"/acme/orders:1"))
}

// endless writes until its reader leaves.
func endless(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead { // whose body the server drops, without an end
		return
	}
	zeros := make([]byte, 64<<10)
	for {
		if _, err := w.Write(zeros); err != nil {
			return
		}
	}
}

func TestHostileRegistriesEndInTypedErrors(t *testing.T) {
	good := func(s *shelf) {
		s.list(map[string]any{"artifactType": share.ArtifactType}, s.layer(share.ModuleType, module()))
	}
	at := func(part string, answer http.HandlerFunc) func(*shelf) {
		return func(s *shelf) {
			good(s)
			s.handle = func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.Contains(r.URL.Path, part) {
					return false
				}
				answer(w, r)
				return true
			}
		}
	}
	redirectTo := func(where string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, where, http.StatusTemporaryRedirect) }
	}
	for name, row := range map[string]struct {
		make func(*shelf)
		want fault.Code
	}{
		"another module than that of the digest": {func(s *shelf) {
			good(s)
			s.blobs[digestOf(module())] = append(module()[1:], 'x')
		}, fault.DataLoss},
		"a module that is cut off": {func(s *shelf) {
			good(s)
			s.blobs[digestOf(module())] = module()[1:]
		}, fault.Unavailable},
		"a module that is longer than it says": {func(s *shelf) {
			good(s)
			s.blobs[digestOf(module())] = append(module(), 'x')
		}, fault.Unavailable},
		"another manifest than that of the digest": {at("/manifests/", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", manifestType)
			w.Header().Set("Docker-Content-Digest", "sha256:"+strings.Repeat("0", 64))
			w.Header().Set("Content-Length", "2")
			if r.Method != http.MethodHead {
				_, _ = io.WriteString(w, "{}")
			}
		}), fault.DataLoss},
		"a module that never ends": {at("/blobs/", endless), fault.ResourceExhausted},
		"a manifest that never ends": {at("/manifests/", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", manifestType)
			if r.Method == http.MethodHead {
				w.Header().Set("Content-Length", "1000")
				w.Header().Set("Docker-Content-Digest", "sha256:"+strings.Repeat("0", 64))
				return
			}
			endless(w, r)
		}), fault.ResourceExhausted},
		"an answer that never comes": {func(s *shelf) {
			at("/blobs/", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })(s)
			s.patience = 200 * time.Millisecond
		}, fault.DeadlineExceeded},
		"a redirect to the metadata of a cloud": {at("/blobs/", redirectTo("http://169.254.169.254/latest/meta-data/")), fault.PermissionDenied},
		"a redirect to this machine":            {at("/blobs/", redirectTo("https://localhost/secret")), fault.PermissionDenied},
		"a redirect to a private address":       {at("/manifests/", redirectTo("https://10.0.0.1/secret")), fault.PermissionDenied},
		"redirects in a circle": {at("/blobs/", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
		}), fault.ResourceExhausted},
		"a token from a private address": {at("/manifests/", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="https://10.0.0.1/token",service="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		}), fault.PermissionDenied},
		"a manifest that is large": {func(s *shelf) {
			s.list(map[string]any{"annotations": map[string]string{"a": strings.Repeat("x", share.MaxManifestBytes)}}, s.layer(share.ModuleType, module()))
		}, fault.ResourceExhausted},
		"a module that says it is large": {func(s *shelf) {
			l := s.layer(share.ModuleType, module())
			l["size"] = 1 << 40
			s.list(nil, l)
		}, fault.ResourceExhausted},
		"a module of less than no bytes": {func(s *shelf) {
			l := s.layer(share.ModuleType, module())
			l["size"] = -1
			s.list(nil, l)
		}, fault.ResourceExhausted},
		"many layers": {func(s *shelf) {
			list := []map[string]any{}
			for range share.MaxLayers + 1 {
				list = append(list, s.layer(share.ModuleType, module()))
			}
			s.list(nil, list...)
		}, fault.ResourceExhausted},
		"many signatures": {func(s *shelf) {
			list := []map[string]any{s.layer(share.ModuleType, module())}
			for i := range share.MaxSignatures + 1 {
				list = append(list, s.layer(share.SignatureType, []byte{byte(i)}))
			}
			s.list(nil, list...)
		}, fault.ResourceExhausted},
		"a layer of another type":    {func(s *shelf) { s.list(nil, s.layer("application/x-executable", module())) }, fault.InvalidArgument},
		"no layers":                  {func(s *shelf) { s.list(nil) }, fault.InvalidArgument},
		"a manifest that is no JSON": {func(s *shelf) { s.manifest, s.mediaType = []byte("<html>"), manifestType }, fault.InvalidArgument},
		"a manifest of another type": {func(s *shelf) { good(s); s.mediaType = "text/html" }, fault.InvalidArgument},
		"a manifest that is an index too": {func(s *shelf) {
			s.list(map[string]any{"manifests": []any{map[string]any{}}}, s.layer(share.ModuleType, module()))
		}, fault.InvalidArgument},
		"a manifest that the registry calls an index": {func(s *shelf) {
			good(s)
			s.mediaType = "application/vnd.oci.image.index.v1+json"
		}, fault.InvalidArgument},
		"a digest that cannot be checked": {func(s *shelf) {
			l := s.layer(share.ModuleType, module())
			l["digest"] = "md5:../../etc/passwd"
			s.list(nil, l)
		}, fault.InvalidArgument},
		"a layer that unpacks to a bomb": {func(s *shelf) {
			s.list(nil, s.layer("application/vnd.oci.image.layer.v1.tar+gzip", image(t, "zeros", make([]byte, 8<<20))))
		}, fault.ResourceExhausted},
		"a layer that is no archive": {func(s *shelf) {
			s.list(nil, s.layer("application/vnd.oci.image.layer.v1.tar+gzip", module()))
		}, fault.InvalidArgument},
		"an error with a status of its server": {at("/blobs/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }), fault.Unavailable},
		"a page in the place of a registry":    {at("/manifests/", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>hello") }), fault.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			s := &shelf{}
			row.make(s)
			a, err := pull(t, s)
			if fault.CodeOf(err) != row.want || a != nil {
				t.Errorf("Pull = %v, %v (code %s); want code %s", a, err, fault.CodeOf(err), row.want)
			}
			if err != nil && len(err.Error()) > 1000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// image returns the layer of a container image that has one file.
func image(t testing.TB, name string, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	files := tar.NewWriter(zip)
	err := errorsOf(files.WriteHeader(&tar.Header{Name: name, Size: int64(len(content)), Mode: 0o644}), write(files, content), files.Close(), zip.Close())
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func write(w io.Writer, b []byte) error {
	_, err := w.Write(b)
	return err
}

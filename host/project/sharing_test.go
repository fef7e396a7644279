package project_test

import (
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/share"
	"github.com/agenthost/agenthost/host/plugin/signature"
	"github.com/agenthost/agenthost/host/plugin/sigstore"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/internal/testguest"
)

// sharedProject writes a project whose plugin comes from a layout folder beside it.
func sharedProject(t *testing.T, more string, a *share.Artifact) (dir, digest string) {
	t.Helper()
	dir = t.TempDir()
	text := "version: 1\nmodels: {m: {provider: scripted}}\nplugins: {tool: {path: \"oci-layout:dist:1\"}}\nagents: {clerk: {model: m, tools: [tool]}}\n" + more
	if err := os.WriteFile(filepath.Join(dir, "agenthost.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, pushTo(t, dir, a)
}

func pushTo(t *testing.T, dir string, a *share.Artifact) string {
	t.Helper()
	c, err := share.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ref, err := share.ParseReference("oci-layout:" + filepath.Join(dir, "dist") + ":1")
	if err != nil {
		t.Fatal(err)
	}
	digest, err := c.Push(t.Context(), ref, a)
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// pullShared pulls the plugins of a project and opens it.
func pullShared(t *testing.T, dir string, update bool) error {
	t.Helper()
	opts := &project.Options{Sigstore: sigstore.New, Getenv: func(name string) string {
		return map[string]string{"AGENTHOST_CACHE": filepath.Join(dir, "cache")}[name]
	}}
	opts.Modules = project.NewModules(&project.ModulesOptions{Getenv: opts.Getenv})
	file, err := project.ReadFile(nil, dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := project.PullPlugins(t.Context(), file, update, opts); err != nil {
		return err
	}
	return openShared(t, dir)
}

func openShared(t *testing.T, dir string) error {
	t.Helper()
	getenv := func(name string) string {
		return map[string]string{"AGENTHOST_CACHE": filepath.Join(dir, "cache")}[name]
	}
	p, err := project.Load(t.Context(), dir, &project.Options{Sigstore: sigstore.New, Getenv: getenv, Modules: project.NewModules(&project.ModulesOptions{Getenv: getenv})})
	if err != nil {
		return err
	}
	return p.Close()
}

func goodGuest(t *testing.T) []byte {
	t.Helper()
	return testguest.Modules()["echo"]
}

func TestASharedPluginIsThatOfTheLock(t *testing.T) {
	dir, first := sharedProject(t, "", &share.Artifact{Module: goodGuest(t)})
	if err := openShared(t, dir); host.CodeOf(err) != host.FailedPrecondition || !strings.Contains(err.Error(), "agenthost.lock") {
		t.Errorf("a project without a lock opens: %v", err)
	}
	if err := pullShared(t, dir, false); err != nil {
		t.Fatal(err)
	}
	pushTo(t, dir, &share.Artifact{Module: []byte("no module")})
	if err := pullShared(t, dir, false); err != nil {
		t.Errorf("the tag has moved, and the lock names %s: %v", first, err)
	}
	if err := pullShared(t, dir, true); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("after an update the new content is not refused for what it is: %v", err)
	}
}

func TestALockThatWasEditedIsRefused(t *testing.T) {
	dir, _ := sharedProject(t, "", &share.Artifact{Module: goodGuest(t)})
	if err := pullShared(t, dir, false); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, share.LockName)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	i := strings.Index(string(text), `"module": "sha256:`) + len(`"module": "sha256:`)
	text[i] ^= 1
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := openShared(t, dir); host.CodeOf(err) != host.DataLoss && host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("a lock of another module: %v", err)
	}
}

// The module is none, so that a host which compiled it before it looks at signatures
// would answer with another error.
func TestPluginsThatAreNotTrustedAreRefusedBeforeTheyAreRead(t *testing.T) {
	public, private, err := signature.Generate()
	if err != nil {
		t.Fatal(err)
	}
	_, stranger, err := signature.Generate()
	if err != nil {
		t.Fatal(err)
	}
	bad := []byte("no module")
	sign := func(k signature.PrivateKey, module []byte) [][]byte {
		sig, err := k.Sign(module, "test")
		if err != nil {
			t.Fatal(err)
		}
		return [][]byte{sig}
	}
	trust := "trust: {keys: {acme: " + public.String() + "}}"
	for name, row := range map[string]struct {
		more     string
		artifact *share.Artifact
		want     host.Code
	}{
		"unsigned":                          {"share: {" + trust + "}", &share.Artifact{Module: bad}, host.PermissionDenied},
		"signed by a stranger":              {"share: {" + trust + "}", &share.Artifact{Module: bad, Signatures: sign(stranger, bad)}, host.PermissionDenied},
		"signed for another module":         {"share: {" + trust + "}", &share.Artifact{Module: bad, Signatures: sign(private, goodGuest(t))}, host.PermissionDenied},
		"not trusted by a tenant":           {"tenants: {globex: {" + trust + "}}", &share.Artifact{Module: bad}, host.PermissionDenied},
		"not trusted by tenants of no name": {"any_tenant: {" + trust + "}", &share.Artifact{Module: bad}, host.PermissionDenied},
		"of a tenant that does not have it": {"tenants: {globex: {plugins: [], " + trust + "}}", &share.Artifact{Module: goodGuest(t)}, ""},
		"signed by one of several keys":     {"share: {" + trust + "}", &share.Artifact{Module: goodGuest(t), Signatures: append(sign(stranger, goodGuest(t)), sign(private, goodGuest(t))...)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := sharedProject(t, row.more, row.artifact)
			err := pullShared(t, dir, false)
			if row.want == "" && err != nil || row.want != "" && host.CodeOf(err) != row.want {
				t.Fatalf("pull = %v, want code %q", err, row.want)
			}
			if _, err := os.Stat(filepath.Join(dir, share.LockName)); row.want != "" && err == nil {
				t.Error("what is not trusted is in the lock")
			}
		})
	}
	t.Run("no longer", func(t *testing.T) {
		dir, _ := sharedProject(t, "", &share.Artifact{Module: goodGuest(t)})
		if err := pullShared(t, dir, false); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, "agenthost.yaml")
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, append(text, []byte("share: {"+trust+"}\n")...), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := openShared(t, dir); host.CodeOf(err) != host.PermissionDenied {
			t.Errorf("a locked plugin that is not trusted any more opens: %v", err)
		}
	})
}

func TestRegistriesThatAreNotTrustedAreNotAsked(t *testing.T) {
	dir, _ := sharedProject(t, "share: {trust: {from: [ghcr.io/acme]}}", &share.Artifact{Module: goodGuest(t)})
	name := filepath.Join(dir, "agenthost.yaml")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"oci://ghcr.io/acmex/tool:1", "oci://ghcr.io.evil.example/acme/tool:1", "oci://example.com/ghcr.io/acme:1"} {
		if err := os.WriteFile(name, []byte(strings.Replace(string(text), "oci-layout:dist:1", ref, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := pullShared(t, dir, false); host.CodeOf(err) != host.PermissionDenied || !strings.Contains(err.Error(), "no registry that is trusted") {
			t.Errorf("pull of %s = %v, want code permission_denied before any request", ref, err)
		}
	}
}

// ownListener listens at an address whose port no other test takes when it is free again: on
// Linux all of 127.0.0.0/8 is the loopback interface.
func ownListener(t *testing.T) net.Listener {
	t.Helper()
	address := "127.0.0.1"
	if runtime.GOOS == "linux" {
		address = fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	}
	l, err := net.Listen("tcp", address+":0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// One project publishes to a registry, another has the plugin and starts without it.
func TestAProjectPullsFromARegistryAndStartsWithoutIt(t *testing.T) {
	server := &httptest.Server{Listener: ownListener(t), Config: &http.Server{Handler: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}}
	server.Start()
	defer server.Close()
	addr := strings.TrimPrefix(server.URL, "http://")
	loopback := share.Registry{Host: addr, PlainHTTP: true, Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	author, err := share.New(&share.Options{Registries: []share.Registry{loopback}})
	if err != nil {
		t.Fatal(err)
	}
	defer author.Close()
	ref, err := share.ParseReference("oci://" + addr + "/acme/tool:1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := author.Push(t.Context(), ref, &share.Artifact{Module: goodGuest(t)}); err != nil {
		t.Fatal(err)
	}

	dir, _ := sharedProject(t, "share: {trust: {from: [\""+addr+"/acme\"]}}\n", &share.Artifact{Module: goodGuest(t)})
	name := filepath.Join(dir, "agenthost.yaml")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	config := strings.Replace(string(text), "oci-layout:dist:1", ref.String(), 1)
	write := func(config string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(config)
	if err := pullShared(t, dir, false); host.CodeOf(err) != host.PermissionDenied {
		t.Errorf("a registry on loopback that is not configured: %v, want code permission_denied", err)
	}
	write(strings.Replace(config, "share: {", "share: {registries: [{host: \""+addr+"\", plain_http: true, addresses: [127.0.0.0/8]}], ", 1))
	if err := pullShared(t, dir, false); err != nil {
		t.Fatal(err)
	}
	server.Close()
	if err := openShared(t, dir); err != nil {
		t.Errorf("a start without the registry: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "cache", "oci")); err != nil {
		t.Fatal(err)
	}
	if err := openShared(t, dir); host.CodeOf(err) != host.Unavailable {
		t.Errorf("a start without the registry and the cache: %v, want code unavailable", err)
	}
}

func TestFilesAreSignedWhereTheTrustAsksForIt(t *testing.T) {
	public, private, err := signature.Generate()
	if err != nil {
		t.Fatal(err)
	}
	_, stranger, err := signature.Generate()
	if err != nil {
		t.Fatal(err)
	}
	trust := "trust: {files: signed, keys: {acme: " + public.String() + "}}"
	for name, row := range map[string]struct {
		more string
		by   *signature.PrivateKey
		want host.Code
	}{
		"unsigned, by default":             {"", nil, ""},
		"unsigned":                         {"share: {" + trust + "}", nil, host.PermissionDenied},
		"signed":                           {"share: {" + trust + "}", &private, ""},
		"signed by a stranger":             {"share: {" + trust + "}", &stranger, host.PermissionDenied},
		"unsigned, for a tenant":           {"tenants: {globex: {" + trust + "}}", nil, host.PermissionDenied},
		"no key is trusted":                {"share: {trust: {files: signed}}", nil, host.InvalidArgument},
		"a choice that there is not":       {"share: {trust: {files: maybe}}", nil, host.InvalidArgument},
		"repositories of an unknown key":   {"share: {trust: {repositories: {acme: [ghcr.io/acme]}}}", nil, host.InvalidArgument},
		"signed, and uploads are not said": {"share: {" + strings.Replace(trust, "files: signed", "files: signed, uploads: allow", 1) + "}", &private, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, text string) {
				t.Helper()
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("agenthost.yaml", "version: 1\nmodels: {m: {provider: scripted}}\nplugins: {tool: {path: tool.wasm}}\nagents: {clerk: {model: m, tools: [tool]}}\n"+row.more)
			write("tool.wasm", string(goodGuest(t)))
			if row.by != nil {
				sig, err := row.by.Sign(goodGuest(t), "tool")
				if err != nil {
					t.Fatal(err)
				}
				write("tool.wasm.minisig", string(sig))
			}
			if err := openShared(t, dir); row.want == "" && err != nil || row.want != "" && host.CodeOf(err) != row.want {
				t.Errorf("open = %v, want code %q", err, row.want)
			}
		})
	}
}

func TestUploadsAreSignedWhereTheTrustAsksForIt(t *testing.T) {
	public, private, err := signature.Generate()
	if err != nil {
		t.Fatal(err)
	}
	dir, _ := sharedProject(t, "share: {}\ntenants: {acme: {trust: {uploads: signed, keys: {acme: "+public.String()+"}}}}\n", &share.Artifact{Module: goodGuest(t)})
	text, err := os.ReadFile(filepath.Join(dir, "agenthost.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.Replace(string(text), "plugins: {tool: {path: \"oci-layout:dist:1\"}}\n", "", 1))
	if err := os.WriteFile(filepath.Join(dir, "agenthost.yaml"), []byte(strings.Replace(string(text), ", tools: [tool]", "", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	getenv := func(name string) string {
		return map[string]string{"AGENTHOST_CACHE": filepath.Join(dir, "cache")}[name]
	}
	p, err := project.Load(t.Context(), dir, &project.Options{Getenv: getenv, Modules: project.NewModules(&project.ModulesOptions{Getenv: getenv})})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	lib, err := p.Library(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sig, err := private.Sign(goodGuest(t), "tool")
	if err != nil {
		t.Fatal(err)
	}
	upload := func(tenant, module string, signatures ...[]byte) host.Code {
		_, err := lib.Upload(t.Context(), tenant, "tool", strings.NewReader(module), signatures...)
		return host.CodeOf(err)
	}
	if code := upload("acme", "no module"); code != host.PermissionDenied {
		t.Errorf("an unsigned upload: %q, want permission_denied before it is read", code)
	}
	if code := upload("acme", string(goodGuest(t))+"x", sig); code != host.PermissionDenied {
		t.Errorf("an upload with the signature of another module: %q", code)
	}
	if code := upload("acme", string(goodGuest(t)), sig); code != "" {
		t.Errorf("a signed upload: %q", code)
	}
	if code := upload("globex", string(goodGuest(t))); code != "" {
		t.Errorf("an unsigned upload of a tenant without such a trust: %q", code)
	}
}

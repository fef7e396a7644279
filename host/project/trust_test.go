package project_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/share"
	"github.com/agenthost/agenthost/host/plugin/sigstore"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/internal/sigstoretest"
)

// trustOf is the trust in one subject, in the words of a configuration.
func trustOf(subject, more string) string {
	return fmt.Sprintf("trust: {identities: {release: {issuer: %q, subject: %q, root: root.json}}%s}", sigstoretest.Issuer, subject, more)
}

// bundled is a plugin with a bundle of its module by a subject.
func bundled(t *testing.T, instance *sigstoretest.Instance, subject string, module []byte) *share.Artifact {
	t.Helper()
	return &share.Artifact{Module: module, Bundles: []share.Bundle{{Text: instance.Sign(t, subject, sigstoretest.Issuer, module)}}}
}

func writeIn(t *testing.T, dir, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// The refused modules are no modules: a host that compiled them before it looks at signatures would
// answer with another error.
func TestPluginsAreTrustedByWhoSignedThem(t *testing.T) {
	instance, stranger := sigstoretest.New(t), sigstoretest.New(t)
	const subject, other = sigstoretest.Subject, "other@globex.example"
	bad, good := []byte("no module"), goodGuest(t)
	for name, row := range map[string]struct {
		more     string
		artifact *share.Artifact
		want     host.Code
	}{
		"signed":                                    {"share: {" + trustOf(subject, "") + "}", bundled(t, instance, subject, good), ""},
		"unsigned":                                  {"share: {" + trustOf(subject, "") + "}", &share.Artifact{Module: bad}, host.PermissionDenied},
		"signed by another subject":                 {"share: {" + trustOf(subject, "") + "}", bundled(t, instance, other, bad), host.PermissionDenied},
		"signed at another instance":                {"share: {" + trustOf(subject, "") + "}", bundled(t, stranger, subject, bad), host.PermissionDenied},
		"a bundle of another module":                {"share: {" + trustOf(subject, "") + "}", &share.Artifact{Module: bad, Bundles: bundled(t, instance, subject, good).Bundles}, host.PermissionDenied},
		"signed for the only tenant":                {"tenants: {acme: {" + trustOf(subject, "") + "}}", bundled(t, instance, subject, good), ""},
		"signed for one tenant of two":              {"tenants: {acme: {" + trustOf(subject, "") + "}, globex: {" + trustOf(other, "") + "}}", bundled(t, instance, subject, bad), host.PermissionDenied},
		"signed for the tenant, not for the others": {"tenants: {acme: {" + trustOf(subject, "") + "}}\nany_tenant: {" + trustOf(other, "") + "}", bundled(t, instance, subject, bad), host.PermissionDenied},
		"signed for the tenants, not the project":   {"share: {" + trustOf(other, "") + "}\ntenants: {acme: {" + trustOf(subject, "") + "}}", bundled(t, instance, subject, bad), host.PermissionDenied},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := sharedProject(t, row.more, row.artifact)
			writeIn(t, dir, "root.json", instance.Root(t))
			if err := pullShared(t, dir, false); host.CodeOf(err) != row.want && (row.want != "" || err != nil) {
				t.Fatalf("pull = %v, want code %q", err, row.want)
			}
			if lock, err := os.ReadFile(filepath.Join(dir, share.LockName)); row.want == "" && (err != nil || !bytes.Contains(lock, []byte(subject+" ("+sigstoretest.Issuer+")"))) {
				t.Errorf("the lock does not say who signed: %s, %v", lock, err)
			}
		})
	}
}

func TestIdentitiesAreReadStrictly(t *testing.T) {
	instance := sigstoretest.New(t)
	for name, row := range map[string]struct {
		trust string
		root  []byte
		want  string
	}{
		"no root":                    {"trust: {identities: {release: {issuer: i, subject: s}}}", nil, "root"},
		"a root that is not there":   {"trust: {identities: {release: {issuer: i, subject: s, root: none.json}}}", nil, "trusted root"},
		"a root that is none":        {"trust: {identities: {release: {issuer: i, subject: s, root: root.json}}}", []byte("{}"), "trusted root"},
		"a huge root":                {"trust: {identities: {release: {issuer: i, subject: s, root: root.json}}}", make([]byte, share.MaxRootBytes+1), "bytes"},
		"no subject":                 {"trust: {identities: {release: {issuer: i, root: root.json}}}", instance.Root(t), "subject_pattern"},
		"more logs than there are":   {"trust: {identities: {release: {issuer: i, subject: s, root: root.json, log_entries: 3}}}", instance.Root(t), "lists 1"},
		"a key of the same name":     {"trust: {keys: {release: RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3}, identities: {release: {issuer: i, subject: s, root: root.json}}}", instance.Root(t), "another name"},
		"repositories of no one":     {"trust: {repositories: {ci: [ghcr.io/acme]}, identities: {release: {issuer: i, subject: s, root: root.json}}}", instance.Root(t), "release"},
		"an option that there's not": {"trust: {identities: {release: {issuer: i, subject: s, root: root.json, insecure: true}}}", instance.Root(t), "insecure"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := sharedProject(t, "share: {"+row.trust+"}", &share.Artifact{Module: goodGuest(t)})
			writeIn(t, dir, "root.json", row.root)
			file, err := project.ReadFile(nil, dir)
			if err == nil {
				_, err = project.PullPlugins(t.Context(), file, false, &project.Options{Sigstore: sigstore.New, Getenv: func(string) string { return "" }, Modules: project.NewModules(&project.ModulesOptions{Getenv: cacheIn(dir)})})
			}
			if host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), row.want) {
				t.Errorf("pull = %v, want code invalid_argument and %q", err, row.want)
			}
		})
	}
}

// cacheIn keeps pulled plugins in a directory.
func cacheIn(dir string) func(string) string {
	return func(name string) string {
		return map[string]string{"AGENTHOST_CACHE": filepath.Join(dir, "cache")}[name]
	}
}

func TestIdentitiesWithoutAVerifierAreRefused(t *testing.T) {
	instance := sigstoretest.New(t)
	dir, _ := sharedProject(t, "any_tenant: {"+trustOf(sigstoretest.Subject, "")+"}", bundled(t, instance, sigstoretest.Subject, goodGuest(t)))
	writeIn(t, dir, "root.json", instance.Root(t))
	opts := &project.Options{Getenv: cacheIn(dir), Modules: project.NewModules(&project.ModulesOptions{Getenv: cacheIn(dir)})}
	file, err := project.ReadFile(nil, dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := project.PullPlugins(t.Context(), file, false, opts); host.CodeOf(err) != host.FailedPrecondition || !strings.Contains(err.Error(), "sigstore.New") {
		t.Errorf("pull = %v, want code failed_precondition that says how", err)
	}
	dir = t.TempDir()
	writeIn(t, dir, "root.json", instance.Root(t))
	writeIn(t, dir, "agenthost.yaml", []byte("version: 1\nmodels: {m: {provider: scripted}}\nagents: {clerk: {model: m}}\nany_tenant: {"+trustOf(sigstoretest.Subject, "")+"}\n"))
	if _, err := project.Load(t.Context(), dir, opts); host.CodeOf(err) != host.FailedPrecondition || !strings.Contains(err.Error(), "sigstore.New") {
		t.Errorf("open = %v, want code failed_precondition that says how", err)
	}
}

func TestFilesAreSignedBySigstoreToo(t *testing.T) {
	instance := sigstoretest.New(t)
	for name, row := range map[string]struct {
		by   string
		want host.Code
	}{
		"unsigned":                 {"", host.PermissionDenied},
		"signed":                   {sigstoretest.Subject, ""},
		"signed by another":        {"other@globex.example", host.PermissionDenied},
		"with a bundle too large":  {"huge", host.InvalidArgument},
		"with a bundle of nothing": {"none", host.PermissionDenied},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeIn(t, dir, "agenthost.yaml", []byte("version: 1\nmodels: {m: {provider: scripted}}\nplugins: {tool: {path: tool.wasm}}\nagents: {clerk: {model: m, tools: [tool]}}\nshare: {"+trustOf(sigstoretest.Subject, ", files: signed")+"}"))
			writeIn(t, dir, "root.json", instance.Root(t))
			writeIn(t, dir, "tool.wasm", goodGuest(t))
			switch row.by {
			case "":
			case "huge":
				writeIn(t, dir, "tool.wasm.sigstore.json", bytes.Repeat([]byte(" "), share.MaxBundleBytes+1))
			case "none":
				writeIn(t, dir, "tool.wasm.sigstore.json", []byte("{}"))
			default:
				writeIn(t, dir, "tool.wasm.sigstore.json", instance.Sign(t, row.by, sigstoretest.Issuer, goodGuest(t)))
			}
			if err := openShared(t, dir); host.CodeOf(err) != row.want && (row.want != "" || err != nil) {
				t.Errorf("open = %v, want code %q", err, row.want)
			}
		})
	}
}

// countingVerifier counts the bundles that it verifies.
type countingVerifier struct {
	share.BundleVerifier
	calls *atomic.Int64
}

func (c countingVerifier) VerifyBundle(bundle []byte, digest string) (string, error) {
	c.calls.Add(1)
	return c.BundleVerifier.VerifyBundle(bundle, digest)
}

func TestTenantsOfOneIdentityShareItsVerification(t *testing.T) {
	instance := sigstoretest.New(t)
	more := "tenants:\n"
	for i := range 100 {
		more += fmt.Sprintf("  t%d: {%s}\n", i, trustOf(sigstoretest.Subject, ""))
	}
	dir, _ := sharedProject(t, more, bundled(t, instance, sigstoretest.Subject, goodGuest(t)))
	writeIn(t, dir, "root.json", instance.Root(t))
	file, err := project.ReadFile(nil, dir)
	if err != nil {
		t.Fatal(err)
	}
	var made, calls atomic.Int64
	opts := &project.Options{Getenv: cacheIn(dir), Modules: project.NewModules(&project.ModulesOptions{Getenv: cacheIn(dir)}), Sigstore: func(id share.Identity) (share.BundleVerifier, error) {
		made.Add(1)
		v, err := sigstore.New(id)
		return countingVerifier{v, &calls}, err
	}}
	if _, err := project.PullPlugins(t.Context(), file, false, opts); err != nil {
		t.Fatal(err)
	}
	if made.Load() != 1 || calls.Load() != 2 { // the digests of the artifact and of the module
		t.Errorf("%d verifiers have verified %d times for 100 tenants, want one, twice", made.Load(), calls.Load())
	}
}

// Signatures are beside a file, and of a directory beside its module.
func TestSignaturesAreFoundBesideTheModule(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "orders"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"orders.wasm.minisig": "file", "orders.wasm.sigstore.json": "{}", "orders/orders.wasm.minisig": "module", "orders.minisig": "neither",
	} {
		writeIn(t, dir, name, []byte(text))
	}
	for where, want := range map[string]struct {
		signature string
		bundles   int
	}{"orders.wasm": {"file", 1}, "orders": {"module", 0}} {
		a, err := project.SignedFile(filepath.Join(dir, where), []byte("wasm"))
		if err != nil || len(a.Signatures) != 1 || string(a.Signatures[0]) != want.signature || len(a.Bundles) != want.bundles || string(a.Module) != "wasm" {
			t.Errorf("SignedFile of %s = %+v, %v", where, a, err)
		}
	}
	if a, err := project.SignedFile(filepath.Join(dir, "other.wasm"), nil); err != nil || len(a.Signatures)+len(a.Bundles) != 0 {
		t.Errorf("SignedFile of an unsigned file = %+v, %v", a, err)
	}
}

// The bundle that one tenant's trust asks for does not count for another's.
func TestTheIdentitiesOfATenantAreItsOwn(t *testing.T) {
	instance := sigstoretest.New(t)
	dir := t.TempDir()
	writeIn(t, dir, "root.json", instance.Root(t))
	writeIn(t, dir, "agenthost.yaml", []byte("version: 1\nmodels: {m: {provider: scripted}}\nagents: {clerk: {model: m}}\ntenants:\n  acme: {"+
		trustOf("acme@acme.example", ", uploads: signed")+"}\n  globex: {"+trustOf("globex@globex.example", ", uploads: signed")+"}\n"))
	p, err := project.Load(t.Context(), dir, &project.Options{Sigstore: sigstore.New, Getenv: cacheIn(dir), Modules: project.NewModules(&project.ModulesOptions{Getenv: cacheIn(dir)})})
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
	module := goodGuest(t)
	acme := instance.Sign(t, "acme@acme.example", sigstoretest.Issuer, module)
	globex := instance.Sign(t, "globex@globex.example", sigstoretest.Issuer, module)
	for _, row := range []struct {
		tenant string
		bundle []byte
		want   host.Code
	}{{"acme", globex, host.PermissionDenied}, {"globex", acme, host.PermissionDenied}, {"acme", acme, ""}, {"globex", globex, ""}} {
		if _, err := lib.Upload(t.Context(), row.tenant, "tool", bytes.NewReader(module), row.bundle); host.CodeOf(err) != row.want && (row.want != "" || err != nil) {
			t.Errorf("upload of %s = %v, want code %q", row.tenant, err, row.want)
		}
	}
}

// A workflow signs a plugin after it was pushed, and the project then starts without the registry.
func TestAProjectTrustsWhatAWorkflowSignedInARegistry(t *testing.T) {
	instance := sigstoretest.New(t)
	server := &httptest.Server{Listener: ownListener(t), Config: &http.Server{Handler: registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true))}}
	server.Start()
	defer server.Close()
	addr := strings.TrimPrefix(server.URL, "http://")
	author, err := share.New(&share.Options{Registries: []share.Registry{{Host: addr, PlainHTTP: true, Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer author.Close()
	ref, err := share.ParseReference("oci://" + addr + "/acme/tool:1")
	if err != nil {
		t.Fatal(err)
	}
	of, err := author.Push(t.Context(), ref, &share.Artifact{Module: goodGuest(t)})
	if err != nil {
		t.Fatal(err)
	}
	more := fmt.Sprintf("share: {registries: [{host: %q, plain_http: true, addresses: [127.0.0.0/8]}], %s}", addr, trustOf(sigstoretest.Subject, ", repositories: {release: [\""+addr+"/acme\"]}"))
	dir, _ := sharedProject(t, more, &share.Artifact{Module: goodGuest(t)})
	writeIn(t, dir, "root.json", instance.Root(t))
	text, err := os.ReadFile(filepath.Join(dir, "agenthost.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	writeIn(t, dir, "agenthost.yaml", []byte(strings.Replace(string(text), "oci-layout:dist:1", ref.String(), 1)))
	if err := pullShared(t, dir, false); host.CodeOf(err) != host.PermissionDenied {
		t.Errorf("pull of what is not signed yet = %v, want code permission_denied", err)
	}
	signInRegistry(t, addr, of, instance)
	if err := pullShared(t, dir, false); err != nil {
		t.Fatal(err)
	}
	server.Close()
	if err := openShared(t, dir); err != nil {
		t.Errorf("a start without the registry: %v", err)
	}
}

// signInRegistry signs a manifest of acme/tool, as cosign sign does.
func signInRegistry(t *testing.T, addr, of string, instance *sigstoretest.Instance) {
	t.Helper()
	to, err := remote.NewRepository(addr + "/acme/tool")
	if err != nil {
		t.Fatal(err)
	}
	to.PlainHTTP = true
	subject, err := to.Resolve(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := hex.DecodeString(subject.Digest.Encoded())
	if err != nil {
		t.Fatal(err)
	}
	push := func(mediaType string, data []byte) ocispec.Descriptor {
		t.Helper()
		desc := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
		if err := to.Push(t.Context(), desc, bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		return desc
	}
	manifest, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: share.BundleType, Subject: &subject,
		Config: push(ocispec.MediaTypeEmptyJSON, []byte("{}")),
		Layers: []ocispec.Descriptor{push(share.BundleType, instance.Attest(t, sigstoretest.Subject, sigstoretest.Issuer, sigstoretest.CosignSign, raw))},
	})
	if err != nil {
		t.Fatal(err)
	}
	push(ocispec.MediaTypeImageManifest, manifest)
}

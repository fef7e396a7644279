package share_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	"go.uber.org/goleak"

	"github.com/agenthost/agenthost/host/plugin/share"
)

// registryVariable makes the test program a registry: open, with the list of what refers to a
// manifest (referrers), or with basic or token credentials.
const registryVariable = "AGENTHOST_TEST_SHARE_REGISTRY"

// The credentials of a registry with any.
const (
	user     = "robot"
	password = "correct horse"
	token    = "a-token-for-pulling-and-pushing"
)

// TestMain fails the package if a closed client leaves a goroutine behind.
func TestMain(m *testing.M) {
	if kind := os.Getenv(registryVariable); kind != "" {
		serveRegistry(kind)
		return
	}
	goleak.VerifyTestMain(m)
}

// serveRegistry is a registry, until stdin ends.
func serveRegistry(kind string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(kind == "referrers"))
	if kind != "open" && kind != "referrers" {
		handler = guarded(handler, kind, "http://"+l.Addr().String())
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { log.Fatal(server.Serve(l)) }()
	fmt.Println(l.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// guarded asks for credentials, as a private registry does.
func guarded(next http.Handler, kind, own string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, pass, basic := r.BasicAuth()
		known := basic && name == user && pass == password
		switch {
		case r.URL.Path == "/token" && known:
			_ = json.NewEncoder(w).Encode(map[string]string{"token": token})
		case r.URL.Path == "/token":
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"who are you?"}]}`, http.StatusUnauthorized)
		case kind == "basic" && known, kind == "token" && r.Header.Get("Authorization") == "Bearer "+token:
			next.ServeHTTP(w, r)
		case kind == "basic":
			w.Header().Set("WWW-Authenticate", `Basic realm="tests"`)
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"who are you?"}]}`, http.StatusUnauthorized)
		default:
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+own+`/token",service="tests",scope="repository:acme/orders:pull,push"`)
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"who are you?"}]}`, http.StatusUnauthorized)
		}
	})
}

// startRegistry starts a registry as a process of its own on loopback, and returns its
// address.
func startRegistry(t testing.TB, kind string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), registryVariable+"="+kind)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the registry does not start: %v", err)
	}
	return strings.TrimSpace(line)
}

// loopback are the addresses of registries in tests.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// newClient returns a client for a registry on loopback.
func newClient(t testing.TB, addr string, change func(*share.Options)) *share.Client {
	t.Helper()
	opts := &share.Options{Registries: []share.Registry{{Host: addr, PlainHTTP: true, Addresses: loopback}}}
	if change != nil {
		change(opts)
	}
	c, err := share.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// dockerConfig writes the credentials of docker login for a registry.
func dockerConfig(t *testing.T, addr, user, password string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.json")
	auth := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	if err := os.WriteFile(file, []byte(fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, addr, auth)), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func mustParse(t testing.TB, text string) share.Reference {
	t.Helper()
	ref, err := share.ParseReference(text)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

package control_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/control"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/httpapi"
)

func TestMain(m *testing.M) {
	// The server leaves a connection with a body that was too large open for half a second.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// socketPath is short: a test's own directory may be too long for a socket.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "c")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

func serve(t *testing.T, routes ...control.Route) string {
	t.Helper()
	path := socketPath(t)
	s, err := control.Listen(path, nil, routes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), s.Close()); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return path
}

// echo is a route that answers with what it is sent.
var echo = control.Do("echo", "Repeat the body.", func(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
	if args == nil {
		return json.RawMessage("null"), nil
	}
	return args, nil
})

// waiting is a route that says when it has begun, and ends with its request.
func waiting(begun chan<- struct{}) control.Route {
	return control.Do("wait", "Wait.", func(ctx context.Context, _ struct{}) (any, error) {
		begun <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	})
}

func TestCallReachesItsRoute(t *testing.T) {
	path := serve(t, echo)
	var got struct{ A int }
	if err := control.Call(t.Context(), path, "echo", map[string]int{"A": 7}, &got); err != nil || got.A != 7 {
		t.Errorf("Call = %+v, %v; want what was sent", got, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket's mode is %v, %v; want 0600", info.Mode(), err)
	}
}

func TestErrorsKeepTheirCodesAndHints(t *testing.T) {
	path := serve(t, control.Do("fail", "Fail.", func(context.Context, struct{}) (any, error) {
		e := host.Errorf(host.ResourceExhausted, "the disk of /var is full").WithHint("look elsewhere")
		e.Limit, e.RetryAfter, e.Retryable = "disk", 3*time.Second, true
		return nil, e
	}), control.Do("break", "Break.", func(context.Context, struct{}) (any, error) {
		return nil, host.Errorf(host.Internal, "page 7 of /var is odd")
	}))
	err := control.Call(t.Context(), path, "fail", nil, nil)
	var e *host.Error
	if !errors.As(err, &e) || e.Code != host.ResourceExhausted || e.Hint != "look elsewhere" || e.Limit != "disk" || e.RetryAfter != 3*time.Second || !e.Retryable || e.Message != "the disk of /var is full" {
		t.Errorf("Call = %+v, want the error of the route", e)
	}
	if err := control.Call(t.Context(), path, "break", nil, nil); host.CodeOf(err) != host.Internal || !strings.Contains(err.Error(), "page 7") {
		t.Errorf("Call = %v, want the whole text of an internal error", err)
	}
	if err := control.Call(t.Context(), path, "nothing", nil, nil); host.CodeOf(err) != host.Unimplemented {
		t.Errorf("Call of an unknown operation = %v, want unimplemented", err)
	}
}

// get sends a request of HTTP over the socket.
func get(t *testing.T, path, method, url, body string, header http.Header) (*http.Response, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://localhost"+url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(req.Header, header)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(raw)
}

func TestTheAPIActsForTheNamedTenant(t *testing.T) {
	path := socketPath(t)
	authenticate := control.Authenticate(func(name string) string { return cmp.Or(name, "of-the-project") })
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := authenticate(r)
		fmt.Fprint(w, r.URL.Path, p.Tenant, p.Admin, p.Scopes, err)
	})
	s, err := control.Listen(path, api, []control.Route{echo})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := control.Ready(t.Context(), path); err != nil {
		t.Errorf("Ready = %v", err)
	}
	if err := control.Ready(t.Context(), path+"x"); !control.Unreachable(err) {
		t.Errorf("Ready of no host = %v", err)
	}
	all := slices.Concat(httpapi.Scopes(), httpapi.AdminScopes())
	slices.Sort(all)
	scopes := fmt.Sprint(slices.Compact(all))
	if _, got := get(t, path, "GET", "/v1/me", "", nil); got != "/v1/me"+"of-the-project"+"true "+scopes+" <nil>" {
		t.Errorf("without a tenant: %s", got)
	}
	if _, got := get(t, path, "GET", "/v1/me", "", http.Header{control.TenantHeader: {"acme"}}); !strings.Contains(got, "/v1/meacme") {
		t.Errorf("for acme: %s", got)
	}
	if _, got := get(t, path, "GET", "/local", "", nil); got != `[{"name":"echo","summary":"Repeat the body."}]`+"\n" {
		t.Errorf("GET /local = %s", got)
	}
	if resp, got := get(t, path, "GET", "/local/echo", "", nil); resp.StatusCode != 404 || !strings.Contains(got, "take POST") {
		t.Errorf("GET /local/echo = %d, %s", resp.StatusCode, got)
	}
}

// A host of an earlier version reads lines of JSON, and answers with one.
func TestAHostOfAnEarlierVersionIsRefused(t *testing.T) {
	path := socketPath(t)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = bufio.NewReader(conn).ReadString('\n')
		_, _ = conn.Write([]byte(`{"error":{"code":"invalid_argument","message":"request is not JSON"}}` + "\n"))
	}()
	err = control.Call(t.Context(), path, "plugin.list", nil, nil)
	if host.CodeOf(err) != host.Unavailable || !strings.Contains(err.Error(), "is of an earlier version of agenthost") {
		t.Errorf("Call = %v, want a sentence about the version", err)
	}
}

func TestASocketThatIsInUse(t *testing.T) {
	path := serve(t)
	if _, err := control.Listen(path, nil, nil); host.CodeOf(err) != host.FailedPrecondition || !strings.Contains(err.Error(), "another host listens") {
		t.Errorf("Listen at a socket in use = %v, want failed_precondition", err)
	}
}

func TestAStaleSocketIsReplaced(t *testing.T) {
	path := socketPath(t)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close() // as a process that was killed leaves it
	if err := control.Call(t.Context(), path, "echo", nil, nil); host.CodeOf(err) != host.FailedPrecondition || !strings.Contains(err.Error(), "no host is running") {
		t.Errorf("Call of a host that is gone = %v, want failed_precondition", err)
	}
	s, err := control.Listen(path, nil, []control.Route{echo})
	if err != nil {
		t.Fatalf("Listen at a stale socket = %v", err)
	}
	if err := control.Call(t.Context(), path, "echo", 1, nil); err != nil {
		t.Errorf("Call = %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}

func TestWhatIsNoSocketIsLeftAlone(t *testing.T) {
	path := socketPath(t)
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := control.Listen(path, nil, nil); host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("Listen at a file = %v, want failed_precondition", err)
	}
	if b, _ := os.ReadFile(path); string(b) != "mine" {
		t.Errorf("the file now holds %q", b)
	}
	if _, err := control.Listen(strings.Repeat("x", 200), nil, nil); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("Listen at a path that is too long = %v, want invalid_argument", err)
	}
}

func TestBadRequestsAreAnswered(t *testing.T) {
	path := serve(t, echo, control.Do("one", "Take a number.", func(_ context.Context, args struct{ N int }) (int, error) { return args.N, nil }))
	for _, c := range []struct {
		name, url, body string
		status          int
		want            string
	}{
		{"no JSON", "/local/one", "hello", 400, `"invalid_argument"`},
		{"a list", "/local/one", "[1]", 400, `"invalid_argument"`},
		{"an unknown member", "/local/one", `{"m":1}`, 400, "another version"},
		{"two values", "/local/one", `{"n":1}{"n":2}`, 400, "something follows"},
		{"not UTF-8", "/local/one", "{\"n\":\"\xff\"}", 400, "not UTF-8"},
		{"too long", "/local/one", strings.Repeat("a", control.MaxRequestBytes+1), 429, `"resource_exhausted"`},
		{"an operation that is not there", "/local/x", "", 501, `"unimplemented"`},
		{"a path that is not there", "/v1/runs", "", 404, "404"},
	} {
		resp, got := get(t, path, "POST", c.url, c.body, nil)
		if resp.StatusCode != c.status || !strings.Contains(got, c.want) {
			t.Errorf("%s is answered with %d, %.200s; want %d, %s", c.name, resp.StatusCode, got, c.status, c.want)
		}
	}
}

func TestTooManyRequestsAreRefused(t *testing.T) {
	begun := make(chan struct{})
	path := serve(t, echo, waiting(begun))
	ctx, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	for range control.MaxRequests {
		calls.Go(func() { _ = control.Call(ctx, path, "wait", nil, nil) })
		<-begun
	}
	if err := control.Call(t.Context(), path, "echo", nil, nil); host.CodeOf(err) != host.ResourceExhausted {
		t.Errorf("Call of a host that is full = %v, want resource_exhausted", err)
	}
	cancel()
	calls.Wait()
}

func TestCloseEndsRequests(t *testing.T) {
	begun := make(chan struct{})
	path := socketPath(t)
	s, err := control.Listen(path, nil, []control.Route{waiting(begun)})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- control.Call(context.Background(), path, "wait", nil, nil) }()
	<-begun
	if err := s.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	if err := <-done; err == nil {
		t.Error("Call of a host that was closed has no error")
	}
}

func TestCallEndsWithItsContext(t *testing.T) {
	begun := make(chan struct{})
	path := serve(t, waiting(begun))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	if err := control.Call(ctx, path, "wait", nil, nil); host.CodeOf(err) != host.Canceled {
		t.Errorf("Call = %v, want canceled", err)
	}
}

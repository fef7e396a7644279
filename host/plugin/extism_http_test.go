package plugin

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"

	extism "github.com/extism/go-sdk"

	"github.com/agenthost/agenthost/host"
)

// pages answers as its path says; a path that it does not know is answered with
// what was sent.
func pages(t *testing.T) (base string, port int) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/nothing":
			w.WriteHeader(http.StatusNoContent)
		case "/gone":
			http.Error(w, "gone", http.StatusGone)
		case "/elsewhere":
			http.Redirect(w, r, "/here", http.StatusFound)
		case "/out":
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
		case "/round":
			http.Redirect(w, r, "/round", http.StatusFound)
		default:
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %s %s %q %d", r.Method, r.URL.Path, r.Header.Get("X-Mine"), body, r.ContentLength)
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections) // the SDK's
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, _ = strconv.Atoi(u.Port())
	return server.URL, port
}

// asksFor assembles a guest that sends a request and answers with the response's
// body, or with its status.
func asksFor(t *testing.T, request, body string, status bool) []byte {
	code := say(0, request) + say(1, body) + `local.get 0 local.get 1 call $http_request local.set 2`
	if status {
		return extismHand(t, code+`
			i64.const 8 call $alloc local.tee 0 call $http_status_code i64.extend_i32_u call $store_u64
			local.get 0 i64.const 8 call $output_set i32.const 0`)
	}
	return extismHand(t, code+` local.get 2 local.get 2 call $length call $output_set i32.const 0`)
}

// Both engines send what a plugin written for Extism asks for, and show it the same
// answer, also that of a server it was sent on to.
func TestExtismRequestsLikeItsOwnSDK(t *testing.T) {
	base, port := pages(t)
	opts := &LoadOptions{Granted: Permissions{HTTP: []HTTPAccess{{Scheme: "http", Host: "127.0.0.1", Port: port,
		Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}}}}
	for _, c := range []struct{ name, path, more, body string }{
		{"a page", "/page", "", ""},
		{"a request with a body", "/page", `,"method":"post","headers":{"X-Mine":"yes"}`, "said"},
		{"headers that are not the plugin's", "/page", `,"method":"PUT","headers":{"Content-Length":"99","host":"other.example","Transfer-Encoding":"chunked"}`, "said"},
		{"no body", "/nothing", "", ""},
		{"a status that is no success", "/gone", "", ""},
		{"a redirect", "/elsewhere", `,"headers":{"X-Mine":"yes"}`, ""},
		{"a redirect after a body", "/elsewhere", `,"method":"POST"`, "said"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, status := range []bool{false, true} {
				wasm := asksFor(t, `{"url":"`+base+c.path+`"`+c.more+`}`, c.body, status)
				want := onSDK(t, wasm, "run", "", extism.Manifest{AllowedHosts: []string{"127.0.0.1"}})
				if got := onOurs(t, wasm, "run", "", opts); got != want {
					t.Errorf("%v\nwant %v, as on extism/go-sdk", got, want)
				}
			}
		})
	}
	for path, want := range map[string]host.Code{"/out": host.PermissionDenied, "/round": host.ResourceExhausted} {
		p, err := startRuntime(t, nil).Load(t.Context(), "x", asksFor(t, `{"url":"`+base+path+`"}`, "", false), opts)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Call(t.Context(), "acme", "run", nil, nil); host.CodeOf(err) != want || !strings.Contains(err.Error(), "http_request") {
			t.Errorf("sent on by %s it ends with %v, want %s", path, err, want)
		}
	}
}

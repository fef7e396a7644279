package egress_test

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/agenthost/agenthost/host/egress"
	"github.com/agenthost/agenthost/host/fault"
)

// seen is a request as a server got it.
type seen struct {
	host, method, path, body string
	header                   http.Header
}

// redirector answers /STATUS/... with a redirect to the query's "to", and
// everything else with 200; it keeps what it saw.
func redirector(t *testing.T) (port int, requests func() []seen) {
	t.Helper()
	var all []seen
	port = serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		name, _, _ := strings.Cut(r.Host, ":")
		all = append(all, seen{name, r.Method, r.URL.Path, string(body), r.Header.Clone()})
		status, _ := strconv.Atoi(strings.Trim(r.URL.Path, "/"))
		if to := r.URL.Query().Get("to"); to != "" {
			w.Header().Set("Location", to)
			w.WriteHeader(status)
		}
		io.WriteString(w, "end")
	})
	return port, func() []seen { out := all; all = nil; return out }
}

var threeHosts = map[string]string{"a.test": "127.0.0.1", "b.test": "127.0.0.1", "denied.test": "127.0.0.1", "inside.test": "127.0.0.1"}

func TestRedirectsAreCheckedAnew(t *testing.T) {
	port, requests := redirector(t)
	c := newClient(t, &egress.Options{Resolver: dns(threeHosts)})
	p := policy(t, egress.Grants{HTTP: append(localRules(port, "a.test", "b.test"),
		egress.Rule{Scheme: "http", Host: "inside.test", Port: port},
		egress.Rule{Scheme: "http", Host: "get.test", Port: port, Methods: []string{"GET"}})})
	for to, want := range map[string]struct {
		code fault.Code
		says string
	}{
		at("denied.test", port, "/"):                         {fault.PermissionDenied, "denied.test"},
		at("a.test", port+1, "/"):                            {fault.PermissionDenied, "a.test"},
		"https://a.test/":                                    {fault.PermissionDenied, "https://a.test:443"},
		fmt.Sprintf("//denied.test:%d/", port):               {fault.PermissionDenied, "denied.test"},
		at("127.0.0.1", port, "/"):                           {fault.PermissionDenied, "127.0.0.1"},
		"http://169.254.169.254/latest/":                     {fault.PermissionDenied, "169.254.169.254"},
		at("inside.test", port, "/"):                         {fault.PermissionDenied, "not granted"}, // granted by name, not by address
		fmt.Sprintf("http://2130706433:%d/", port):           {fault.Unavailable, "can't be used"},
		fmt.Sprintf("http://user:pw@a.test:%d/", port):       {fault.Unavailable, "can't be used"},
		"file:///etc/passwd":                                 {fault.Unavailable, "can't be used"},
		"gopher://a.test/":                                   {fault.Unavailable, "can't be used"},
		"http://[::1":                                        {fault.Unavailable, "can't be used"},
		fmt.Sprintf("http://a.test:%d\\@denied.test/", port): {fault.Unavailable, "can't be used"},
	} {
		_, err := c.Fetch(t.Context(), &egress.Request{Policy: p, URL: at("a.test", port, "/302?to=") + escape(to)})
		if fault.CodeOf(err) != want.code || !strings.Contains(err.Error(), want.says) {
			t.Errorf("redirect to %.60s: %v, want %s that says %q", to, err, want.code, want.says)
		}
		if got := requests(); len(got) != 1 || got[0].host != "a.test" {
			t.Errorf("redirect to %.60s: requests were %v", to, got)
		}
	}
	_, err := c.Fetch(t.Context(), &egress.Request{Policy: p, Method: "POST", URL: at("a.test", port, "/307?to=") + escape(at("get.test", port, "/"))})
	wantError(t, err, fault.PermissionDenied, "the method is not")
}

func TestRedirectToALongURL(t *testing.T) {
	port := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/"+strings.Repeat("x", 9<<10))
		w.WriteHeader(http.StatusFound)
	})
	c := newClient(t, &egress.Options{Resolver: dns(threeHosts)})
	_, err := c.Fetch(t.Context(), &egress.Request{Policy: local(t, port, "a.test"), URL: at("a.test", port, "/")})
	wantError(t, err, fault.Unavailable, "can't be used")
}

func escape(s string) string {
	return strings.NewReplacer("&", "%26", "\\", "%5C", "#", "%23", "%", "%25").Replace(s)
}

func TestRedirectsRewriteTheRequest(t *testing.T) {
	port, requests := redirector(t)
	c := newClient(t, &egress.Options{Resolver: dns(threeHosts)})
	for _, row := range []struct {
		status       int
		method, want string
		body         bool
	}{
		{301, "GET", "GET", false}, {301, "POST", "GET", false}, {301, "PUT", "PUT", true}, {301, "HEAD", "HEAD", false},
		{302, "POST", "GET", false}, {302, "DELETE", "DELETE", true}, {303, "POST", "GET", false}, {303, "PUT", "GET", false},
		{303, "HEAD", "HEAD", false}, {307, "POST", "POST", true}, {307, "PUT", "PUT", true}, {308, "POST", "POST", true},
	} {
		req := &egress.Request{Policy: local(t, port, "a.test"), Method: row.method, URL: at("a.test", port, fmt.Sprintf("/%d?to=/end", row.status)),
			Headers: []egress.Header{{Name: "Content-Type", Value: "text/plain"}, {Name: "X-Key", Value: "k"}}}
		if row.method != "GET" && row.method != "HEAD" {
			req.Body = []byte("data")
		}
		resp, err := c.Fetch(t.Context(), req)
		if err != nil || resp.Redirects != 1 || resp.URL != at("a.test", port, "/end") {
			t.Errorf("%d after %s: %+v, %v", row.status, row.method, resp, err)
			continue
		}
		got := requests()[1]
		if got.method != row.want || (got.body == "data") != row.body || got.header.Get("X-Key") != "k" || got.header.Get("Referer") != "" {
			t.Errorf("%d after %s: the second request is %+v, want %s, body %t", row.status, row.method, got, row.want, row.body)
		}
		if row.want == "GET" && row.method != "GET" && got.header.Get("Content-Type") != "" {
			t.Errorf("%d after %s: the content's type follows without the content", row.status, row.method)
		}
	}
}

// What may be a credential goes to the first server only, and does not come back
// when a later redirect does.
func TestRedirectsDropCredentials(t *testing.T) {
	port, requests := redirector(t)
	c := newClient(t, &egress.Options{Resolver: dns(threeHosts), Secrets: egress.StaticSecrets{"KEY": egress.NewSecret("s3cret-value")}})
	p := policy(t, egress.Grants{HTTP: localRules(port, "a.test", "b.test"),
		Secrets: []egress.SecretRule{{Name: "KEY", Hosts: []string{fmt.Sprintf("http://a.test:%d", port), "http://b.test"}}}})
	back := escape(at("a.test", port, "/end"))
	resp, err := c.Fetch(t.Context(), &egress.Request{Policy: p, URL: at("a.test", port, "/307?to=") + escape(at("b.test", port, "/308?to="+back)),
		Headers: []egress.Header{
			{Name: "Authorization", Prefix: "Bearer ", Secret: "KEY"}, {Name: "Cookie", Value: "a=b"}, {Name: "X-Api-Key", Value: "own"},
			{Name: "Accept", Value: "text/plain"},
		}})
	if err != nil || resp.Redirects != 2 {
		t.Fatalf("Fetch = %+v, %v", resp, err)
	}
	got := requests()
	if h := got[0].header; h.Get("Authorization") != "Bearer s3cret-value" || h.Get("Cookie") != "a=b" || h.Get("X-Api-Key") != "own" {
		t.Errorf("the first server saw %v", h)
	}
	for _, r := range got[1:] {
		if r.header.Get("Authorization") != "" || r.header.Get("Cookie") != "" || r.header.Get("X-Api-Key") != "" || r.header.Get("Accept") != "text/plain" {
			t.Errorf("%s was sent %v; want only what says nothing", r.host, r.header)
		}
	}
}

func TestRedirectsAreCounted(t *testing.T) {
	c := newClient(t, &egress.Options{Resolver: dns(threeHosts)})
	var requests atomic.Int32
	port := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		http.Redirect(w, r, "/", http.StatusFound)
	})
	_, err := c.Fetch(t.Context(), &egress.Request{Policy: local(t, port, "a.test"), URL: at("a.test", port, "/")})
	wantError(t, err, fault.ResourceExhausted, "limit Redirects of 5")
	if n := requests.Load(); n != 6 {
		t.Errorf("%d requests, want 6", n)
	}
	resp, err := c.Fetch(t.Context(), &egress.Request{Policy: local(t, port, "a.test"), URL: at("a.test", port, "/"), Limits: egress.Limits{Redirects: -1}})
	if err != nil || resp.Status != http.StatusFound || header(resp, "location") != "/" {
		t.Errorf("without following: %+v, %v; want the redirect itself", resp, err)
	}
}

// Connections that were dialed under a grant of addresses serve no request that
// lacks it, nor another tenant or plugin.
func TestConnectionsAreNotShared(t *testing.T) {
	peers := map[string]bool{}
	port := serve(t, func(w http.ResponseWriter, r *http.Request) { peers[r.RemoteAddr] = true })
	c := newClient(t, &egress.Options{Resolver: dns(threeHosts)})
	with := local(t, port, "a.test")
	get := func(tenant, plugin string, p *egress.Policy) error {
		_, err := c.Fetch(t.Context(), &egress.Request{Tenant: tenant, Plugin: plugin, Policy: p, URL: at("a.test", port, "/")})
		return err
	}
	for range 3 {
		if err := get("acme", "weather", with); err != nil {
			t.Fatal(err)
		}
	}
	if len(peers) != 1 {
		t.Errorf("three requests of one plugin used %d connections, want 1", len(peers))
	}
	wantError(t, get("acme", "weather", policy(t, egress.Grants{HTTP: []egress.Rule{{Scheme: "http", Host: "a.test", Port: port}}})), fault.PermissionDenied)
	other := policy(t, egress.Grants{HTTP: []egress.Rule{{Scheme: "http", Host: "a.test", Port: port, Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}}})
	for i, r := range []struct {
		tenant, plugin string
		policy         *egress.Policy
	}{{"globex", "weather", with}, {"acme", "maps", with}, {"acme", "weather", other}} {
		if err := get(r.tenant, r.plugin, r.policy); err != nil || len(peers) != i+2 {
			t.Errorf("%s, %s: %v, %d connections in all, want %d", r.tenant, r.plugin, err, len(peers), i+2)
		}
	}
}

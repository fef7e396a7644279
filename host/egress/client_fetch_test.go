package egress_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/egress"
	"github.com/agenthost/agenthost/host/fault"
)

func TestFetch(t *testing.T) {
	port := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Add("X-Two", "a")
		w.Header().Add("X-Two", "b")
		w.WriteHeader(http.StatusTeapot)
		io.WriteString(w, r.Method+" "+r.Host+" "+r.RequestURI+" "+r.Header.Get("X-Mine")+" "+string(body))
	})
	c := newClient(t, &egress.Options{Resolver: dns(map[string]string{"api.test": "127.0.0.1"})})
	resp, err := c.Fetch(t.Context(), &egress.Request{
		Tenant: "acme", Policy: local(t, port, "api.test"), Method: "PUT", URL: at("API.test.", port, "/a%2Fb?q=1#frag"),
		Headers: []egress.Header{{Name: "X-Mine", Value: "yes"}}, Body: []byte("hello"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := "PUT " + strings.TrimPrefix(at("api.test", port, " /a%2Fb?q=1"), "http://") + " yes hello"; string(resp.Body) != want {
		t.Errorf("the server saw %q, want %q", resp.Body, want)
	}
	if resp.Status != http.StatusTeapot || resp.URL != at("api.test", port, "/a%2Fb?q=1") || resp.Redirects != 0 || resp.Secrets {
		t.Errorf("response is %+v", resp)
	}
	if !slices.Contains(resp.Headers, egress.Header{Name: "x-two", Value: "a"}) || !slices.Contains(resp.Headers, egress.Header{Name: "x-two", Value: "b"}) {
		t.Errorf("headers are %v, want both of x-two", resp.Headers)
	}
}

func TestFetchRefusesWhatIsNotGranted(t *testing.T) {
	c := newClient(t, &egress.Options{Resolver: dns(nil)})
	p := policy(t, egress.Grants{HTTP: []egress.Rule{
		{Host: "api.test", Methods: []string{"GET"}}, {Scheme: "http", Host: "*.wild.test", Port: 8080}, {Host: "192.0.2.7"},
	}})
	for name, r := range map[string]*egress.Request{
		"another host":                  {URL: "https://other.test/"},
		"a host below an exact one":     {URL: "https://x.api.test/"},
		"a host that ends alike":        {URL: "https://xapi.test/"},
		"a host with the other as user": {URL: "https://api.test.evil.test/"},
		"another scheme":                {URL: "http://api.test:443/"},
		"another port":                  {URL: "https://api.test:444/"},
		"another method":                {URL: "https://api.test/", Method: "POST"},
		"a wildcard's own domain":       {URL: "http://wild.test:8080/"},
		"a wildcard on another port":    {URL: "http://a.wild.test/"},
		"another address":               {URL: "https://192.0.2.8/"},
	} {
		r.Policy = p
		_, err := c.Fetch(t.Context(), r)
		if fault.CodeOf(err) != fault.PermissionDenied || !strings.Contains(err.Error(), `grant http="`) {
			t.Errorf("%s: %v, want permission_denied with what to grant", name, err)
		}
	}
	_, err := c.Fetch(t.Context(), &egress.Request{URL: "https://api.test/"})
	wantError(t, err, fault.PermissionDenied, `grant http="GET https://api.test:443"`)
}

// Every way to write an address of this machine ends before a connection.
func TestFetchRefusesAddresses(t *testing.T) {
	port := serve(t, func(w http.ResponseWriter, _ *http.Request) { t.Error("the server was reached") })
	texts := map[string]bool{}
	for _, addr := range []string{
		"127.0.0.1", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::", "10.0.0.1", "169.254.169.254", "100.64.0.1", "fd00:ec2::254",
		"64:ff9b::7f00:1", "64:ff9b:1::7f00:1", "2002:7f00:1::1", "::127.0.0.1", "224.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1",
		"fe80::1%lo", "fe80::1",
	} {
		c := newClient(t, &egress.Options{Resolver: dns(map[string]string{"name.test": addr})})
		p := policy(t, egress.Grants{HTTP: []egress.Rule{{Scheme: "http", Host: "*", Port: port}, {Scheme: "http", Host: "127.0.0.1", Port: port}}})
		_, err := c.Fetch(t.Context(), &egress.Request{Policy: p, URL: at("name.test", port, "/")})
		wantError(t, err, fault.PermissionDenied, "name.test", "not granted")
		var detail *egress.AddressError
		if !errors.As(err, &detail) || detail.Addr != netip.MustParseAddr(addr).Unmap().WithZone("") || strings.Contains(err.Error(), addr+" ") {
			t.Errorf("%s: the error's detail is %+v, its text %q; want the address in the one and not in the other", addr, detail, err)
		}
		if texts[err.Error()] = true; len(texts) > 1 {
			t.Errorf("%s: the text tells addresses apart: %q", addr, err)
		}
		if _, err := c.Fetch(t.Context(), &egress.Request{Policy: p, URL: at("127.0.0.1", port, "/")}); fault.CodeOf(err) != fault.PermissionDenied {
			t.Errorf("an address in the URL, granted by name and not as an address: %v", err)
		}
	}
}

func TestFetchRefusesSpellings(t *testing.T) {
	dns := dns(nil)
	c := newClient(t, &egress.Options{Resolver: dns})
	p := policy(t, egress.Grants{HTTP: []egress.Rule{{Scheme: "http", Host: "*"}, {Host: "*"}}})
	for _, u := range []string{
		"http://2130706433/", "http://0x7f000001/", "http://017700000001/", "http://127.1/", "http://0177.0.0.1/", "http://127.0.0.0x1/",
		"http://127.0.0.01/", "http://127.0.0.1.5/", "http://1.2.3/", "http://0/", "http://0x/", "http://a.0x7f/",
		"http://[::1%25lo]/", "http://[::1%lo]/", "http://[127.0.0.1]/", "http://[::1/", "http://::1/", "http://[]/",
		"http://exämple.test/", "http://ex%C3%A4mple.test/", "http://%6c%6fcalhost/", "http://lo\u200bcalhost/", "http://１２７.0.0.1/", "http://127。0。0。1/",
		"http://a..test/", "http://.test/", "http://test../", "http://-a.test/", "http://a-.test/", "http://a b.test/", "http://a_b!.test/",
		"http://user@a.test/", "http://user:pw@a.test/", "http://@a.test/", "http://a.test\\@b.test/", "http://a.test:80:80/", "http://a.test:/",
		"http://a.test:0/", "http://a.test:65536/", "http://a.test:-1/", "http://a.test:http/", "http:///x", "http:a.test", "//a.test/", "a.test",
		"file:///etc/passwd", "gopher://a.test/", "ftp://a.test/", "unix:///x", "javascript:1", "", "http://", "http://a.test/\r\nX: y", "http://a.test/ x",
		"http://a.test/\x00", "http://a.test/%zz", "http://" + strings.Repeat("a", 64) + ".test/", "http://" + strings.Repeat("a.", 127) + "a/",
		"http://a.test/" + strings.Repeat("x", 9000),
	} {
		if _, err := c.Fetch(t.Context(), &egress.Request{Policy: p, URL: u}); fault.CodeOf(err) != fault.InvalidArgument {
			t.Errorf("%.80q: %v, want invalid_argument", u, err)
		}
	}
	if n := dns.lookups(); n != 0 {
		t.Errorf("%d of these were looked up", n)
	}
}

// A name that answers differently each time it is asked gains nothing: what is
// dialed is what was checked.
func TestRebinding(t *testing.T) {
	reached := 0
	port := serve(t, func(http.ResponseWriter, *http.Request) { reached++ })
	granted, private := netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.1") // nobody listens at the first
	d := &fakeDNS{names: map[string][][]netip.Addr{"rebind.test": {{granted}, {private}, {granted, private}, {private}}}}
	c := newClient(t, &egress.Options{Resolver: d})
	p := policy(t, egress.Grants{HTTP: []egress.Rule{{Scheme: "http", Host: "rebind.test", Port: port,
		Addresses: []netip.Prefix{netip.PrefixFrom(granted, 32)}}}})
	for i := range 4 {
		_, err := c.Fetch(t.Context(), &egress.Request{Policy: p, URL: at("rebind.test", port, "/")})
		if err == nil {
			t.Errorf("answer %d: a response", i)
		}
		if i%2 == 1 && fault.CodeOf(err) != fault.PermissionDenied {
			t.Errorf("answer %d: %v, want permission_denied", i, err)
		}
	}
	if reached != 0 {
		t.Errorf("the server on this machine was reached %d times", reached)
	}
}

// The environment's proxy would be asked for every address.
func TestNoProxyFromTheEnvironment(t *testing.T) {
	proxy := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the proxy was asked") })
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, at("127.0.0.1", proxy, ""))
	}
	port := serve(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "direct") })
	c := newClient(t, &egress.Options{Resolver: dns(map[string]string{"api.test": "127.0.0.1"})})
	resp, err := c.Fetch(t.Context(), &egress.Request{Policy: local(t, port, "api.test"), URL: at("api.test", port, "/")})
	if err != nil || string(resp.Body) != "direct" {
		t.Fatalf("Fetch = %v, %v", resp, err)
	}
}

func TestCertificatesAreVerified(t *testing.T) {
	port, roots := serveTLS(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) })
	d := dns(map[string]string{"example.com": "127.0.0.1", "wrong.test": "127.0.0.1"})
	p := policy(t, egress.Grants{HTTP: []egress.Rule{
		{Host: "example.com", Port: port, Addresses: []netip.Prefix{loopback4}},
		{Host: "wrong.test", Port: port, Addresses: []netip.Prefix{loopback4}},
	}})
	get := func(o *egress.Options, name string) (*egress.Response, error) {
		o.Resolver = d
		return newClient(t, o).Fetch(t.Context(), &egress.Request{Policy: p, URL: strings.Replace(at(name, port, "/"), "http:", "https:", 1)})
	}
	resp, err := get(&egress.Options{RootCAs: roots}, "example.com")
	if err != nil || string(resp.Body) != "HTTP/2.0" {
		t.Errorf("with the authority: %v, %v; want HTTP/2.0", resp, err)
	}
	_, err = get(&egress.Options{}, "example.com")
	wantError(t, err, fault.Unavailable, "unknown authority")
	_, err = get(&egress.Options{RootCAs: roots}, "wrong.test")
	wantError(t, err, fault.Unavailable, "another name")
}

func TestHeadersOfTheHost(t *testing.T) {
	var got http.Header
	port := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("Keep-Alive", "timeout=5")
	})
	c := newClient(t, &egress.Options{Resolver: dns(map[string]string{"api.test": "127.0.0.1"})})
	fetch := func(headers ...egress.Header) (*egress.Response, error) {
		return c.Fetch(t.Context(), &egress.Request{Policy: local(t, port, "api.test"), URL: at("api.test", port, "/"), Headers: headers})
	}
	for _, name := range []string{"Host", "content-length", "Transfer-Encoding", "TE", "Connection", "Keep-Alive", "Upgrade", "Trailer", "Expect",
		"Proxy-Authorization", "proxy-connection", "X-Forwarded-For", "Forwarded", "X-HTTP-Method-Override", "HTTP2-Settings", "Via",
		"", "a b", "a:b", "a\r\nb", ":path", "ä", "a\x00"} {
		_, err := fetch(egress.Header{Name: name, Value: "1"})
		if fault.CodeOf(err) != fault.InvalidArgument {
			t.Errorf("header %q: %v, want invalid_argument", name, err)
		}
	}
	for _, value := range []string{"a\r\nX-Injected: 1", "a\nb", "a\rb", "a\x00b", "a\x7f"} {
		_, err := fetch(egress.Header{Name: "X", Value: value})
		if fault.CodeOf(err) != fault.InvalidArgument {
			t.Errorf("value %q: %v, want invalid_argument", value, err)
		}
	}
	many := slices.Repeat([]egress.Header{{Name: "X", Value: "1"}}, 101)
	_, err := fetch(many...)
	wantError(t, err, fault.ResourceExhausted, "101 headers")
	_, err = fetch(egress.Header{Name: "X", Value: strings.Repeat("x", egress.DefaultHeaderBytes)})
	wantError(t, err, fault.ResourceExhausted, "HeaderBytes")

	resp, err := fetch(egress.Header{Name: "accept-encoding", Value: "br"}, egress.Header{Name: "user-agent", Value: "mine"}, egress.Header{Name: "Accept", Value: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if got.Get("Accept-Encoding") != "gzip" || got.Get("User-Agent") != "mine" || got.Get("Accept") != "x" || len(got) != 3 {
		t.Errorf("the server saw %v", got)
	}
	if header(resp, "set-cookie") != "a=b" || header(resp, "keep-alive") != "" {
		t.Errorf("the response has %v", resp.Headers)
	}
	if _, err := fetch(); err != nil || got.Get("Cookie") != "" || got.Get("User-Agent") != "agenthost" {
		t.Errorf("second request: %v, the server saw %v; want no cookie", err, got)
	}
}

func TestMethods(t *testing.T) {
	c := newClient(t, &egress.Options{Resolver: dns(nil)})
	p := policy(t, egress.Grants{HTTP: []egress.Rule{{Host: "api.test"}}})
	for _, m := range []string{"CONNECT", "TRACE", "get", "G ET", "GET\r\n", "GÉT", strings.Repeat("A", 21)} {
		if _, err := c.Fetch(t.Context(), &egress.Request{Policy: p, Method: m, URL: "https://api.test/"}); fault.CodeOf(err) != fault.InvalidArgument {
			t.Errorf("method %q: %v, want invalid_argument", m, err)
		}
	}
}

func TestClosedClient(t *testing.T) {
	c := egress.New(nil)
	c.Close()
	c.Close()
	_, err := c.Fetch(context.Background(), &egress.Request{URL: "https://api.test/"})
	wantError(t, err, fault.FailedPrecondition, "closed")
}

func TestUnreachableServers(t *testing.T) {
	port := serveRaw(t, func(c net.Conn) { io.WriteString(c, "SSH-2.0-x\r\n") })
	c := newClient(t, &egress.Options{Resolver: dns(map[string]string{"api.test": "127.0.0.1", "none.test": "127.0.0.1"})})
	get := func(name string, port int) error {
		_, err := c.Fetch(t.Context(), &egress.Request{Policy: local(t, port, "api.test", "gone.test"), URL: at(name, port, "/")})
		return err
	}
	wantError(t, get("gone.test", 80), fault.Unavailable, "gone.test is not known")
	wantError(t, get("api.test", 1), fault.Unavailable, "connection refused")
	wantError(t, get("api.test", port), fault.Unavailable, "not HTTP")
	if err := get("api.test", 1); strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("%q tells a guest what a name resolves to", err)
	}
}

package egress_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/agenthost/agenthost/host/egress"
	"github.com/agenthost/agenthost/host/fault"
)

var (
	loopback4 = netip.MustParsePrefix("127.0.0.0/8")
)

// fakeDNS answers from a table; a name with several rows gives them in turn, the
// last one for ever.
type fakeDNS struct {
	mu    sync.Mutex
	names map[string][][]netip.Addr
	asked []string
}

func (d *fakeDNS) LookupNetIP(_ context.Context, _, name string) ([]netip.Addr, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, name)
	name = strings.TrimSuffix(name, ".")
	answers, ok := d.names[name]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	if len(answers) > 1 {
		d.names[name] = answers[1:]
	}
	return answers[0], nil
}

func (d *fakeDNS) lookups() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.asked)
}

func dns(rows map[string]string) *fakeDNS {
	d := &fakeDNS{names: map[string][][]netip.Addr{}}
	for name, addrs := range rows {
		var list []netip.Addr
		for a := range strings.SplitSeq(addrs, " ") {
			list = append(list, netip.MustParseAddr(a))
		}
		d.names[name] = [][]netip.Addr{list}
	}
	return d
}

// serve starts a server on this machine and returns its port.
func serve(t testing.TB, handler http.HandlerFunc) int {
	t.Helper()
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	return portOf(t, srv.URL)
}

// serveTLS does the same with HTTP/2 and a certificate for example.com and its
// like; the pool trusts it.
func serveTLS(t testing.TB, handler http.HandlerFunc) (int, *x509.CertPool) {
	t.Helper()
	srv := httptest.NewUnstartedServer(handler)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	pool := x509.NewCertPool()
	pool.AddCert(srv.Certificate())
	return portOf(t, srv.URL), pool
}

func portOf(t testing.TB, raw string) int {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// serveRaw answers every connection with those bytes, and then holds it open
// until the client is gone.
func serveRaw(t testing.TB, answer func(net.Conn)) int {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				buf := make([]byte, 4096)
				if _, err := conn.Read(buf); err != nil {
					return
				}
				answer(conn)
				for {
					if _, err := conn.Read(buf); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return l.Addr().(*net.TCPAddr).Port
}

func newClient(t testing.TB, o *egress.Options) *egress.Client {
	t.Helper()
	c := egress.New(o)
	t.Cleanup(func() { c.Close() })
	return c
}

func policy(t testing.TB, g egress.Grants) *egress.Policy {
	t.Helper()
	p, err := egress.NewPolicy(&g)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// local allows every method to hosts that lie on this machine.
func local(t testing.TB, port int, hosts ...string) *egress.Policy {
	t.Helper()
	return policy(t, egress.Grants{HTTP: localRules(port, hosts...)})
}

func localRules(port int, hosts ...string) []egress.Rule {
	var rules []egress.Rule
	for _, h := range hosts {
		rules = append(rules, egress.Rule{Scheme: "http", Host: h, Port: port, Addresses: []netip.Prefix{loopback4}})
	}
	return rules
}

func at(name string, port int, path string) string {
	return fmt.Sprintf("http://%s:%d%s", name, port, path)
}

// wantError fails unless err has that code and says all of that.
func wantError(t testing.TB, err error, code fault.Code, says ...string) {
	t.Helper()
	if fault.CodeOf(err) != code {
		t.Fatalf("error is %q: %v, want code %q", fault.CodeOf(err), err, code)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("error %q does not say %q", err, s)
		}
	}
}

func header(r *egress.Response, name string) string {
	for _, h := range r.Headers {
		if h.Name == name {
			return h.Value
		}
	}
	return ""
}

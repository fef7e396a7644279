package egress

// This file tests from inside what cannot be reached from outside: the dialer
// alone, with every address that a fuzzer makes up.

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/fault"
)

func nobodys(netip.Addr) bool { return false }

func prefixes(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func TestPermitted(t *testing.T) {
	for _, row := range []struct {
		addr    string
		granted []netip.Prefix
		want    bool
	}{
		{"8.8.8.8", nil, true}, {"127.0.0.1", nil, false}, {"127.0.0.1", prefixes("127.0.0.0/8"), true}, {"::ffff:127.0.0.1", prefixes("127.0.0.1/32"), true},
		{"127.0.0.1", prefixes("10.0.0.0/8", "::/0"), false}, {"10.9.9.9", prefixes("10.0.0.0/16"), false}, {"fe80::1%eth0", prefixes("fe80::/10"), true},
		// Metadata services are granted one by one.
		{"169.254.169.254", prefixes("0.0.0.0/0"), false}, {"169.254.169.254", prefixes("169.254.169.254/31"), false},
		{"169.254.169.254", prefixes("169.254.169.254/32"), true}, {"fd00:ec2::254", prefixes("fd00::/8"), false}, {"fd00:ec2::254", prefixes("fd00:ec2::254/128"), true},
		// What carries an address is granted with what it carries.
		{"64:ff9b::808:808", nil, false}, {"64:ff9b::808:808", prefixes("64:ff9b::/96"), true}, {"64:ff9b::7f00:1", prefixes("64:ff9b::/96"), false},
		{"64:ff9b::7f00:1", prefixes("64:ff9b::/96", "127.0.0.0/8"), true}, {"64:ff9b::a9fe:a9fe", prefixes("64:ff9b::/96", "0.0.0.0/0"), false},
		{"64:ff9b:1:7f00:0:100::", prefixes("64:ff9b:1::/48"), false}, {"64:ff9b:1:808:8:800::", prefixes("64:ff9b:1::/48"), true},
		{"2002:7f00:1::", prefixes("2002::/16"), false}, {"2002:808:808::", prefixes("2002::/16"), true},
		{"2001:0:1::80ff:fffe", prefixes("2001::/32"), false}, // 127.0.0.1, inverted
	} {
		if _, got := permitted(netip.MustParseAddr(row.addr), row.granted, nobodys); got != row.want {
			t.Errorf("permitted(%s, %v) = %t, want %t", row.addr, row.granted, got, row.want)
		}
	}
}

func TestThisMachinesPublicAddressesAreNotPublic(t *testing.T) {
	own := func(a netip.Addr) bool { return a == netip.MustParseAddr("8.8.4.4") }
	if kind, ok := permitted(netip.MustParseAddr("::ffff:8.8.4.4"), nil, own); ok || kind != Own {
		t.Errorf("permitted = %s, %t; want it refused as this machine's", kind, ok)
	}
	if _, ok := permitted(netip.MustParseAddr("8.8.4.4"), prefixes("8.8.4.4/32"), own); !ok {
		t.Error("it is refused though it is granted")
	}
	if !ownAddress(netip.MustParseAddr("127.0.0.1")) || ownAddress(netip.MustParseAddr("192.0.2.77")) {
		t.Error("ownAddress does not tell this machine's addresses from others")
	}
}

// The second check is of the address that connect is called with, whatever the
// first one was told.
func TestControlChecksTheAddressThatIsDialed(t *testing.T) {
	d := &dialer{own: nobodys}
	for address, want := range map[string]fault.Code{
		"127.0.0.1:80": fault.PermissionDenied, "[::1]:80": fault.PermissionDenied, "[::ffff:10.0.0.1]:80": fault.PermissionDenied,
		"[fe80::1%lo]:80": fault.PermissionDenied, "name:80": fault.PermissionDenied, "": fault.PermissionDenied, "8.8.8.8:80": "",
	} {
		if err := d.control("tcp4", address, "a.test"); fault.CodeOf(err) != want {
			t.Errorf("control of %q = %v, want %q", address, err, want)
		}
	}
	if err := d.control("udp4", "8.8.8.8:80", "a.test"); fault.CodeOf(err) != fault.PermissionDenied {
		t.Errorf("udp: %v", err)
	}
	_, err := d.dialOne(context.Background(), "127.0.0.1:9", "a.test")
	var denied *AddressError
	if !errors.As(err, &denied) {
		t.Errorf("dialing past the first check: %v, want it denied by the second", err)
	}
}

// FuzzTarget holds what would be sent and dialed for a URL to the rule that let
// it pass: net/http must see the same server as the policy did.
func FuzzTarget(f *testing.F) {
	for _, s := range []string{
		"https://api.example.com/", "HTTPS://API.example.com.:443/a?b#c", "http://127.0.0.1:80/", "http://[::ffff:7f00:1]/", "http://2130706433/",
		"http://api.example.com:80@evil.test/", "http://api.example.com#@evil.test/", "http://api.example.com\\@evil.test/", "http://a%2ecom/",
		"https://evil.test/?api.example.com", "https://xn--a/", "//api.example.com", "http:api.example.com", "https://api.example.com:0443/%2f..//",
	} {
		f.Add(s, "GET")
	}
	rules := []Rule{{Host: "api.example.com"}, {Scheme: "http", Host: "*.example.org", Port: 8080, Methods: []string{"GET"}}, {Scheme: "http", Host: "192.0.2.1"}}
	p, err := NewPolicy(&Grants{HTTP: rules})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw, method string) {
		tg, err := parseTarget(raw)
		if err != nil {
			if fault.CodeOf(err) != fault.InvalidArgument {
				t.Fatalf("parseTarget(%q) = %v", raw, err)
			}
			return
		}
		again, err := parseTarget(tg.url.String())
		if err != nil || *again.url != *tg.url || !again.sameOrigin(tg) {
			t.Fatalf("%q is written %q, which is read as %v, %v", raw, tg.url, again, err)
		}
		if checkMethod(method) != nil {
			return
		}
		if _, err := p.allow(tg, method); err != nil {
			return
		}
		dialed, sent := whatNetHTTPDoes(t, tg.url, method)
		name, port, err := net.SplitHostPort(dialed)
		if err != nil {
			t.Fatalf("net/http dials %q for %q", dialed, raw)
		}
		ok := slices.ContainsFunc([]bool{
			tg.scheme == "https" && name == "api.example.com" && port == "443",
			tg.scheme == "http" && strings.HasSuffix(name, ".example.org") && port == "8080" && method == "GET",
			tg.scheme == "http" && name == "192.0.2.1" && port == "80",
		}, func(b bool) bool { return b })
		if !ok || sent != "" && sent != name && !strings.HasPrefix(sent, name+":") {
			t.Fatalf("%s %q passes the rules; net/http dials %q and names the host %q", method, raw, dialed, sent)
		}
	})
}

// whatNetHTTPDoes returns the address that net/http's transport dials for a URL,
// and the Host header it would send.
func whatNetHTTPDoes(t *testing.T, u *url.URL, method string) (dialed, sent string) {
	t.Helper()
	tr := &http.Transport{DialContext: func(_ context.Context, _, address string) (net.Conn, error) {
		dialed = address
		return nil, net.ErrClosed
	}}
	req := &http.Request{Method: method, URL: u, Host: u.Host, Header: http.Header{}}
	if resp, err := tr.RoundTrip(req); err == nil {
		resp.Body.Close()
	}
	return dialed, req.Host
}

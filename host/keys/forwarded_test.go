package keys_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/keys"
)

func TestForwardedAddressesAreBelievedOfProxiesAlone(t *testing.T) {
	address := keys.ForwardedFor(netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::/8"))
	for name, c := range map[string]struct {
		connection string
		headers    []string
		want       string
	}{
		"a proxy":                        {"127.0.0.1:1000", []string{"192.0.2.7"}, "192.0.2.7"},
		"a proxy behind a proxy":         {"127.0.0.1:1000", []string{"192.0.2.7, 10.1.2.3"}, "192.0.2.7"},
		"proxies in two headers":         {"127.0.0.1:1000", []string{"192.0.2.7", "10.1.2.3"}, "192.0.2.7"},
		"a header of the sender's":       {"127.0.0.1:1000", []string{"10.1.9.9, 198.51.100.1, 192.0.2.7"}, "192.0.2.7"},
		"a header past a proxy":          {"127.0.0.1:1000", []string{"203.0.113.5, 192.0.2.7, 10.1.2.3"}, "192.0.2.7"},
		"no proxy":                       {"192.0.2.9:1000", []string{"198.51.100.1"}, "192.0.2.9"},
		"no proxy with a proxy's header": {"192.0.2.9:1000", []string{"127.0.0.1, 10.1.2.3"}, "192.0.2.9"},
		"no header":                      {"127.0.0.1:1000", nil, "127.0.0.1"},
		"a header of nothing":            {"127.0.0.1:1000", []string{""}, "127.0.0.1"},
		"no address":                     {"127.0.0.1:1000", []string{"192.0.2.7, unknown"}, "127.0.0.1"},
		"an empty element":               {"127.0.0.1:1000", []string{"192.0.2.7,"}, "127.0.0.1"},
		"a port":                         {"127.0.0.1:1000", []string{"192.0.2.7:4711"}, "192.0.2.7"},
		"version 6":                      {"[fd00::1]:1000", []string{"[2001:db8::7]:4711"}, "2001:db8::7"},
		"version 6 in brackets":          {"[fd00::1]:1000", []string{"[2001:db8::7]"}, "2001:db8::7"},
		"version 4 as 6":                 {"[::ffff:127.0.0.1]:1000", []string{"::ffff:192.0.2.7"}, "192.0.2.7"},
		"proxies alone":                  {"127.0.0.1:1000", []string{"10.1.2.3"}, "10.1.2.3"},
		"a chain without end":            {"127.0.0.1:1000", []string{"192.0.2.7" + strings.Repeat(", 10.1.2.3", 1000)}, "10.1.2.3"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr, r.Header["X-Forwarded-For"] = c.connection, c.headers
		if got := address(r); got.String() != c.want {
			t.Errorf("%s: the sender is %s, want %s", name, got, c.want)
		}
	}
}

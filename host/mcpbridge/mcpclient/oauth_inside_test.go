package mcpclient

// Inside the package: the addresses that discovery may dial cannot all be listened at.

import (
	"slices"
	"testing"

	"github.com/agenthost/agenthost/host/fault"
)

func TestDiscoveryDialsNoAddressInsideThatNoPersonHasNamed(t *testing.T) {
	for _, row := range []struct {
		server, issuer, address string
		want                    bool
	}{
		{"https://mcp.example.com/mcp", "", "93.184.216.34:443", true},
		{"https://mcp.example.com/mcp", "", "127.0.0.1:8500", false},
		{"https://mcp.example.com/mcp", "", "10.0.0.7:443", false},
		{"https://mcp.example.com/mcp", "", "169.254.169.254:80", false},
		{"https://mcp.example.com/mcp", "", "[::ffff:10.0.0.7]:443", false},
		{"http://127.0.0.1:9000/mcp", "", "127.0.0.1:9001", true},
		{"http://localhost:9000/mcp", "", "[::1]:9001", true},
		{"http://127.0.0.1:9000/mcp", "", "10.0.0.7:443", false},
		{"http://127.0.0.1:9000/mcp", "", "169.254.169.254:80", false},
		{"http://10.0.0.5/mcp", "", "10.0.0.7:443", true},
		{"http://10.0.0.5/mcp", "", "127.0.0.1:443", false},
		{"http://169.254.169.254/mcp", "", "169.254.169.253:80", false},
	} {
		r := (&OAuth{Issuer: row.issuer}).reach(&Server{URL: row.server})
		if err := r.control("tcp", row.address, nil); (err == nil) != row.want || err != nil && fault.CodeOf(err) != fault.PermissionDenied {
			t.Errorf("%s names an authorization server at %s: %v, want it dialed: %t", row.server, row.address, err, row.want)
		}
	}
}

func TestDiscoveryReachesTheServerAndTheNamedIssuer(t *testing.T) {
	r := (&OAuth{Issuer: "https://login.corp.example"}).reach(&Server{URL: "http://mcp.corp.example:8080/mcp"})
	for _, want := range []string{"login.corp.example:443", "mcp.corp.example:8080"} {
		if !slices.Contains(r.named, want) {
			t.Errorf("%s is not reached whatever its address: %q", want, r.named)
		}
	}
	if slices.Contains(r.named, "mcp.corp.example:8500") {
		t.Error("another port of the server is reached whatever its address")
	}
}

package host_test

import (
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
)

func TestTenantNamesAreValidated(t *testing.T) {
	for name, ok := range map[string]bool{
		"acme": true, "default": true, "ACME": true, "a/b": true, "..": true, "agenthost": true, "ü": true,
		strings.Repeat("x", host.MaxTenantBytes):   true,
		strings.Repeat("x", host.MaxTenantBytes+1): false,
		"": false, "a\x00b": false, "\xff": false, "agenthost/queue": false, "agenthost/": false,
	} {
		if err := host.ValidateTenant(name); (err == nil) != ok || err != nil && host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("ValidateTenant(%.20q) = %v, want valid: %v", name, err, ok)
		}
	}
}

func TestTenantPartitionsAreTheirOwn(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"acme", "ACME", "acme ", "default", "a/b", "a%2Fb", "\u00fc", "u\u0308"} {
		got, err := host.TenantPartition(name)
		if err != nil || seen[got] != "" {
			t.Errorf("TenantPartition(%q) = %q, %v; it is %q's as well", name, got, err, seen[got])
		}
		seen[got] = name
	}
	if got, err := host.TenantPartition(""); got != host.DefaultTenant || err != nil {
		t.Errorf("TenantPartition(\"\") = %q, %v; want %q", got, err, host.DefaultTenant)
	}
	if got, err := host.TenantPartition("agenthost/queue"); err == nil {
		t.Errorf("TenantPartition of the queue's index = %q, want an error", got)
	}
}

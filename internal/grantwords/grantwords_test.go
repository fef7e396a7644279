package grantwords

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host/plugin"
)

// What is printed of permissions, in whole or word by word, is a grant of them.
func TestPrintedPermissionsAreGrants(t *testing.T) {
	hosts := rapid.SampledFrom([]string{"api.example.com", "*.example.com", "127.0.0.1", "::1"})
	level := rapid.SampledFrom([]plugin.Access{"", plugin.Read, plugin.Write})
	rapid.Check(t, func(t *rapid.T) {
		asked := plugin.Permissions{
			State: level.Draw(t, "state"), KV: level.Draw(t, "kv"), Messages: rapid.Bool().Draw(t, "messages"), Model: rapid.Bool().Draw(t, "model"),
			Queue: rapid.Bool().Draw(t, "queue"), Clock: rapid.Bool().Draw(t, "clock"), Random: rapid.Bool().Draw(t, "random"),
		}
		for range rapid.IntRange(0, 3).Draw(t, "servers") {
			asked.HTTP = append(asked.HTTP, plugin.HTTPAccess{
				Scheme: rapid.SampledFrom([]string{"", "http", "https"}).Draw(t, "scheme"), Host: hosts.Draw(t, "host"),
				Port:      rapid.SampledFrom([]int{0, 443, 8443}).Draw(t, "port"),
				Methods:   rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"GET", "POST"}), 0, 2, rapid.ID).Draw(t, "methods"),
				Addresses: rapid.SampledFrom([][]netip.Prefix{nil, {netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("::1/128")}}).Draw(t, "addresses"),
			})
		}
		for range rapid.IntRange(0, 2).Draw(t, "secrets") {
			asked.Secrets = append(asked.Secrets, plugin.SecretAccess{Name: "KEY", Hosts: rapid.SliceOfN(rapid.SampledFrom([]string{
				"api.example.com", "api.example.com:8443", "http://127.0.0.1:8080", "https://*.example.com", "::1", "[::1]:8443", "http://[::1]",
			}), 1, 3).Draw(t, "hosts")})
		}
		asked.Operations = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"billing.charge", "billing.refund.all"}), 0, 2, rapid.ID).Draw(t, "operations")
		printed := Words(asked)
		whole, err := Parse([]string{strings.Join(printed, ", ")})
		if len(printed) == 0 {
			return
		}
		if err != nil {
			t.Fatalf("%q is no grant: %v", printed, err)
		}
		single, err := Parse(printed)
		if err != nil {
			t.Fatalf("%q are no grants: %v", printed, err)
		}
		if diff := cmp.Diff(single, whole, cmpopts.EquateEmpty(), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
			t.Fatalf("%q is another grant as a whole:\n%s", printed, diff)
		}
		if missing := asked.Missing(whole); len(missing) > 0 {
			t.Fatalf("granting %q leaves %q missing", printed, missing)
		}
		if diff := cmp.Diff(printed, Words(whole)); diff != "" {
			t.Fatalf("what is granted is printed otherwise:\n%s", diff)
		}
	})
}

func TestParseGrants(t *testing.T) {
	got, err := Parse([]string{"state=write", "kv=read", "messages", "clock", "http=example.com", "http=http://localhost:8080/"})
	want := plugin.Permissions{
		State: plugin.Write, KV: plugin.Read, Messages: true, Clock: true,
		HTTP: []plugin.HTTPAccess{{Scheme: "https", Host: "example.com"}, {Scheme: "http", Host: "localhost", Port: 8080}},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("parseGrants: %v (-want +got):\n%s", err, diff)
	}
	for _, grant := range []string{"", "state", "state=", "state=all", "messages=yes", "http", "http=", "http=ftp://x", "http=a b", "http=user@host", "http=host:99999999999", "secrets", "=read", "tools", "tools=", "tools=a b", "operation", "operation=", "operation=charge", "operation=Billing.charge"} {
		if p, err := Parse([]string{grant}); err == nil {
			t.Errorf("parseGrants(%q) = %+v, want an error", grant, p)
		}
	}
}

package plugin

// Scenario: two tenants load plugins under one id, and neither learns of the other's.

import (
	"context"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
)

// Two tenants may use one id, and neither learns of the other's plugin: not from an
// error, and not from metrics that sum tenants up.
func TestPluginsOfTenantsShareNoIDs(t *testing.T) {
	rt := startRuntime(t, nil)
	wasm := func(says string) []byte {
		return describing(t, everyKind, map[abi.Export]answer{abi.Tool: {`{"content":"` + says + `"}`, 0}})
	}
	open := func(owner, says string, tenants []string) (*Slot, error) {
		return rt.NewSlot(context.Background(), "crm", wasm(says), &SlotOptions{LoadOptions: LoadOptions{Owner: owner, Tenants: tenants}})
	}
	slots := map[string]*Slot{}
	for _, owner := range []string{"acme", "globex"} {
		s, err := open(owner, "of "+owner, nil)
		if err != nil {
			t.Fatalf("the plugin of %s: %v", owner, err)
		}
		slots[owner] = s
	}
	if rt.TenantSlot("acme", "crm") != slots["acme"] || rt.TenantSlot("globex", "crm") != slots["globex"] || rt.Slot("crm") != nil {
		t.Error("an id finds another's plugin")
	}
	for owner, s := range slots {
		for _, tenant := range []string{"acme", "globex", ""} {
			out, err := s.Call(t.Context(), tenant, "tool", []byte(`{}`), nil)
			switch {
			case tenant == owner && (err != nil || !strings.Contains(string(out.Output), "of "+owner)):
				t.Errorf("%s calls its own: %s, %v", tenant, out.Output, err)
			case tenant != owner && (host.CodeOf(err) != host.NotFound || strings.Contains(err.Error(), "crm") || strings.Contains(err.Error(), owner)):
				t.Errorf("%q calls that of %s: %v", tenant, owner, err)
			}
		}
	}
	for _, c := range []struct {
		owner   string
		tenants []string
		taken   bool
	}{
		{"acme", nil, true}, {"", nil, true}, {"", []string{"acme"}, true},
		{"initech", nil, false}, {"", []string{"hooli"}, false}, {"hooli", nil, true},
	} {
		if _, err := open(c.owner, "x", c.tenants); (host.CodeOf(err) == host.AlreadyExists) != c.taken || err != nil && !c.taken {
			t.Errorf("a plugin of %q for %q: %v, want already_exists: %t", c.owner, c.tenants, err, c.taken)
		}
	}
	sum := charged(rt.UsageReport().Sum(false, true, true))
	for _, name := range []string{"acme", "globex", "initech"} {
		if strings.Contains(sum, name) {
			t.Errorf("a sum over tenants names %s: %s", name, sum)
		}
	}
	if !strings.Contains(sum, TenantPlugins) {
		t.Errorf("a sum over tenants has no line of their plugins: %s", sum)
	}
	if each := charged(rt.UsageReport().Sum(true, true, true)); !strings.Contains(each, "globex crm") {
		t.Errorf("a sum by tenant: %s", each)
	}
}

// charged returns the names in a bill.
func charged(b *UsageReport) string {
	var names []string
	for _, c := range b.Items {
		names = append(names, c.Tenant+" "+c.Plugin)
	}
	return strings.Join(names, ", ")
}

// Of a plugin that a tenant alone has, sums over tenants do not say the id.
func TestSumsWithoutTenantsHaveNoIDsOfTenants(t *testing.T) {
	rt := startRuntime(t, nil)
	s, err := rt.NewSlot(context.Background(), "secret-project", describing(t, everyKind, map[abi.Export]answer{abi.Tool: {`{"content":1}`, 0}}),
		&SlotOptions{LoadOptions: LoadOptions{Owner: "acme"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Call(t.Context(), "acme", "tool", []byte(`{}`), nil); err != nil {
		t.Fatal(err)
	}
	if sum := charged(rt.UsageReport().Sum(false, true, true)); strings.Contains(sum, "secret-project") || strings.Contains(sum, "acme") {
		t.Error(sum)
	}
}

// What was taken from a tenant that is deleted does not come back as what any
// tenant has.
func TestATenantThatIsDeletedHasNothing(t *testing.T) {
	rt := startRuntime(t, &Options{AnyTenant: &Tenant{Grants: map[string]Permissions{"p": {State: Write}}}})
	p, err := rt.Load(context.Background(), "p", describing(t, everyKind, map[abi.Export]answer{abi.Tool: {`{"content":1}`, 0}}), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := rt.SetTenant("acme", &Tenant{Plugins: []string{"other"}}); err != nil {
		t.Fatal(err)
	}
	if err := rt.SetTenant("acme", nil); err != nil {
		t.Fatal(err)
	}
	if p.Serves("acme") || p.GrantedTo("acme").State != "" {
		t.Error("a tenant that was deleted has what it had not before")
	}
	if err := rt.ResetTenant("acme"); err != nil || !p.Serves("acme") {
		t.Errorf("a tenant that was reset is not like any other: %v", err)
	}
}

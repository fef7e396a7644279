package cluster_test

import (
	"testing"

	"github.com/agenthost/agenthost/host/cluster"
	"github.com/agenthost/agenthost/internal/testdriver"
)

func TestOwnersAreForgottenOfATenantOrOneByOne(t *testing.T) {
	driver := testdriver.New(t)
	runs, turns := cluster.NewOwners(driver, "runs"), cluster.NewOwners(driver, "turns")
	for _, add := range []struct {
		owners        *cluster.Owners
		owner, tenant string
	}{{runs, "a", "acme"}, {runs, "b", "acme"}, {runs, "b", "umbrella"}, {turns, "a", "acme"}} {
		if err := add.owners.Add(t.Context(), add.owner, add.tenant); err != nil {
			t.Fatal(err)
		}
	}
	wants := func(o *cluster.Owners, want ...string) []cluster.Owned {
		t.Helper()
		all, err := o.All(t.Context())
		if err != nil || len(all) != len(want) {
			t.Fatalf("All = %v, %v; want %q", all, err, want)
		}
		for i, e := range all {
			if got := e.Owner + " " + e.Tenant; got != want[i] {
				t.Errorf("entry %d is %q, want %q", i, got, want[i])
			}
		}
		return all
	}
	all := wants(runs, "a acme", "b acme", "b umbrella")
	wants(turns, "a acme")
	if err := runs.Add(t.Context(), "b", "umbrella"); err != nil { // since it was read
		t.Fatal(err)
	}
	runs.Forget(t.Context(), all[0])
	runs.Forget(t.Context(), all[2])
	wants(runs, "b acme", "b umbrella")
	if n, err := cluster.CountTenant(t.Context(), driver, "acme"); n != 2 || err != nil {
		t.Errorf("CountTenant = %d, %v; want 2 of both kinds", n, err)
	}
	if err := cluster.EraseTenant(t.Context(), driver, "acme"); err != nil {
		t.Fatal(err)
	}
	wants(runs, "b umbrella")
	wants(turns)
}

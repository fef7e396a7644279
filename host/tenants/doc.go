// Package tenants keeps the customers of a host: a record for each, with the plan that
// says what the tenant may use.
//
//	store, err := tenants.Open(ctx, driver, &tenants.Options{Ledger: ledger, Plugins: rt, Runs: registry})
//	defer store.Close()
//	t, err := store.Create(ctx, "acme", &tenants.Spec{Plan: tenants.Plan{
//		Usage: usage.Plan{Limits: []usage.Limit{{Resource: usage.Money, Amount: usage.Units(50), Window: usage.CalendarMonth}}},
//	}})
//	_, err = store.Change(ctx, "acme", func(t *tenants.Tenant) error { t.Plan.Models = []string{"small"}; return nil })
//	_, err = store.Suspend(ctx, "acme", "the invoice of March is open")
//
// # Plans
//
// A [Plan] is the one place for what a tenant may use: networks and models, plugins and
// their grants, budgets, the limits of runs and of the sandbox, and how long threads are
// kept. [Plan.Sandbox], the ledger's plan and [Store.Limits] are made from it, here and
// nowhere else.
//
// A change applies at once on this host and within a second on all others. A run that has
// begun continues, with the limits of runs that it began with; its next model call and
// sandbox call are under the new budgets, models and grants.
//
// # Wiring
//
// Options.Ledger and Options.Plugins are given each tenant's settings. The host is given
// [Store.Guard] of its ledger, which refuses the runs of tenants that are not active and
// models that the plan leaves out, and [Store.Limits]. A server asks [Store.Admit] when it
// verifies a credential and [Store.Allows] before it starts a target. Tenants without a
// record are refused, or with Options.Unregistered admitted as the host is configured.
//
// # Suspending and deleting
//
// A suspended tenant begins no run, and its live runs are canceled. Deleting is
// [Store.Delete] with the deletion of package host/erasure, of which the Store is a part:
// its status is Deleting until all data has gone, across restarts, and
// [Store.ResumeDeletions] completes it. erasure.Tenants.Prove is the proof.
//
// # Records
//
// Records are in a partition that is no tenant's; all of them, at most [MaxTenants], are in
// memory on each host. Rows of the program's own, about tenants or not, have partitions and
// keys that no other package uses: see kv.OwnPartition and kv.OwnKey.
package tenants

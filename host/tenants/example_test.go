package tenants_test

import (
	"context"
	"fmt"
	"log"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/tenants"
	"github.com/agenthost/agenthost/host/usage"
)

func Example() {
	ctx := context.Background()
	driver := kv.NewMemory() // a store of a database, in a server
	ledger, err := usage.New(driver, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = ledger.Close(ctx) }()
	store, err := tenants.Open(ctx, driver, &tenants.Options{Ledger: ledger})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()

	_, err = store.Create(ctx, "acme", &tenants.Spec{Name: "Acme Corp.", Plan: tenants.Plan{
		Targets: []string{"support"},
		Usage:   usage.Plan{Limits: []usage.Limit{{Resource: usage.Tokens, Amount: 1_000_000, Window: usage.CalendarDay}}},
	}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(store.Allows("acme", "support"), store.Allows("acme", "billing"))
	if _, err := store.Suspend(ctx, "acme", "the invoice of March is open"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(store.Admit("acme"))
	// Output:
	// true false
	// the tenant is not active; ask the operator of this service
}

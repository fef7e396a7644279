package audit_test

import (
	"context"
	"fmt"
	"log"

	"github.com/agenthost/agenthost/host/audit"
	"github.com/agenthost/agenthost/host/kv"
)

func Example() {
	ctx := context.Background()
	trail := audit.New(kv.NewMemory()) // a store of a database, in a server
	for _, e := range []*audit.Entry{
		{Actor: "key/abcd2345", Action: "tenant.create", Tenant: "acme", Outcome: "allowed"},
		{Actor: "key/abcd2345", Action: "plugin.grant", Tenant: "acme", Object: "plugin/search", Outcome: "denied"},
	} {
		if _, err := trail.Append(ctx, e); err != nil {
			log.Fatal(err)
		}
	}
	page, err := trail.List(ctx, &audit.Filter{Tenant: "acme"})
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range page.Entries {
		fmt.Println(e.Seq, e.Actor, e.Action, e.Outcome)
	}
	head, err := trail.Verify(ctx)
	fmt.Println(head.Seq, err)
	// Output:
	// 2 key/abcd2345 plugin.grant denied
	// 1 key/abcd2345 tenant.create allowed
	// 2 <nil>
}

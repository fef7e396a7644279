package postgreshistory_test

import (
	"context"
	"log"

	"github.com/agenthost/agenthost/examples/postgreshistory"
	"github.com/agenthost/agenthost/host"
)

// Every run of the host is kept in the database.
func Example() {
	ctx := context.Background()
	store, err := postgreshistory.Open(ctx, "postgres://app@db.internal/app?pool_max_conns=20", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	history, err := host.NewHistory(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	h, err := host.New(&host.Options{SingleTenant: true, History: history})
	if err != nil {
		log.Fatal(err)
	}
	_ = h
}

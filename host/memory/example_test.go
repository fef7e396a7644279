package memory_test

import (
	"context"
	"fmt"
	"log"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/memory"
)

func Example() {
	ctx := context.Background()
	driver := kv.NewMemory() // or badgerkv.Open(dir, nil)
	defer driver.Close()
	store, err := memory.New(driver, nil)
	if err != nil {
		log.Fatal(err)
	}
	ada := memory.Scope{Tenant: "acme", User: "ada"}
	for _, text := range []string{"Ada is allergic to nuts.", "Ada likes long walks."} {
		if _, err := store.Add(ctx, ada, text, nil); err != nil {
			log.Fatal(err)
		}
	}
	hits, err := store.Search(ctx, ada, "does she like walking?", nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, h := range hits {
		fmt.Println(h.Text)
	}
	// Output: Ada likes long walks.
}

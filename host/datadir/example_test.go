package datadir_test

import (
	"context"
	"fmt"
	"log"

	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/threads"
)

// A store in memory; with a path instead of "" it is on disk, and encrypted if a key
// is set.
func Example() {
	data, err := datadir.Open(context.Background(), "", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer data.Close()
	page, err := threads.New(data.Driver, nil).For("acme").List(context.Background(), nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(page.Threads), "threads")
	// Output: 0 threads
}

package badgerkv_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
)

// What was committed is there when the directory is opened again, and while it
// is open nobody else can open it.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	s, err := badgerkv.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	key := kv.NewKey("order").WithUint(1042)
	_, err = kv.Apply(ctx, s, kv.Tx{
		Partition: "acme",
		Conds:     []kv.Cond{kv.Absent(key)},
		Writes:    []kv.Write{kv.Put(key, []byte("in Lyon"))},
	})
	fmt.Println("committed:", err)

	_, err = badgerkv.Open(dir, nil)
	fmt.Println("locked:", errors.Is(err, kv.ErrLocked))
	fmt.Println("closed:", s.Close())

	s, err = badgerkv.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	e, err := s.Get(ctx, "acme", key)
	fmt.Println(e.Key, string(e.Value), err)
	// Output:
	// committed: <nil>
	// locked: true
	// closed: <nil>
	// order/1042 in Lyon <nil>
}

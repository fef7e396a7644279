package kv_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/agenthost/agenthost/host/kv"
)

// A log is appended to under the revision of its head: of two writers that saw
// the same head, one commits and the other learns that it must look again.
func Example() {
	ctx := context.Background()
	d := kv.NewMemory()
	defer d.Close()

	thread := kv.NewKey("thread", "t1")
	head, log := thread.With("head"), thread.With("log")

	appendMessage := func(seq, seen uint64, text string) (uint64, error) {
		return kv.Apply(ctx, d, kv.Tx{
			Partition: "acme",
			Conds:     []kv.Cond{kv.AtRevision(head, seen)},
			Writes: []kv.Write{
				kv.Put(head, fmt.Append(nil, seq)),
				kv.Put(log.WithUint(seq), []byte(text)),
			},
		})
	}
	rev, err := appendMessage(1, 0, "where is order 1042?")
	fmt.Println("first:", err)
	_, err = appendMessage(2, rev, "in Lyon")
	fmt.Println("second:", err)
	_, err = appendMessage(2, rev, "in Oslo")
	fmt.Println("third conflicts:", errors.Is(err, kv.ErrPrecondition))

	for e, err := range kv.All(ctx, d, "acme", kv.Range{Prefix: log}) {
		fmt.Println(e.Key, string(e.Value), err)
	}
	// Output:
	// first: <nil>
	// second: <nil>
	// third conflicts: true
	// thread/t1/log/1 where is order 1042? <nil>
	// thread/t1/log/2 in Lyon <nil>
}

// Keys are taken apart from the front, by the type of each element.
func ExampleKey() {
	k := kv.NewKey("thread", "t1", "log").WithUint(42)
	fmt.Println(k)

	rest, _ := k.CutPrefix(kv.NewKey("thread"))
	id, rest, _ := rest.CutString()
	part, rest, _ := rest.CutString()
	seq, _, ok := rest.CutUint()
	fmt.Println(id, part, seq, ok)

	fmt.Println(kv.NewKey("a/b", "7", "").WithUint(7))
	// Output:
	// thread/t1/log/42
	// t1 log 42 true
	// "a/b"/"7"/""/7
}

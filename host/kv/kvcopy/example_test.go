package kvcopy_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/kv/kvcopy"
)

func ExampleCopy() {
	ctx := context.Background()
	open := func() *badgerkv.Store {
		dir, err := os.MkdirTemp("", "kvcopy")
		if err != nil {
			log.Fatal(err)
		}
		s, err := badgerkv.Open(dir, nil)
		if err != nil {
			log.Fatal(err)
		}
		return s
	}
	from, to := open(), open()
	defer from.Close()
	defer to.Close()
	if _, err := kv.Apply(ctx, from, kv.Tx{Partition: "acme", Writes: []kv.Write{kv.Put("greeting", []byte("hello"))}}); err != nil {
		log.Fatal(err)
	}
	report, err := kvcopy.Copy(ctx, to, from, &kvcopy.Options{Source: "the first"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d of %d entries written, %d bytes\n", report.Written, report.Entries, report.Bytes)
	// Output: 1 of 1 entries written, 13 bytes
}

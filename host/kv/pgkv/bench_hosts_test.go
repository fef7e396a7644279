package pgkv_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/pgkv"
	"github.com/agenthost/agenthost/internal/pgkvtest"
)

// BenchmarkHosts has several stores, as several hosts have them, write values of 1 kB to
// one database: all to the same partition, or each to one of its own. A host groups the
// commits of its writers; those of several hosts to one partition wait for each other.
// Hosts with one writer each are what the heartbeats of as many hosts are.
func BenchmarkHosts(b *testing.B) {
	for _, c := range []struct {
		hosts, writers int
		shared         bool
	}{{1, 16, true}, {4, 16, true}, {4, 16, false}, {8, 16, true}, {8, 16, false}, {32, 1, true}, {32, 1, false}} {
		partitions := c.hosts
		if c.shared {
			partitions = 1
		}
		b.Run(fmt.Sprintf("hosts=%d/writers=%d/partitions=%d", c.hosts, c.writers, partitions), func(b *testing.B) {
			address := pgkvtest.Address(b) + " pool_max_conns=2"
			var left atomic.Int64
			var all sync.WaitGroup
			begin := make(chan struct{})
			for host := range c.hosts {
				store, err := pgkv.Open(b.Context(), address, nil)
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { _ = store.Close() })
				d, partition := kv.Group(store), fmt.Sprint("tenant", host%partitions)
				if err := writeOne(b, d, partition, kv.NewKey("first", fmt.Sprint(host))); err != nil {
					b.Fatal(err)
				}
				for writer := range c.writers {
					all.Go(func() {
						<-begin
						for n := left.Add(-1); n >= 0; n = left.Add(-1) {
							if err := writeOne(b, d, partition, kv.NewKey("log", fmt.Sprint(host), fmt.Sprint(writer)).WithUint(uint64(n))); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
			}
			left.Store(int64(b.N))
			b.ResetTimer()
			close(begin)
			all.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
		})
	}
}

func writeOne(b *testing.B, d kv.Driver, partition string, key kv.Key) error {
	_, err := kv.Apply(b.Context(), d, kv.Tx{Partition: partition, Writes: []kv.Write{kv.Put(key, make([]byte, 1<<10))}})
	return err
}

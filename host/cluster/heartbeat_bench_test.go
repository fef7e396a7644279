package cluster_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/cluster"
	"github.com/agenthost/agenthost/host/kv/pgkv"
	"github.com/agenthost/agenthost/internal/pgkvtest"
)

// beatTime is how long the members of a measurement live.
const beatTime = 10 * time.Second

// BenchmarkHeartbeats measures what members that do nothing cost a database: each writes
// heartbeats, and three parts of it watch for deaths. A death that is seen while all live
// says that the server is too slow for so many.
func BenchmarkHeartbeats(b *testing.B) {
	for _, members := range []int{10, 50, 200} {
		b.Run(fmt.Sprintf("members=%d", members), func(b *testing.B) {
			var statements atomic.Int64
			address := pgkvtest.Address(b)
			stores := make([]*pgkv.Store, 8)
			for i := range stores {
				s, err := pgkv.Open(b.Context(), address, &pgkv.Options{OnStatement: func(string) { statements.Add(1) }})
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = s.Close() }()
				stores[i] = s
			}
			all := make([]*cluster.Member, members)
			for i := range all {
				m, err := cluster.New(stores[i%len(stores)], nil)
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = m.Close() }()
				if err := m.Register(b.Context()); err != nil {
					b.Fatal(err)
				}
				if err := m.Subscribe(b.Context(), "grants", func() {}); err != nil {
					b.Fatal(err)
				}
				all[i] = m
			}
			for range b.N {
				measureBeats(b, all, &statements)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func measureBeats(b *testing.B, all []*cluster.Member, statements *atomic.Int64) {
	ctx, cancel := context.WithTimeout(b.Context(), beatTime)
	defer cancel()
	var deaths atomic.Int64
	before := statements.Load()
	var watching sync.WaitGroup
	for _, m := range all {
		for range 3 {
			watching.Go(func() {
				tick := time.NewTicker(m.WatchInterval())
				defer tick.Stop()
				for ctx.Err() == nil {
					if n, err := m.Deaths(ctx); err == nil {
						deaths.Store(max(deaths.Load(), n))
					}
					select {
					case <-tick.C:
					case <-ctx.Done():
					}
				}
			})
		}
	}
	watching.Wait()
	rate := float64(statements.Load()-before) / beatTime.Seconds()
	b.ReportMetric(rate, "statements/s")
	b.ReportMetric(rate/float64(len(all)), "statements/s/member")
	b.ReportMetric(float64(deaths.Load()), "deaths")
}

package threads_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
)

// turnsAPass is how many turns a store takes before it is the other's turn.
const turnsAPass = 20

// BenchmarkTurnBesideBadger stores the turns of BenchmarkTurn on a thread in PostgreSQL and
// on one on Badger with syncs, 20 by turns, so that both have the machine and its device as
// they are. ×badger is the median of the passes' ratios. It says something of a server with
// fsync, and of a TMPDIR on the same device.
func BenchmarkTurnBesideBadger(b *testing.B) {
	for _, after := range []int{10, 100_000} {
		b.Run(fmt.Sprintf("after=%d", after), func(b *testing.B) {
			stores := []*threads.Store{threads.New(kv.Group(benchPostgres(b)), nil), threads.New(kv.Group(benchBadger(b)), nil)}
			for _, s := range stores {
				threadtest.Fill(b, s, "t1", after)
			}
			var took [2][]float64
			var ratios []float64
			next := 0
			for b.Loop() {
				for i, s := range stores {
					begun := time.Now()
					for n := range turnsAPass {
						aTurn(b, s, "t1", next+n)
					}
					took[i] = append(took[i], time.Since(begun).Seconds()*1e3/turnsAPass)
				}
				next += turnsAPass
				last := len(took[0]) - 1
				ratios = append(ratios, took[0][last]/took[1][last])
			}
			b.ReportMetric(0, "ns/op")
			for i, name := range []string{"postgres", "badger"} {
				b.ReportMetric(middle(took[i]), name+"-ms/turn")
			}
			b.ReportMetric(middle(ratios), "×badger")
		})
	}
}

func middle(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

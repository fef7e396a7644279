//go:build unix

package threads_test

// Scenario: the units of docs/scale.md, to be measured on any machine and
// server.

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/kv/pgkv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
	"github.com/agenthost/agenthost/internal/pgkvtest"
)

// turnsOfAConversation is the number of turns that BenchmarkSize stores in each thread.
const turnsOfAConversation = 10

// BenchmarkSize stores conversations of ten turns: a question of 200 bytes and an answer
// of 1 kB with state in each. Its figures are those of one turn, with its share of what
// a new thread takes: rows (keys on Badger), bytes on the disk, bytes of PostgreSQL's log
// and statements. Size needs a few thousand turns, so that what an empty store has does
// not matter: -benchtime 5000x.
func BenchmarkSize(b *testing.B) {
	b.Run("badger", func(b *testing.B) {
		dir := b.TempDir()
		d, err := badgerkv.Open(dir, nil)
		if err != nil {
			b.Fatal(err)
		}
		n := converse(b, d)
		keys := 0
		for _, err := range kv.All(b.Context(), d, threads.DefaultTenant, kv.Range{}) {
			if err != nil {
				b.Fatal(err)
			}
			keys++
		}
		if err := d.Close(); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(keys)/n, "rows/turn")
		b.ReportMetric(float64(onDisk(b, dir))/n, "diskbytes/turn")
	})
	b.Run("postgres", func(b *testing.B) {
		address := pgkvtest.Address(b)
		d, err := pgkv.Open(b.Context(), address, &pgkv.Options{OnStatement: func(string) { statements.Add(1) }})
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = d.Close() }()
		before, sent := pgkvtest.MeasureUse(b, address), statements.Load()
		n := converse(b, d)
		sent = statements.Load() - sent
		after := pgkvtest.MeasureUse(b, address)
		b.ReportMetric(float64(after.Rows-before.Rows)/n, "rows/turn")
		b.ReportMetric(float64(after.Bytes-before.Bytes)/n, "diskbytes/turn")
		b.ReportMetric(float64(after.LogBytes-before.LogBytes)/n, "walbytes/turn")
		b.ReportMetric(float64(sent)/n, "statements/turn")
	})
}

// converse stores b.N turns and returns their number.
func converse(b *testing.B, d kv.Driver) float64 {
	b.Helper()
	s := threads.New(kv.Group(d), nil)
	n := 0
	letters := rand.New(rand.NewPCG(1, 2))
	for b.Loop() {
		thread, run := fmt.Sprintf("t%08d", n/turnsOfAConversation), fmt.Sprintf("run-%08d", n)
		head := threadtest.Say(b, s, thread, run, threadtest.WithID("q"+run, lettersOf(letters, 200)))
		turn := threadtest.TurnOf(head, threadtest.Assistant("a"+run, lettersOf(letters, 1000)))
		turn.State = fmt.Appendf(nil, `{"turns":%d}`, n)
		if err := s.AppendResults(b.Context(), threadtest.Request(thread, run, nil), turn); err != nil {
			b.Fatal(err)
		}
		n++
	}
	return float64(n)
}

// lettersOf returns text of sixteen letters at random, which compresses to about half, as
// prose does.
func lettersOf(r *rand.Rand, n int) string {
	text := make([]byte, n)
	for i := range text {
		text[i] = "etaoinshrdlu cmf"[r.IntN(16)]
	}
	return string(text)
}

package plugin

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// BenchmarkDeepCalls has 48 calls at once recurse as deep as they may, by as many
// tenants or one, under a limit TotalMemoryBytes of 256 MiB, and reports the most
// memory that the process had and how many calls were refused for it. The bar is 64 MB
// beyond the limit. Run it alone, once: the process must not have had more before.
func BenchmarkDeepCalls(b *testing.B) {
	const total, atOnce = 256 << 20, 48
	for _, tenants := range []int{1, atOnce} {
		b.Run(fmt.Sprintf("%dtenants", tenants), func(b *testing.B) {
			rt := startRuntime(b, &Options{TotalMemoryBytes: total, Ledger: newLedger(b, unlimited.plan(0))})
			p, err := rt.Load(b.Context(), "deep", handWritten(b, heavyFrames), &LoadOptions{Limits: Limits{Instances: atOnce}})
			if err != nil {
				b.Fatal(err)
			}
			debug.FreeOSMemory()
			if _, ok := resetPeak(); !ok {
				b.Skip("only Linux says how much memory the process had")
			}
			refused := 0
			for b.Loop() {
				errs := make([]error, atOnce)
				var wg sync.WaitGroup
				for i := range errs {
					wg.Go(func() { _, errs[i] = p.Call(b.Context(), fmt.Sprint(i%tenants), "tool", []byte("\xff"), nil) })
				}
				wg.Wait()
				for _, err := range errs {
					if err != nil {
						refused++
					}
				}
			}
			b.ReportMetric(float64(peakMemory())/1e6, "peak-resident-MB")
			b.ReportMetric(float64(refused)/float64(b.N), "refused/48")
		})
	}
}

// heavyStarts are modules of which an instance takes long to make, and that trap, so
// that each call makes one.
var heavyStarts = []struct{ name, code string }{
	{"elements", "table 100000\n" + strings.Repeat("elem 0 "+strings.Repeat("$tool ", 96_000)+"\n", 2) + "---\nunreachable"},
	{"data", "memory 256 256\ndata 0 \"" + strings.Repeat("x", 12<<20) + "\"\n---\nunreachable"},
	{"tables", strings.Repeat("table 100000\n", 16) + "---\nunreachable"},
	{"deep", strings.Replace(heavyFrames, "---", "---\ni32.const 9999 call $deep", 1)},
}

// BenchmarkHeavyNeighbour is BenchmarkNoisyNeighbour with modules whose instances are
// heavy: by elements, data, tables, or the stack that their calls need.
func BenchmarkHeavyNeighbour(b *testing.B) {
	for _, c := range heavyStarts {
		b.Run(c.name, func(b *testing.B) {
			rt := startRuntime(b, &Options{Ledger: newLedger(b, unlimited.plan(0))})
			quiet, err := rt.Load(b.Context(), "quiet", handWritten(b, echoModule), nil)
			if err != nil {
				b.Fatal(err)
			}
			noisy, err := rt.Load(b.Context(), "noisy", handWritten(b, c.code), &LoadOptions{Limits: Limits{Instances: 64}})
			if err != nil {
				b.Fatal(err)
			}
			var wg sync.WaitGroup
			done := make(chan struct{})
			for range 64 {
				wg.Go(func() {
					for {
						select {
						case <-done:
							return
						default:
							_, _ = noisy.Call(b.Context(), "noisy", "tool", nil, nil) // it traps
						}
					}
				})
			}
			input := make([]byte, 1<<10)
			var late []time.Duration
			for b.Loop() {
				time.Sleep(2 * time.Millisecond)
				began := time.Now()
				if _, err := quiet.Call(b.Context(), "quiet", "tool", input, nil); err != nil {
					b.Error(err)
				}
				late = append(late, time.Since(began))
			}
			close(done)
			wg.Wait()
			reportLate(b, late)
		})
	}
}

// crossingValues is a loop that passes 9,900 values to its header: code that does
// nothing else took microseconds for a unit before merges had a price.
func crossingValues() string {
	const locals = 9_900
	var code strings.Builder
	fmt.Fprintf(&code, "func $work - i32 : %d*i64\nloop local.get 0 if\n", locals)
	for n := range locals {
		fmt.Fprintf(&code, "local.get %d i64.const 1 i64.add local.set %d ", n+1, n+1)
	}
	code.WriteString("end br 0 end\n---\ni32.const 0 call $work i32.const 0")
	return code.String()
}

// BenchmarkValuesStall has as many guests as cores run a loop of crossing values, and
// reports how late a goroutine is that wants to run every millisecond, beside a loop
// of nothing. The bar is 20 ms.
func BenchmarkValuesStall(b *testing.B) {
	for _, c := range []struct{ name, code string }{
		{"nothing", "loop br 0 end unreachable"},
		{"values", crossingValues()},
	} {
		b.Run(c.name, func(b *testing.B) {
			rt := startRuntime(b, &Options{Ledger: newLedger(b, unlimited.plan(0))})
			p, err := rt.Load(b.Context(), "noisy", handWritten(b, c.code), &LoadOptions{Limits: Limits{Instructions: 1 << 50, Timeout: time.Second}})
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			var wg sync.WaitGroup
			for range runtime.GOMAXPROCS(0) {
				wg.Go(func() {
					for ctx.Err() == nil {
						_, _ = p.Call(ctx, "noisy", "tool", nil, nil) // ends by its limit
					}
				})
			}
			var late []time.Duration
			for b.Loop() {
				due := time.Now().Add(time.Millisecond)
				time.Sleep(time.Millisecond)
				late = append(late, time.Since(due))
			}
			cancel()
			wg.Wait()
			reportLate(b, late)
		})
	}
}

// reportLate gives percentiles in microseconds.
func reportLate(b *testing.B, late []time.Duration) {
	slices.Sort(late)
	for _, p := range []struct {
		name string
		at   float64
	}{{"p50-us", 0.5}, {"p99-us", 0.99}, {"max-us", 1}} {
		b.ReportMetric(float64(late[int(p.at*float64(len(late)-1))].Microseconds()), p.name)
	}
	b.ReportMetric(0, "ns/op")
}

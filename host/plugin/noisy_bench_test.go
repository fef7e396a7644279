package plugin_test

// Scenario: calls are timed alone, under isolation, and beside tenants that burn the
// processor.

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/plugin"
)

// BenchmarkOverhead is what this host adds to raw wazero: the same module, not
// metered and without limits, is called in turn with ours, so that both meet
// the same machine. The bars are 1 us beyond it at 1 kB, 1.2 times it at 100 kB
// and more, and one allocation, the output.
func BenchmarkOverhead(b *testing.B) {
	for _, size := range []int{0, 1 << 10, 100 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			input := []byte(strings.Repeat("x", size))
			raw := rawEcho(b, input)
			p := load(b, newRuntime(b, nil), "echo", buildGuest(b, "host/plugin/testdata/guests/echo"), nil)
			ours := func() {
				if r, err := p.Call(context.Background(), "t", "tool", input, nil); err != nil || len(r.Output) != size {
					b.Fatal(err, len(r.Output))
				}
			}
			const batch = 200
			var spent [2]time.Duration
			n := 0
			for b.Loop() {
				for i, call := range []func(){ours, raw} {
					started := time.Now()
					for range batch {
						call()
					}
					spent[i] += time.Since(started)
				}
				n += batch
			}
			per := func(i int) float64 { return float64(spent[i].Nanoseconds()) / float64(n) }
			b.ReportMetric(per(0), "ours-ns")
			b.ReportMetric(per(1), "raw-ns")
			b.ReportMetric(per(0)-per(1), "beyond-ns")
			b.ReportMetric(per(0)/per(1), "times")
			b.ReportMetric(testing.AllocsPerRun(100, ours), "allocs")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkIsolation is a call of a Go guest with and without fresh state, and
// one by tenants that take the only instance from one another. The bar of the
// last is 500 us.
func BenchmarkIsolation(b *testing.B) {
	for _, c := range []struct {
		name      string
		isolation plugin.Isolation
		tenants   int
	}{{"reuse", plugin.IsolationReuse, 1}, {"fresh", plugin.IsolationFresh, 1}, {"switch", plugin.IsolationReuse, 2}} {
		b.Run(c.name, func(b *testing.B) {
			p := load(b, newRuntime(b, nil), "echo", buildGuest(b, "host/plugin/testdata/guests/echo"),
				&plugin.LoadOptions{Isolation: c.isolation, Limits: plugin.Limits{MaxIdle: 1}})
			input := make([]byte, 1<<10)
			memory, n := int64(0), 0
			for b.Loop() {
				r, err := p.Call(b.Context(), strconv.Itoa(n%c.tenants), "tool", input, nil)
				if err != nil {
					b.Fatal(err)
				}
				memory = r.Cost.PeakMemory
				n++
			}
			b.ReportMetric(float64(memory)/1e6, "MB")
		})
	}
}

// spinning is the call of a tool that never ends by itself.
const spinning = `{"tool":"spin","arguments":{}}`

// burn has a tenant call a tool again and again, so many at one time.
func burn(b *testing.B, p *plugin.Plugin, tenant, call string, calls int) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range calls {
		wg.Go(func() {
			for ctx.Err() == nil {
				_, _ = p.Call(ctx, tenant, "tool", []byte(call), nil) // ends by its limit, with ctx, or by itself
			}
		})
	}
	return func() { cancel(); wg.Wait() }
}

// BenchmarkNoisyNeighbour has one tenant run 64 calls that burn instructions, and
// another call an echo of 1 kB on a fixed schedule, measured from when each call
// was due. The bar is a p99 of 5 ms. What the same schedule sees of a Go function
// beside the burners (go) and of an echo without them (alone) is beside it, and
// what it sees beside calls that use few instructions and much of the host: that
// panic, so that each makes an instance, and that write 100 kB by kv.put.
func BenchmarkNoisyNeighbour(b *testing.B) {
	everything, operations := buildGuest(b, "pdk/go/pdk/testdata/everything"), buildGuest(b, "host/plugin/testdata/guests/operations")
	echo := buildGuest(b, "host/plugin/testdata/guests/echo")
	for _, c := range []struct {
		name   string
		noisy  []byte
		noise  string
		plugin bool
	}{
		{"alone", nil, "", true},
		{"go", everything, spinning, false},
		{"echo", everything, spinning, true},
		{"panics", everything, `{"tool":"panic","arguments":{"message":"again"}}`, true},
		{"kv", operations, `{"tool":"keep","arguments":{}}`, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			rt := newRuntime(b, nil)
			quiet := load(b, rt, "quiet", echo, nil)
			if c.noisy != nil {
				noisy := load(b, rt, "noisy", c.noisy, &plugin.LoadOptions{
					Limits: plugin.Limits{Instructions: 100_000_000, Instances: 64}, Granted: plugin.Permissions{KV: plugin.Write}})
				defer burn(b, noisy, "noisy", c.noise, 64)()
			}
			input := make([]byte, 1<<10)
			call := func() {
				if !c.plugin {
					return
				}
				if _, err := quiet.Call(b.Context(), "quiet", "tool", input, nil); err != nil {
					b.Error(err)
				}
			}
			for range 20 {
				call()
			}
			late := schedule(b, 2*time.Millisecond, call)
			report(b, late)
		})
	}
}

// schedule calls f at fixed times, whether or not the last call has returned, and
// returns how long after its time each was done.
func schedule(b *testing.B, every time.Duration, f func()) (late []time.Duration) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	began, n := time.Now(), 0
	for b.Loop() {
		n++
		due := began.Add(time.Duration(n) * every)
		time.Sleep(time.Until(due))
		wg.Go(func() {
			f()
			d := time.Since(due)
			mu.Lock()
			defer mu.Unlock()
			late = append(late, d)
		})
	}
	wg.Wait()
	return late
}

// report gives percentiles in microseconds.
func report(b *testing.B, late []time.Duration) {
	slices.Sort(late)
	at := func(p float64) float64 { return float64(late[int(p*float64(len(late)-1))].Microseconds()) }
	b.ReportMetric(at(0.5), "p50-us")
	b.ReportMetric(at(0.99), "p99-us")
	b.ReportMetric(at(1), "max-us")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkStall has guests burn instructions on every core but one, and on that
// one too, while the garbage collector is made to run again and again, and
// reports how long another goroutine had to wait for its time. The bar is 20 ms.
// Without guests (idle) it shows what the machine itself does.
func BenchmarkStall(b *testing.B) {
	everything := buildGuest(b, "pdk/go/pdk/testdata/everything")
	for _, guests := range []int{0, 1, runtime.GOMAXPROCS(0)} {
		b.Run(fmt.Sprintf("%dguests", guests), func(b *testing.B) {
			p := load(b, newRuntime(b, nil), "noisy", everything, nil)
			stop := burn(b, p, "noisy", spinning, guests)
			defer stop()
			var collections atomic.Int64
			ctx, cancel := context.WithCancel(b.Context())
			var wg sync.WaitGroup
			wg.Go(func() {
				for ctx.Err() == nil {
					runtime.GC()
					collections.Add(1)
				}
			})
			late := schedule(b, time.Millisecond, func() {})
			cancel()
			wg.Wait()
			report(b, late)
			b.ReportMetric(float64(collections.Load()), "collections")
		})
	}
}

// BenchmarkTenants registers 10,000 tenants on a Go plugin that each call it once,
// and then has 64 of them call at once. It reports what an idle tenant costs, and
// the memory that the process has while 64 instances live, beside their linear
// memory. The bars are 4 kB, and 1.3 times that memory and 100 MB.
func BenchmarkTenants(b *testing.B) {
	if _, err := os.Stat("/proc/self/statm"); err != nil {
		b.Skip("it wants /proc/self/statm, to know the resident memory")
	}
	const tenants, atOnce = 10_000, 64
	wasm := buildGuest(b, "pdk/go/pdk/testdata/everything")
	for b.Loop() {
		rt := newRuntime(b, &plugin.Options{Calls: 2 * atOnce})
		p := load(b, rt, "everything", wasm, nil)
		echo := []byte(`{"tool":"echo","arguments":{}}`)
		call := func(tenant int) int64 {
			r, err := p.Call(b.Context(), strconv.Itoa(tenant), "tool", echo, nil)
			if err != nil {
				b.Error(err)
			}
			return r.Cost.PeakMemory
		}
		for i := range 100 {
			call(-i)
		}
		before := heap()
		for i := range tenants {
			call(i)
		}
		idle := float64(heap()-before) / tenants
		var linear atomic.Int64
		var entered, wg sync.WaitGroup
		release := make(chan struct{})
		entered.Add(atOnce)
		for i := range atOnce {
			wg.Go(func() {
				opts := &plugin.CallOptions{Emit: func(string, json.RawMessage) { entered.Done(); <-release }}
				r, err := p.Call(b.Context(), strconv.Itoa(i), "tool", []byte(`{"tool":"report","arguments":{}}`), opts)
				if err != nil {
					b.Error(err)
				}
				linear.Add(r.Cost.PeakMemory)
			})
		}
		entered.Wait()
		runtime.GC()
		rss := resident(b)
		close(release)
		wg.Wait()
		b.ReportMetric(idle, "B/tenant")
		b.ReportMetric(float64(linear.Load())/1e6, "linear-MB")
		b.ReportMetric(float64(rss)/1e6, "resident-MB")
		b.ReportMetric((float64(rss)-100e6)/float64(linear.Load()), "times-beyond-100MB")
		p.Close()
	}
	b.ReportMetric(0, "ns/op")
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// resident is the memory of the process in bytes.
func resident(b *testing.B) int64 {
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(raw))[1], 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

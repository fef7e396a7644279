package plugin

// Scenario: slots replace their modules under load, thousands of times and concurrently.

// These tests are inside the package for its assembler, and to count what a
// runtime holds.

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/internal/longtest"
)

// TestReloadsLoseAndFailNoCall replaces a plugin 200 times while calls go on,
// and lets 50 of them end between two replacements: what 2,000 calls a second
// and 40 reloads a second are. Each call must be answered, by a version that
// was published when it began or while it ran.
func TestReloadsLoseAndFailNoCall(t *testing.T) {
	ctx := context.Background()
	const callers, between = 8, 50
	n := longtest.Rounds(20, 200)
	s := newSlot(t, startRuntime(t, nil), numbered(t, 0), nil)

	var published, starting, begun, answered atomic.Int64
	progress := make(chan struct{}, 1) // a call has ended
	over := make(chan struct{})
	var wg sync.WaitGroup
	for i := range callers {
		tenant := fmt.Sprint(i % 3)
		wg.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				begun.Add(1)
				from := published.Load()
				got, err := callTool(ctx, s, tenant)
				to := starting.Load()
				version, parseErr := strconv.ParseInt(got, 10, 64)
				if err != nil || parseErr != nil || version < from || version > to {
					t.Errorf("a call is answered by version %q, %v, want %d to %d", got, err, from, to)
					return
				}
				answered.Add(1)
				select {
				case progress <- struct{}{}:
				default:
				}
			}
		})
	}
	for i := range n {
		starting.Store(int64(i + 1))
		replace(t, s, numbered(t, i+1))
		published.Store(int64(i + 1))
		for enough := answered.Load() + between; answered.Load() < enough && !t.Failed(); {
			<-progress
		}
	}
	close(over)
	wg.Wait()
	if begun.Load() != answered.Load() || answered.Load() < int64(n*between) {
		t.Errorf("%d calls are begun and %d answered, want as many, and %d", begun.Load(), answered.Load(), n*between)
	}
	if c := lineItem(s.runtime.UsageReport().Sum(false, true, true), "", "p", "tool"); c.Calls() != answered.Load() || c.Errors() != 0 {
		t.Errorf("the bill has %d calls and %d errors, want %d and 0", c.Calls(), c.Errors(), answered.Load())
	}
}

// TestReplacesLeaveNothing replaces a plugin 1,000 times, with a call between,
// and counts the rest. That no goroutine is, TestMain sees to.
func TestReplacesLeaveNothing(t *testing.T) {
	ctx := context.Background()
	rt := startRuntime(t, nil)
	s := newSlot(t, rt, numbered(t, 0), &SlotOptions{Kept: 1})
	round := func(i int) {
		replace(t, s, numbered(t, i))
		wantAnswer(t, ctx, s, fmt.Sprint(i))
	}
	n := longtest.Rounds(60, 1000)
	var before uint64
	for i := range n {
		round(i)
		if i == n/5 {
			s.revisions.closers.Wait()
			before = heap()
		}
	}
	s.revisions.closers.Wait()
	if after := heap(); after > before+4<<20 {
		t.Errorf("the heap has grown from %d to %d bytes", before, after)
	}
	if plugins, codes := len(rt.open()), len(rt.compiler.codes); plugins != 2 || codes != 2 {
		t.Errorf("%d plugins and %d compiled modules are open, want the one that serves and the one that is kept", plugins, codes)
	}
	if st := s.State(); len(st.Versions) != 2+min(n-1, slotRecords) {
		t.Errorf("%d versions are remembered, want %d", len(st.Versions), 2+slotRecords)
	}
	s.Close()
	if plugins, codes, memory := len(rt.open()), len(rt.compiler.codes), rt.memories.Used(); plugins != 0 || codes != 0 || memory != 0 {
		t.Errorf("%d plugins, %d compiled modules and %d bytes of memory are left after Close", plugins, codes, memory)
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC() // what finalizers held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestReplacesOfOneSlotComeOneAfterTheOther(t *testing.T) {
	ctx := context.Background()
	var trying, most atomic.Int64
	s := newSlot(t, startRuntime(t, nil), numbered(t, 0), &SlotOptions{
		Check: func(context.Context, *Plugin) error {
			n := trying.Add(1)
			most.Store(max(most.Load(), n))
			runtime.Gosched()
			trying.Add(-1)
			return nil
		}})
	const n = 20
	var wg sync.WaitGroup
	numbers := make([]int, n)
	for i := range n {
		wg.Go(func() {
			st, err := s.Replace(ctx, numbered(t, i))
			if err != nil {
				t.Error(err)
			}
			numbers[i] = st.Number
		})
	}
	wg.Wait()
	slices.Sort(numbers)
	if most.Load() != 1 || numbers[0] != 2 || numbers[n-1] != n+1 || len(slices.Compact(numbers)) != n {
		t.Errorf("%d versions are tried at once, with the numbers %v", most.Load(), numbers)
	}
	if st := s.State(); st.Serving().Number != n+1 {
		t.Errorf("version %d serves, want the last", st.Serving().Number)
	}
}

func TestChangesOfASlotWaitAndGiveUp(t *testing.T) {
	ctx := context.Background()
	entered, release := make(chan struct{}), make(chan struct{})
	first := true
	s := newSlot(t, startRuntime(t, nil), numbered(t, 0), &SlotOptions{
		Check: func(context.Context, *Plugin) error {
			if first {
				first = false
				return nil
			}
			close(entered)
			<-release
			return nil
		}})
	done := make(chan error)
	go func() {
		_, err := s.Replace(ctx, numbered(t, 1))
		done <- err
	}()
	<-entered
	if !s.State().Loading {
		t.Error("a slot that loads does not say so")
	}
	left, leave := context.WithCancel(ctx)
	leave()
	if _, err := s.Rollback(left); host.CodeOf(err) != host.Canceled {
		t.Errorf("Rollback beside a load, for a caller that has left: %v, want canceled", err)
	}
	wantAnswer(t, ctx, s, "0")
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
	wantAnswer(t, ctx, s, "1")
}

// BenchmarkReload replaces a plugin while it gets 2,000 calls a second on a fixed
// schedule, and reports how long calls took from when they were due, beside the
// same schedule without reloads. Every call must succeed.
func BenchmarkReload(b *testing.B) {
	for _, reloading := range []bool{false, true} {
		name := "calls"
		if reloading {
			name = "calls+reloads"
		}
		b.Run(name, func(b *testing.B) { benchReload(b, reloading) })
	}
}

func benchReload(b *testing.B, reloading bool) {
	const interval = time.Second / 2000
	ctx := context.Background()
	s := newSlot(b, startRuntime(b, nil), numbered(b, 0), nil)
	over := make(chan struct{})
	var latencies []time.Duration
	var wg sync.WaitGroup
	wg.Go(func() {
		for due := time.Now(); ; due = due.Add(interval) {
			select {
			case <-over:
				return
			case <-time.After(time.Until(due)):
			}
			if _, err := callTool(ctx, s, "t"); err != nil {
				b.Error(err)
			}
			latencies = append(latencies, time.Since(due))
		}
	})
	i := 0
	for b.Loop() {
		i++
		started := time.Now()
		if reloading {
			replace(b, s, numbered(b, i))
		}
		time.Sleep(25*time.Millisecond - time.Since(started)) // 40 reloads a second
	}
	close(over)
	wg.Wait()
	slices.Sort(latencies)
	b.ReportMetric(float64(len(latencies))/b.Elapsed().Seconds(), "calls/s")
	b.ReportMetric(float64(latencies[len(latencies)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(latencies[len(latencies)*99/100].Microseconds()), "p99-us")
}

package plugin

// What an instance costs to bring back is measured from inside, without a call.

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
	"github.com/agenthost/agenthost/host/plugin/internal/fairsched"
	"github.com/agenthost/agenthost/host/plugin/internal/linearmem"
)

// BenchmarkRestore is what fresh state for every call costs: a call that writes a
// page and a byte in every fourth page, and the restoring of its memory, apart.
// The limit is 40 us a megabyte; copying memory of the same size is beside it.
func BenchmarkRestore(b *testing.B) {
	for _, c := range []struct {
		name string
		fill int // bytes of the memory that are not zero
		size int
	}{
		{"1MiB-quarter-used", 1 << 18, 1 << 20},
		{"3MiB-half-used", 3 << 19, 3 << 20},
		{"16MiB-full", 16 << 20, 16 << 20},
		{"64MiB-quarter-used", 16 << 20, 64 << 20},
	} {
		b.Run(c.name, func(b *testing.B) {
			p, err := startRuntime(b, nil).Load(b.Context(), "x", handWritten(b, fmt.Sprintf(`memory %d
				func $init _initialize
				i32.const 0 i32.const 7 i32.const %d memory.fill
				---
				i32.const 4096 i32.const 1 i32.const 4096 memory.fill
				i32.const 0 local.set 0
				loop local.get 0 i32.const 2 i32.store8
				local.get 0 i32.const 16384 i32.add local.tee 0 i32.const %d i32.lt_u br_if 0 end
				i32.const 0`, c.size/pageBytes, c.fill, c.size)), &LoadOptions{Limits: Limits{MemoryBytes: int64(c.size)}})
			if err != nil {
				b.Fatal(err)
			}
			inst, err := p.newInstance(b.Context(), p.bindings.of("a"), &fairsched.Flow{})
			if err != nil {
				b.Fatal(err)
			}
			defer inst.Close()
			var restoring, copying time.Duration
			other := make([]byte, c.size)
			n := 0
			for b.Loop() {
				inst.beginCall(b.Context(), &callRequest{export: abi.Tool}, time.Now())
				if _, _, err := inst.run(abi.Tool); err != nil {
					b.Fatal(err)
				}
				t := time.Now()
				if !inst.restore() {
					b.Fatal("not restored")
				}
				restoring += time.Since(t)
				t = time.Now()
				copy(other, inst.guest.bytes(c.size))
				copying += time.Since(t)
				n++
			}
			perMB := func(d time.Duration) float64 {
				return float64(d.Nanoseconds()) / 1e3 / float64(n) / (float64(c.size) / 1e6)
			}
			b.ReportMetric(perMB(restoring), "restore-us/MB")
			b.ReportMetric(perMB(copying), "copy-us/MB")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// timedLooks is a context that knows the longest time between two times that
// somebody asked whether it has ended.
type timedLooks struct {
	context.Context
	last    time.Time
	longest time.Duration
}

func (c *timedLooks) Err() error {
	c.look()
	return nil
}

func (c *timedLooks) look() {
	now := time.Now()
	c.longest = max(c.longest, now.Sub(c.last))
	c.last = now
}

// BenchmarkLargeImage takes the image of an instance with 512 MiB of memory, a
// quarter of it in use, makes another of it, and restores that after a call that
// wrote to every page of the quarter and grew. longest is the longest time in which
// nobody looks whether to go on and whose turn it is; whole is all of it, which it
// would be without pieces. Both are medians: a busy machine stops one or the other
// run.
func BenchmarkLargeImage(b *testing.B) {
	const pages, used = 8 << 10, 128 << 20
	p, err := startRuntime(b, nil).Load(b.Context(), "x", handWritten(b, fmt.Sprintf(`memory %d %d
		func $init _initialize
		i32.const 0 i32.const 7 i32.const %d memory.fill
		---
		loop local.get 0 i32.const 2 i32.store8
		local.get 0 i32.const 4096 i32.add local.tee 0 i32.const %d i32.lt_u br_if 0 end
		i32.const 1024 memory.grow i32.const 16 i32.shl i32.const 1 i32.const 67108864 memory.fill
		i32.const 0`, pages, 2*pages, used, used)),
		&LoadOptions{Isolation: IsolationFresh, Limits: Limits{MemoryBytes: 2 * pages * pageBytes, StartTimeout: time.Minute}})
	if err != nil {
		b.Fatal(err)
	}
	longest, whole := map[string][]time.Duration{}, map[string][]time.Duration{}
	measure := func(what string, inst *instance, do func()) {
		c := &timedLooks{Context: b.Context(), last: time.Now()}
		inst.meter.Begin(&callmeter.Call{Context: c, Start: time.Now(), Timeout: time.Minute})
		began := time.Now()
		do()
		c.look()
		longest[what] = append(longest[what], c.longest)
		whole[what] = append(whole[what], time.Since(began))
	}
	for b.Loop() {
		p.module.code.images = images{}
		first, err := p.newInstance(b.Context(), p.bindings.of("a"), &fairsched.Flow{})
		if err != nil {
			b.Fatal(err)
		}
		mem := first.guest.bytes(pages * pageBytes)
		measure("take", first, func() { linearmem.Take(mem, nil, first.meter.YieldAfterBytes) })
		first.Close()
		second, err := p.newInstance(b.Context(), p.bindings.of("a"), &fairsched.Flow{})
		if err != nil {
			b.Fatal(err)
		}
		if err := runTool(b, second, ""); err != nil {
			b.Fatal(err)
		}
		measure("restore", second, func() {
			if !second.restore() {
				b.Fatal("not restored")
			}
		})
		second.Close()
		flow := &fairsched.Flow{}
		third := p.bindings.of("a").emptyInstance(flow)
		third.beginStart(b.Context(), p.limits.Instructions)
		if err := third.instantiate(flow); err != nil {
			b.Fatal(err)
		}
		measure("make", third, func() {
			if err := third.fill(p.module.code.images.get(p.limits)); err != nil {
				b.Fatal(err)
			}
		})
		third.Close()
	}
	for _, what := range []string{"take", "make", "restore"} {
		b.ReportMetric(medianMS(longest[what]), what+"-longest-ms")
		b.ReportMetric(medianMS(whole[what]), what+"-whole-ms")
	}
	b.ReportMetric(0, "ns/op")
}

func medianMS(list []time.Duration) float64 {
	slices.Sort(list)
	return float64(list[len(list)/2].Microseconds()) / 1e3
}

package plugin

// What an instance costs to bring back is measured from inside, without a call.

import (
	"fmt"
	"testing"
	"time"
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
			inst, err := p.newInstance(b.Context(), p.seat("a"), &share{})
			if err != nil {
				b.Fatal(err)
			}
			defer inst.close()
			var restoring, copying time.Duration
			other := make([]byte, c.size)
			n := 0
			for b.Loop() {
				inst.beginCall(b.Context(), &callRequest{export: exportTool}, time.Now())
				if _, _, err := inst.run(exportTool); err != nil {
					b.Fatal(err)
				}
				t := time.Now()
				if !inst.restore() {
					b.Fatal("not restored")
				}
				restoring += time.Since(t)
				t = time.Now()
				copy(other, inst.bytes(c.size))
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

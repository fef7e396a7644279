package schema

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// processorTime is what this process has used, or this thread.
func processorTime(tb testing.TB, clock int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(t.Nano())
}

// BenchmarkSchemaBar validates the worst known values: the processor time of all of
// one validation, what a unit of work takes, and the longest time without giving
// way to others. The bars are 200 ms and 10 ms.
func BenchmarkSchemaBar(b *testing.B) {
	for _, c := range worstCases() {
		b.Run(strings.ReplaceAll(c.name, " ", "_"), func(b *testing.B) {
			s, err := Compile(b.Context(), json.RawMessage(c.schema))
			if err != nil {
				b.Fatal(err)
			}
			runtime.LockOSThread() // for the time of a piece
			defer runtime.UnlockOSThread()
			var longest time.Duration
			work := 0
			started := processorTime(b, unix.CLOCK_PROCESS_CPUTIME_ID)
			for b.Loop() {
				v, nodes, err := decodeBounded([]byte(c.value))
				if err != nil {
					b.Fatal(err)
				}
				check := s.newCheck(b.Context(), nodes, len(c.value))
				since := processorTime(b, unix.CLOCK_THREAD_CPUTIME_ID)
				check.checker.work.yield = func() {
					now := processorTime(b, unix.CLOCK_THREAD_CPUTIME_ID)
					longest = max(longest, now-since)
					since = now
				}
				given := check.checker.work.left
				_ = check.validate(v, faultOf)
				check.checker.work.yield()
				work += given - check.checker.work.left
			}
			took := processorTime(b, unix.CLOCK_PROCESS_CPUTIME_ID) - started
			b.ReportMetric(float64(took.Microseconds())/1000/float64(b.N), "cpu-ms/op")
			b.ReportMetric(float64(took.Nanoseconds())/float64(max(work, 1)), "ns/unit")
			b.ReportMetric(float64(longest.Microseconds())/1000, "piece-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkSchemaCompile compiles schemas that take long, within the bounds of what
// is compiled.
func BenchmarkSchemaCompile(b *testing.B) {
	for _, c := range compileCases() {
		b.Run(strings.ReplaceAll(c.name, " ", "_"), func(b *testing.B) {
			started := processorTime(b, unix.CLOCK_PROCESS_CPUTIME_ID)
			var err error
			for b.Loop() {
				_, err = Compile(b.Context(), json.RawMessage(c.schema))
			}
			if err != nil {
				b.Log(cutText(err.Error(), 150))
			}
			took := processorTime(b, unix.CLOCK_PROCESS_CPUTIME_ID) - started
			b.ReportMetric(float64(took.Microseconds())/1000/float64(b.N), "cpu-ms/op")
			b.ReportMetric(float64(len(c.schema))/1000, "kB")
			b.ReportMetric(0, "ns/op")
			doc, _, err := jsondoc.DecodeStrict([]byte(c.schema))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(newSizeEstimate(doc).work())/1e6, "estimate-ms")
		})
	}
}

package wasmmeter

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/plugin/internal/wasmtest"
)

// BenchmarkCompileWork compiles modules that are made of one thing each, and
// reports by how much their estimate exceeds the time they took. The constants
// in compilework.go are right when no number is far below 1: what grows faster
// than the code must not be underestimated at all.
func BenchmarkCompileWork(b *testing.B) {
	loopsWith := func(locals, loops int) string {
		var use strings.Builder
		for i := range locals {
			fmt.Fprintf(&use, "local.get %d i32.const 1 i32.add local.set %d ", i, i)
		}
		return fmt.Sprintf("func $f - : %d*i32\n  %s%s%s", locals, use.String(), strings.Repeat("loop local.get 0 br_if 0 end ", loops), use.String())
	}
	var nest, shut strings.Builder
	for i := range 150 {
		fmt.Fprintf(&nest, "loop local.get %d i32.const 1 i32.add local.set %d ", i, i)
		fmt.Fprintf(&shut, "local.get %d br_if 0 end ", i)
	}
	repeat := func(head, body string, n int, tail string) string {
		return "memory 1\ntable 1\ntype ->\nfunc $g -\n  nop\n" + head + "\n  " + strings.Repeat(body+" ", n) + tail
	}
	for _, c := range []struct{ name, text string }{
		{"nested loops, a local each", fmt.Sprintf("func $f - : 150*i32\n  %s%s", nest.String(), shut.String())},
		{"400 loops, 1000 locals", loopsWith(1000, 400)},
		{"1600 loops, 100 locals", loopsWith(100, 1600)},
		{"branches out of a block", repeat("func $f - i32\n  block", "local.get 0 local.get 0 i32.add br_if 0", 6000, "end")},
		{"blocks in one another", "func $f - i32\n  " + strings.Repeat("block ", 6000) + strings.Repeat("local.get 0 br_if 0 end ", 6000)},
		{"ifs", repeat("func $f - i32", "local.get 0 if local.get 0 local.set 0 end", 6000, "")},
		{"jump tables", "func $f - i32\n  " + strings.Repeat("block local.get 0 br_table 1000"+strings.Repeat(" 0", 1001)+" end ", 50)},
		{"loads", repeat("func $f - i32 -> i32\n  local.get 0", "i32.load", 30_000, "")},
		{"stores", repeat("func $f - i32", "local.get 0 i32.const 1 i32.store", 60_000, "")},
		{"calls", repeat("func $f -", "call $g", 60_000, "")},
		{"calls with 1000 globals", strings.Repeat("global i32 mut 1\n", 1000) + repeat("func $f -", "call $g", 1500, "")},
		{"calls through a table", repeat("func $f - i32", "local.get 0 call_indirect 0", 5000, "")},
		{"fills", repeat("func $f -", "i32.const 0 i32.const 0 i32.const 9 memory.fill", 3000, "")},
		{"copies", repeat("func $f -", "i32.const 0 i32.const 0 i32.const 9 memory.copy", 6000, "")},
		{"divisions", repeat("func $f - i32 -> i32\n  local.get 0", "local.get 0 i32.div_s", 20_000, "")},
		{"additions", repeat("func $f - i32 -> i32\n  local.get 0", "local.get 0 i32.add", 100_000, "")},
		{"empty functions", strings.Repeat("func $f -\n  nop\n", 40_000)},
	} {
		b.Run(strings.ReplaceAll(c.name, " ", "_"), func(b *testing.B) {
			l := (&Limits{CompileTime: time.Hour}).WithDefaults()
			s, err := Read(wasmtest.Assemble(b, c.text))
			if err != nil {
				b.Fatal(err)
			}
			pass := newMeter(s, l)
			metered, err := pass.write()
			if err != nil {
				b.Fatal(err)
			}
			estimate := time.Duration(0)
			for i := range s.bodies {
				if err := pass.scan.scan(i); err != nil {
					b.Fatal(err)
				}
				estimate += pass.scan.work(s.mutableGlobals())
			}
			for b.Loop() {
				r := newRuntime(b, func(context.Context, []uint64) {})
				if _, err := r.CompileModule(context.Background(), metered); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(estimate)/(float64(b.Elapsed())/float64(b.N)), "estimate/time")
		})
	}
}

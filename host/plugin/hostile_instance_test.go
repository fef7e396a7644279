package plugin

// Scenario: heavy instances and deep calls run at once within the total memory limit.

import (
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"github.com/agenthost/agenthost/internal/longtest"
)

// Heavy instances and deep calls, many at once, keep the process within the limit
// TotalMemoryBytes and 64 MB: what each ends in does not matter here.
func TestHeavyCasesStayWithinTheTotalMemory(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(50)) // the memory that is measured is not garbage for the most part
	const total, beyond, atOnce = 128 << 20, 64 << 20, 24
	if _, ok := resetPeak(); !ok {
		t.Skip("only Linux says how much memory the process had")
	}
	for i, c := range readCorpus(t) {
		if i%longtest.Alone(4, longtest.Rounds(3, 1)) != 0 {
			continue // each does the same at once
		}
		if !strings.HasPrefix(c.name, "instance/") {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			rt := startRuntime(t, &Options{TotalMemoryBytes: total, Ledger: newLedger(t, unlimited.plan(0))})
			limits := c.limits
			limits.Instances = atOnce
			p, err := rt.Load(t.Context(), "heavy", assembleNative(t, c), &LoadOptions{Limits: limits})
			if err != nil {
				t.Fatal(err)
			}
			debug.FreeOSMemory()
			before, _ := resetPeak()
			var wg sync.WaitGroup
			for i := range atOnce {
				wg.Go(func() { _, _ = p.Call(t.Context(), string(rune('a'+i)), "tool", nil, nil) })
			}
			wg.Wait()
			if peak := peakMemory() - before; peak > raceFactor*(total+beyond) {
				t.Errorf("%d calls at once need %d MB under a limit of %d", atOnce, peak>>20, total>>20)
			}
			p.Close()
			if used := rt.memories.Used(); used != 0 {
				t.Errorf("%d bytes are in use after the plugin is closed", used)
			}
		})
	}
}

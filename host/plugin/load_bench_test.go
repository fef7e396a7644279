package plugin_test

// Scenario: a plugin loads through a filled compile cache and gives its first answer.

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/plugins/tokenlimiter"
)

// BenchmarkLoad is what it takes until a plugin can be called: with a compile
// cache that has seen it, as at every start of the program but the first, and
// to its first answer; and of that the loading, whose bar is 60 ms.
func BenchmarkLoad(b *testing.B) {
	dir := b.TempDir()
	var loads []time.Duration
	start := func() {
		rt := must[*plugin.Runtime](b)(plugin.NewRuntime(b.Context(), &plugin.Options{CacheDir: dir}))
		began := time.Now()
		p := must[*plugin.Plugin](b)(rt.Load(b.Context(), "tokenlimiter", tokenlimiter.Wasm, nil))
		loads = append(loads, time.Since(began))
		pr := must[host.Processor](b)(p.Processor("", &plugin.PartOptions{Config: json.RawMessage("100")}))
		if _, err := pr.Process(b.Context(), llm.NewView([]*host.Message{host.UserText("hi")}, "m", nil)); err != nil {
			b.Fatal(err)
		}
		if err := rt.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	start()
	b.ResetTimer()
	for b.Loop() {
		start()
	}
	b.ReportMetric(float64(median(loads).Microseconds())/1000, "load-ms")
	b.ReportMetric(float64(len(tokenlimiter.Wasm))/1e6, "MB")
}

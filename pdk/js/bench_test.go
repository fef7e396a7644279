package js_test

import (
	"os"
	"testing"

	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/pdk/js"
)

// BenchmarkScript measures a tool of 40 bytes of arguments on a kept instance and on a
// fresh one, and the load of a script whose engine is compiled.
func BenchmarkScript(b *testing.B) {
	rt, err := plugin.NewRuntime(b.Context(), &plugin.Options{Interpreters: [][]byte{js.Engine()}})
	if err != nil {
		b.Fatal(err)
	}
	defer rt.Close(b.Context())
	wasm, err := js.Pack([]byte(greet))
	if err != nil {
		b.Fatal(err)
	}
	kept, err := rt.Load(b.Context(), "kept", wasm, nil) // and keeps the engine compiled
	if err != nil {
		b.Fatal(err)
	}
	fresh, err := rt.Load(b.Context(), "fresh", wasm, &plugin.LoadOptions{Isolation: plugin.IsolationFresh})
	if err != nil {
		b.Fatal(err)
	}
	input := []byte(`{"tool":"greet","arguments":{"name":"Ada"}}`)
	for name, p := range map[string]*plugin.Plugin{"call=kept": kept, "call=fresh": fresh} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Call(b.Context(), "acme", "tool", input, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("load", func(b *testing.B) {
		for b.Loop() {
			p, err := rt.Load(b.Context(), "again", wasm, nil)
			if err != nil {
				b.Fatal(err)
			}
			p.Close()
		}
	})
	if info, err := os.Stat("engine/engine.wasm"); err == nil {
		b.ReportMetric(float64(info.Size()), "engine-bytes")
	}
}

package plugin_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/plugins/tokenlimiter"
)

// BenchmarkRun is one run of one agent with one round that calls one sandboxed
// tool, a Go guest written with the kit, and a model in the process. ns/op is
// the whole; guest-ns/op is what the same call costs without a run around it,
// measured before; host-share-ns/op is the difference.
func BenchmarkRun(b *testing.B) {
	p := everything(b, nil)
	h := must[*host.Host](b)(host.New(nil))
	model := hosttest.ModelFunc(func(_ context.Context, req *host.ModelRequest) hosttest.Reply {
		if len(req.Messages) == 2 {
			return hosttest.Call("echo", `{"order":1042}`)
		}
		return hosttest.Say("It is shipped.")
	})
	agent := must[*host.Agent](b)(host.NewAgent("clerk", &host.AgentOptions{
		Instructions: "You answer questions about orders.", Model: model,
		Tools: []*host.Tool{must[*host.Tool](b)(p.Tool("echo", nil))}}))
	once := func() {
		r, err := h.Run(b.Context(), agent, &host.Request{Tenant: "acme", Text: "where is order 1042?"})
		if err != nil || r.Text() != "It is shipped." {
			b.Fatal(r, err)
		}
	}
	once()
	guest := guestTime(b, p)
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		once()
	}
	total := float64(b.Elapsed().Nanoseconds()) / float64(b.N)
	b.ReportMetric(guest, "guest-ns/op")
	b.ReportMetric(total-guest, "host-share-ns/op")
}

// guestTime measures the raw call of the tool that BenchmarkRun's runs call.
func guestTime(b *testing.B, p *plugin.Plugin) (ns float64) {
	b.Helper()
	const calls = 5000
	input := []byte(`{"tool":"echo","call_id":"call_1","idempotency_key":"01985f00-0000-7000-8000-000000000000/call_1","attempt":1,` +
		`"arguments":{"order":1042},"scope":{"tenant":"acme","run":"01985f00-0000-7000-8000-000000000000","agent":"clerk"}}`)
	began := time.Now()
	for range calls {
		if r, err := p.Call(b.Context(), "acme", "tool", input, nil); err != nil || r.GuestError {
			b.Fatal(r, err)
		}
	}
	return float64(time.Since(began).Nanoseconds()) / calls
}

// BenchmarkLoad is what it takes until a plugin can be called: with a compile
// cache that has seen it, as at every start of the program but the first, and
// to its first answer.
func BenchmarkLoad(b *testing.B) {
	dir := b.TempDir()
	start := func() {
		rt := must[*plugin.Runtime](b)(plugin.NewRuntime(b.Context(), &plugin.Options{CacheDir: dir}))
		p := must[*plugin.Plugin](b)(rt.Load(b.Context(), "tokenlimiter", tokenlimiter.Wasm, nil))
		pr := must[host.Processor](b)(p.Processor("", &plugin.PartOptions{Config: json.RawMessage("100")}))
		if _, err := pr.Process(b.Context(), host.NewView([]*host.Message{host.UserText("hi")}, "m", nil)); err != nil {
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
}

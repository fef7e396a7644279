package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
)

// BenchmarkRun is one run of one agent, with one round that calls one tool, and
// a model that costs nothing: what is measured is the host. The tool is a Go
// function or a sandboxed Go guest. There guest-ns/op is what the same call
// costs without a run around it, and host-share-ns/op is the rest.
func BenchmarkRun(b *testing.B) {
	b.Run("go", func(b *testing.B) {
		type in struct {
			Order int `json:"order"`
		}
		benchRun(b, host.NewTool("look", "Looks up an order.", func(_ context.Context, _ *host.Call, in in) (string, error) {
			return "shipped", nil
		}, nil))
	})
	b.Run("wasm", func(b *testing.B) {
		p := lookPlugin(b)
		tool, err := p.Tool("look", nil)
		if err != nil {
			b.Fatal(err)
		}
		guest := guestTime(b, p)
		total := benchRun(b, tool)
		b.ReportMetric(guest, "guest-ns/op")
		b.ReportMetric(total-guest, "host-share-ns/op")
	})
}

// benchRun returns how many nanoseconds a run took.
func benchRun(b *testing.B, look *host.Tool) float64 {
	agent, err := host.NewAgent("clerk", &host.AgentOptions{
		Instructions: "You answer questions about orders.", Tools: []*host.Tool{look}, Model: oneCallModel{}})
	if err != nil {
		b.Fatal(err)
	}
	h, err := host.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		result, err := h.Run(b.Context(), agent, &host.Request{Tenant: "acme", Text: "where is order 1042?"})
		if err != nil || result.Text() != "It is shipped." {
			b.Fatalf("run: %v, %v", result, err)
		}
	}
	return float64(b.Elapsed().Nanoseconds()) / float64(b.N)
}

// lookPlugin builds and loads the guest of BenchmarkRun.
func lookPlugin(b *testing.B) *plugin.Plugin {
	sandbox, err := plugin.NewRuntime(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = sandbox.Close(context.Background()) })
	wasm, err := sandbox.Build(b.Context(), filepath.Join("testdata", "look"), nil)
	if err != nil {
		b.Fatal(err)
	}
	p, err := sandbox.Load(b.Context(), "look", wasm, nil)
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// guestTime measures the raw call that BenchmarkRun's runs make.
func guestTime(b *testing.B, p *plugin.Plugin) (ns float64) {
	const calls = 5000
	input := []byte(`{"tool":"look","call_id":"c1","idempotency_key":"01985f00-0000-7000-8000-000000000000/c1","attempt":1,` +
		`"arguments":{"order":1042},"scope":{"tenant":"acme","run":"01985f00-0000-7000-8000-000000000000","agent":"clerk"}}`)
	began := time.Now()
	for range calls {
		if r, err := p.Call(b.Context(), "acme", "tool", input, nil); err != nil || r.GuestError {
			b.Fatal(r, err)
		}
	}
	return float64(time.Since(began).Nanoseconds()) / calls
}

// oneCallModel calls look and then says what it found.
type oneCallModel struct{}

var (
	benchUsage = host.Usage{InputTokens: 10, OutputTokens: 5}
	benchCall  = &host.ModelResponse{FinishReason: host.FinishToolCalls, Usage: benchUsage,
		Parts: []host.Part{&host.ToolCall{ID: "c1", Name: "look", Arguments: json.RawMessage(`{"order":1042}`)}}}
	benchText = &host.ModelResponse{FinishReason: host.FinishStop, Usage: benchUsage, Parts: []host.Part{&host.Text{Text: "It is shipped."}}}
)

func (oneCallModel) Name() string { return "bench" }
func (oneCallModel) Generate(_ context.Context, req *host.ModelRequest) iter.Seq2[host.ModelChunk, error] {
	return func(yield func(host.ModelChunk, error) bool) {
		if len(req.Messages) == 2 {
			yield(host.ModelChunk{Response: benchCall}, nil)
			return
		}
		if yield(host.ModelChunk{Text: "It is shipped."}, nil) {
			yield(host.ModelChunk{Response: benchText}, nil)
		}
	}
}

// BenchmarkStatePatch changes one member of a state of 100 kB.
func BenchmarkStatePatch(b *testing.B) {
	doc := map[string]any{"n": 0}
	for i := range 1000 {
		doc[fmt.Sprint("key", i)] = map[string]any{"name": strings.Repeat("x", 50), "list": []int{1, 2, 3}}
	}
	state, err := host.NewState(doc, 0)
	if err != nil {
		b.Fatal(err)
	}
	ops := []host.PatchOp{{Op: "replace", Path: "/n", Value: json.RawMessage("1")}}
	b.SetBytes(int64(len(state.JSON())))
	b.ReportAllocs()
	for b.Loop() {
		if err := state.Patch(ops); err != nil {
			b.Fatal(err)
		}
	}
}

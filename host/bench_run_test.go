package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"path/filepath"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin"
)

// BenchmarkRun is a whole run with a model that costs nothing: what is measured
// is the host. guest-ns/op is what the same calls of guests cost without a run
// around them, and host-share-ns/op is the rest. Both are the least of many
// batches: what else the machine does can only add. Guests keep their state, so
// that nothing is restored: host/plugin measures that.
//
//   - go: one agent, one round that calls one tool, a Go function
//   - wasm: the same, the tool in a sandboxed Go guest
//   - network: two agents, of which one calls the tool, and a router in the guest
//   - history: one agent that says one thing after 200 messages, already decoded
func BenchmarkRun(b *testing.B) {
	b.Run("go", func(b *testing.B) {
		look := host.NewTool("look", "Looks up an order.", func(_ context.Context, _ *host.Call, in struct {
			Order int `json:"order"`
		}) (string, error) {
			return "shipped", nil
		}, nil)
		benchRun(b, clerk(b, look), nil, nil)
	})
	b.Run("wasm", func(b *testing.B) {
		p := lookPlugin(b)
		benchRun(b, clerk(b, lookTool(b, p)), nil, func() { rawTool1042(b, p) })
	})
	b.Run("network", func(b *testing.B) {
		p := lookPlugin(b)
		router, err := p.Router("inorder", nil)
		if err != nil {
			b.Fatal(err)
		}
		second, err := host.NewAgent("writer", &host.AgentOptions{Instructions: "You write answers.", Model: textModel{}})
		if err != nil {
			b.Fatal(err)
		}
		network, err := host.NewNetwork("desk", []*host.Agent{clerk(b, lookTool(b, p)), second}, &host.NetworkOptions{Router: router})
		if err != nil {
			b.Fatal(err)
		}
		benchRun(b, network, nil, func() {
			rawTool1042(b, p)
			for i := range 3 {
				rawRoute(b, p, i)
			}
		})
	})
	b.Run("history", func(b *testing.B) {
		agent, err := host.NewAgent("writer", &host.AgentOptions{Instructions: "You write answers.", Model: textModel{}})
		if err != nil {
			b.Fatal(err)
		}
		history, err := host.NewHistory(oldThread(200), nil)
		if err != nil {
			b.Fatal(err)
		}
		benchRun(b, agent, history, nil)
	})
}

// clerk is an agent with one tool, whose model calls it once.
func clerk(b *testing.B, look *host.Tool) *host.Agent {
	agent, err := host.NewAgent("clerk", &host.AgentOptions{
		Instructions: "You answer questions about orders.", Tools: []*host.Tool{look}, Model: oneCallModel{}})
	if err != nil {
		b.Fatal(err)
	}
	return agent
}

// benchRun measures runs, and guests beside them.
func benchRun(b *testing.B, target host.Target, history *host.History, guests func()) {
	h, err := host.New(&host.Options{SingleTenant: true, History: history})
	if err != nil {
		b.Fatal(err)
	}
	thread := ""
	if history != nil {
		thread = "t1"
	}
	run := func() {
		result, err := h.Run(b.Context(), target, &host.Request{Tenant: "acme", Thread: thread, Text: "where is order 1042?"})
		if err != nil || result.Text() != "It is shipped." {
			b.Fatalf("run: %v, %v", result, err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		run()
	}
	total, guest := least(run), 0.0
	if guests != nil {
		guest = least(guests)
		b.ReportMetric(guest, "guest-ns/op")
	}
	b.ReportMetric(total-guest, "host-share-ns/op")
}

// least returns how many nanoseconds fn takes when nothing disturbs it.
func least(fn func()) float64 {
	const batches, calls = 1000, 5
	best := time.Duration(0)
	for range batches {
		began := time.Now()
		for range calls {
			fn()
		}
		if d := time.Since(began); best == 0 || d < best {
			best = d
		}
	}
	return float64(best.Nanoseconds()) / calls
}

// oldThread is a history of n messages that are decoded already, as a store with
// a cache has them; it keeps nothing.
type oldThread int

func (n oldThread) Get(context.Context, *host.HistoryRequest) (*host.Loaded, error) {
	return &host.Loaded{Messages: benchHistory(int(n))}, nil
}

var benchMessages []*host.Message

// benchHistory is a conversation in which every other answer calls a tool.
func benchHistory(n int) []*host.Message {
	if len(benchMessages) == n {
		return benchMessages
	}
	out := make([]*host.Message, 0, n)
	for i := 0; len(out) < n; i++ {
		id := fmt.Sprint("c", i)
		out = append(out, host.UserText(fmt.Sprintf("Where is order %d? It was due last week, and I would like to know.", i)),
			host.NewMessage(host.Assistant, &host.ToolCall{ID: id, Name: "look", Arguments: json.RawMessage(`{"order":1}`)}),
			host.NewMessage(host.ToolRole, &host.ToolResult{ID: id, Name: "look", Content: json.RawMessage(`"shipped"`)}),
			host.AssistantText("It is shipped, and will be there tomorrow at the latest."))
	}
	benchMessages = out[:n]
	return benchMessages
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
	p, err := sandbox.Load(b.Context(), "look", wasm, &plugin.LoadOptions{Isolation: plugin.IsolationReuse})
	if err != nil {
		b.Fatal(err)
	}
	return p
}

func lookTool(b *testing.B, p *plugin.Plugin) *host.Tool {
	tool, err := p.Tool("look", nil)
	if err != nil {
		b.Fatal(err)
	}
	return tool
}

const benchScope = `"scope":{"tenant":"acme","run":"01985f00-0000-7000-8000-000000000000","agent":"clerk"}`

// rawTool1042 is the raw call of the tool that BenchmarkRun's runs make.
func rawTool1042(b *testing.B, p *plugin.Plugin) {
	rawCall(b, p, "tool", `{"tool":"look","call_id":"c1","idempotency_key":"01985f00-0000-7000-8000-000000000000/c1","attempt":1,`+
		`"arguments":{"order":1042},`+benchScope+`}`)
}

// rawRoute is that of the router.
func rawRoute(b *testing.B, p *plugin.Plugin, calls int) {
	rawCall(b, p, "route", fmt.Sprintf(`{"router":"inorder",%s,"input":{"id":"01985f00-0000-7000-8000-000000000000","role":"user",`+
		`"parts":[{"type":"text","text":"where is order 1042?"}]},"call_count":%d,"stack":[],"agents":[{"name":"clerk","tools":["look"]},{"name":"writer"}]}`, benchScope, calls))
}

func rawCall(b *testing.B, p *plugin.Plugin, export, input string) {
	if r, err := p.Call(b.Context(), "acme", export, []byte(input), nil); err != nil || r.GuestError {
		b.Fatal(r, err)
	}
}

// oneCallModel calls look and then says what it found.
type oneCallModel struct{}

var (
	benchUsage = host.Usage{InputTokens: 10, OutputTokens: 5}
	benchCall  = &llm.Response{FinishReason: chat.FinishToolCalls, Usage: benchUsage,
		Parts: []host.Part{&host.ToolCall{ID: "c1", Name: "look", Arguments: json.RawMessage(`{"order":1042}`)}}}
	benchText = &llm.Response{FinishReason: chat.FinishStop, Usage: benchUsage, Parts: []host.Part{&host.Text{Text: "It is shipped."}}}
)

func (oneCallModel) Name() string { return "bench" }
func (oneCallModel) Generate(_ context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if len(req.Messages) == 2 {
			yield(llm.Chunk{Response: benchCall}, nil)
			return
		}
		sayShipped(yield)
	}
}

// textModel says one thing.
type textModel struct{}

func (textModel) Name() string { return "bench" }
func (textModel) Generate(context.Context, *llm.Request) iter.Seq2[llm.Chunk, error] {
	return sayShipped
}

func sayShipped(yield func(llm.Chunk, error) bool) {
	if yield(llm.Chunk{Text: "It is shipped."}, nil) {
		yield(llm.Chunk{Response: benchText}, nil)
	}
}

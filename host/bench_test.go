package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
)

// BenchmarkRun is one run of one agent, with one round that calls one tool, and
// a model that costs nothing: what is measured is the host. The tool is a Go
// function; host/plugin measures the same run with a sandboxed one.
func BenchmarkRun(b *testing.B) {
	type in struct {
		Order int `json:"order"`
	}
	look := host.NewTool("look", "Looks up an order.", func(_ context.Context, _ *host.Call, in in) (string, error) {
		return "shipped", nil
	}, nil)
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

//go:build unix

package mcpserver_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host/mcpbridge/mcpserver"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/internal/testguest"
)

// BenchmarkIdleSessions tells what an idle session takes. The bar is 20 kB.
func BenchmarkIdleSessions(b *testing.B) {
	for b.Loop() {
		b.ReportMetric(float64(idleSessions(newBench(b, func(o *mcpserver.Options) { o.Follow, o.TenantSessions = time.Hour, 2000 }), 1000)), "B/session")
	}
}

// BenchmarkToolCall compares a call of a sandboxed tool with that of a Go function that the
// protocol's library serves by itself, in turns: the processor time of the whole process,
// which has both sides of the connection. The bar is 1.5.
func BenchmarkToolCall(b *testing.B) {
	bare := mcp.NewServer(&mcp.Implementation{Name: "bare"}, nil)
	bare.AddTool(&mcp.Tool{Name: "t", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "{}"}}, StructuredContent: json.RawMessage("{}")}, nil
	})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return bare }, nil))
	defer web.Close()
	ours := newBench(b, func(o *mcpserver.Options) { o.Follow = time.Hour })
	rt, err := plugin.NewRuntime(b.Context(), nil)
	must(b, err)
	defer func() { must(b, rt.Close(context.Background())) }()
	p, err := rt.Load(b.Context(), "guest", testguest.Modules()["result"], nil)
	must(b, err)
	tools, err := p.Tools(nil)
	must(b, err)
	ours.catalog.set("acme", &mcpserver.Offers{Tools: []mcpserver.Tool{{Tool: tools[0]}}})
	their := &bench{t: b, url: web.URL}
	sessions := []*mcp.ClientSession{ours.connect("acme", versions[0], nil), their.connect("acme", versions[0], nil)}
	const batch = 200
	calls := func(s *mcp.ClientSession) time.Duration {
		began := cpu(b)
		for range batch {
			if r, err := s.CallTool(b.Context(), &mcp.CallToolParams{Name: "t", Arguments: map[string]any{}}); err != nil || r.IsError {
				b.Fatal(r, err)
			}
		}
		return (cpu(b) - began) / batch
	}
	for _, s := range sessions {
		calls(s)
	}
	var took [2][]float64
	var ratios []float64
	for b.Loop() {
		var of [2]float64
		for i, s := range sessions {
			of[i] = float64(calls(s).Microseconds())
			took[i] = append(took[i], of[i])
		}
		ratios = append(ratios, of[0]/of[1])
	}
	b.ReportMetric(median(took[0]), "cpu-µs/call")
	b.ReportMetric(median(took[1]), "bare-µs/call")
	b.ReportMetric(median(ratios), "ratio")
	_ = sessions[1].Close()
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// cpu returns the processor time of the process.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

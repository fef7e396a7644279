package plugin

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/llm"
)

// A request that is cheap to write and dear to read is refused, or paid for.
func TestRequestsOfManyValues(t *testing.T) {
	rt := startRuntime(t, nil)
	ask := func(n int) *CallResult {
		request := `{"indices":[` + strings.Repeat("9,", n-3) + `9]}` // beside commas a brace, a colon and a bracket
		p, err := rt.Load(context.Background(), fmt.Sprint(n), asking(t, "messages.get", request), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		got, err := p.Call(context.Background(), "t", "process", []byte(`{"messages":[]}`), &CallOptions{View: llm.NewView(nil, "", nil)})
		if err != nil || !got.GuestError {
			t.Fatalf("Call = %+v, %v", got, err)
		}
		return got
	}
	for _, row := range []struct {
		n    int
		says string
	}{
		{1000, "there is no message 9"}, {maxRequestSigns, "there is no message 9"}, {maxRequestSigns + 1, "has 50001 commas, colons and brackets"},
	} {
		got := ask(row.n)
		price, most := int64(min(row.n, maxRequestSigns))*valuePrice, int64(row.n)*2*valuePrice
		if !strings.Contains(string(got.Output), row.says) || got.Cost.Instructions < price || got.Cost.Instructions > most {
			t.Errorf("%d signs: %s for %d instructions, want %q for %d to %d", row.n, got.Output, got.Cost.Instructions, row.says, price, most)
		}
	}
}

// BenchmarkHeaviestRequest is how long the host can be kept by one request, which
// nothing interrupts: the bar is 50 ms.
func BenchmarkHeaviestRequest(b *testing.B) {
	for name, item := range map[string]string{"objects": `{"op":"remove","path":""}`, "texts": `""`, "fields": `{"a":1}`} {
		b.Run(name, func(b *testing.B) {
			list := strings.Repeat(item+",", maxRequestSigns)
			list = list[:strings.LastIndex(list[:cut(list)], item+",")] + item
			raw := []byte(`{"patch":[` + list + `]}`)
			var longest time.Duration
			for b.Loop() {
				var in struct{ Patch []host.PatchOp }
				start := time.Now()
				_ = jsondoc.Unmarshal(raw, &in) // texts are no objects, and are read before that is seen
				longest = max(longest, time.Since(start))
			}
			b.ReportMetric(float64(longest.Microseconds())/1000, "ms-longest")
			b.ReportMetric(float64(jsondoc.CountSigns(raw)), "signs")
		})
	}
}

// cut returns where the last sign that a request may have stands.
func cut(list string) int {
	n := 0
	for i := range len(list) {
		if strings.IndexByte(",:{[", list[i]) >= 0 {
			if n++; n == maxRequestSigns-4 {
				return i
			}
		}
	}
	return len(list)
}

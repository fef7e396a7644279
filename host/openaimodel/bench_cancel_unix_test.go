//go:build unix

package openaimodel_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/openaimodel"
	"github.com/agenthost/agenthost/internal/testhost"
)

// BenchmarkCancel is the time from a cancel, while a model's server keeps a run
// waiting, to the end of the run, its last event included. The pause before each
// cancel is not counted.
func BenchmarkCancel(b *testing.B) {
	const pause = 5 * time.Millisecond // the request is on its way, the answer is not
	m, err := openaimodel.New("m1", &openaimodel.Options{Server: modelhttp.Options{BaseURL: startFakeModel(b) + "/1/2/v1?every=1m", APIKey: modeltest.Key}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(m.CloseIdleConnections)
	agent := testhost.NewAgent(b, "clerk", &host.AgentOptions{Model: m})
	h := testhost.NewSingle(b, nil)
	var took []time.Duration
	for b.Loop() {
		ctx, cancel := context.WithCancel(b.Context())
		cancelled := make(chan time.Time, 1)
		timer := time.AfterFunc(pause, func() {
			cancelled <- time.Now()
			cancel()
		})
		r, err := h.Run(ctx, agent, &host.Request{Text: benchInput})
		took = append(took, time.Since(<-cancelled))
		timer.Stop()
		if host.CodeOf(err) != host.Canceled || r.FinishReason != chat.FinishCanceled {
			b.Fatalf("Run: %+v, %v", r, err)
		}
	}
	slices.Sort(took)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "median-µs")
	b.ReportMetric(float64(took[len(took)-1].Microseconds()), "worst-µs")
}

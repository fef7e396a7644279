package openaimodel_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/openaimodel"
)

// BenchmarkStreams has 1,000 runs stream at once from a model, which is another
// process and sends each 50 tokens a second. Reported are, of all runs, the worst
// 99th percentile of the time between two tokens, as the model sent them and as
// they came out of the runs, the worst ratio of the two in a run (3 is the bar;
// 20 ms at least count for the model), memory resident for a run with its
// connection (64 kB is the bar), and the CPU that all runs together take. Both
// processes share the machine, and so does whatever else runs on it: where the
// model is late, so is the run.
//
// Each operation is one such round, of some seconds: use -benchtime 1x.
func BenchmarkStreams(b *testing.B) {
	const (
		streams = 1000
		tokens  = 200
		every   = 20 * time.Millisecond
	)
	url := startFakeModel(b) + fmt.Sprintf("/1/%d/v1?every=%s", tokens, every)
	m, err := openaimodel.New("m1", &openaimodel.Options{BaseURL: url, APIKey: testKey})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(m.CloseIdleConnections)
	agent, err := host.NewAgent("clerk", &host.AgentOptions{Instructions: benchSystem, Model: m})
	if err != nil {
		b.Fatal(err)
	}
	h, err := host.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	debug.FreeOSMemory()
	before := resident(b) // without a connection, whichever round it is
	for b.Loop() {
		debug.FreeOSMemory()
		cpu, began := cpuTime(), time.Now()
		gaps := make([]gapsOf, streams)
		var runs sync.WaitGroup
		for i := range streams {
			runs.Go(func() {
				var err error
				if gaps[i], err = timeTokens(b.Context(), h, agent, tokens); err != nil {
					b.Errorf("run %d: %v", i, err)
				}
			})
			time.Sleep(every / 10) // people do not all begin at once
		}
		peak := resident(b)
		runs.Wait()
		share := float64(cpuTime()-cpu) / float64(time.Since(began))
		var sent, came time.Duration
		worst := 0.0
		for _, g := range gaps {
			sent, came, worst = max(sent, g.sent), max(came, g.came), max(worst, float64(g.came)/float64(max(g.sent, every)))
		}
		b.ReportMetric(float64(sent.Microseconds())/1e3, "model-worst-p99-ms")
		b.ReportMetric(float64(came.Microseconds())/1e3, "run-worst-p99-ms")
		b.ReportMetric(worst, "worst-×model")
		b.ReportMetric(float64(peak-before)/1024/streams, "kB-resident/run")
		b.ReportMetric(share, "cores")
	}
	b.ReportMetric(0, "ns/op")
}

// gapsOf are the 99th percentiles of the times between a run's tokens.
type gapsOf struct{ sent, came time.Duration }

// timeTokens reads a run whose tokens are the times at which they were sent.
func timeTokens(ctx context.Context, h *host.Host, agent *host.Agent, tokens int) (gapsOf, error) {
	sent, came := make([]time.Duration, 0, tokens), make([]time.Duration, 0, tokens)
	var lastSent, lastCame int64
	for ev, err := range h.Stream(ctx, agent, &host.Request{Text: benchInput}) {
		if err != nil {
			return gapsOf{}, err
		}
		d, ok := ev.Data.(*host.TextDelta)
		if !ok {
			continue
		}
		now := time.Now().UnixNano()
		at, err := strconv.ParseInt(d.Text, 10, 64)
		if err != nil {
			return gapsOf{}, err
		}
		if lastSent != 0 {
			sent, came = append(sent, time.Duration(at-lastSent)), append(came, time.Duration(now-lastCame))
		}
		lastSent, lastCame = at, now
	}
	if len(came) != tokens-1 {
		return gapsOf{}, fmt.Errorf("%d tokens came, %d were sent", len(came)+1, tokens)
	}
	slices.Sort(sent)
	slices.Sort(came)
	p99 := len(came) * 99 / 100
	return gapsOf{sent[p99], came[p99]}, nil
}

// resident returns the bytes of memory that this process has.
func resident(b *testing.B) int64 {
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Fatal(err)
	}
	fields := bytes.Fields(raw)
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

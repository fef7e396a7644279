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
	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/openaimodel"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/internal/testhost"
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
	m, err := openaimodel.New("m1", &openaimodel.Options{Server: modelhttp.Options{BaseURL: url, APIKey: modeltest.Key}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(m.CloseIdleConnections)
	agent := testhost.NewAgent(b, "clerk", &host.AgentOptions{Instructions: benchSystem, Model: m})
	h := testhost.NewSingle(b, nil)
	gaps := make([]gapsOf, streams)
	for i := range gaps {
		gaps[i] = newGaps(tokens)
	}
	debug.FreeOSMemory()
	before := resident(b) // without a connection, whichever round it is
	for b.Loop() {
		debug.FreeOSMemory()
		cpu, began := cpuTime(), time.Now()
		var runs sync.WaitGroup
		for i := range streams {
			runs.Go(func() {
				if err := gaps[i].time(b.Context(), h, agent); err != nil {
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

// gapsOf are the times between a run's tokens, and their 99th percentiles. What
// they take is there, and resident, before anything is measured.
type gapsOf struct {
	between    [2][]time.Duration // as sent and as come
	sent, came time.Duration
}

func newGaps(tokens int) gapsOf {
	var g gapsOf
	for i := range g.between {
		g.between[i] = make([]time.Duration, tokens-1)
		for n := range g.between[i] {
			g.between[i][n] = -1
		}
	}
	return g
}

// time reads a run whose tokens are the times at which they were sent.
func (g *gapsOf) time(ctx context.Context, h *host.Host, agent *host.Agent) error {
	sent, came := g.between[0], g.between[1]
	tokens := 0
	var lastSent, lastCame int64
	for ev, err := range h.Stream(ctx, agent, &host.Request{Text: benchInput}) {
		if err != nil {
			return err
		}
		d, ok := ev.Data.(*runevent.TextDelta)
		if !ok {
			continue
		}
		now := time.Now().UnixNano()
		at, err := strconv.ParseInt(d.Text, 10, 64)
		if err != nil {
			return err
		}
		if tokens > 0 && tokens <= len(sent) {
			sent[tokens-1], came[tokens-1] = time.Duration(at-lastSent), time.Duration(now-lastCame)
		}
		lastSent, lastCame = at, now
		tokens++
	}
	if tokens != len(sent)+1 {
		return fmt.Errorf("%d tokens came, %d were sent", tokens, len(sent)+1)
	}
	slices.Sort(sent)
	slices.Sort(came)
	p99 := len(sent) * 99 / 100
	g.sent, g.came = sent[p99], came[p99]
	return nil
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

//go:build unix

package runs_test

// Scenario: processes share one PostgreSQL and carry as many runs as they can.

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runs"
	"github.com/agenthost/agenthost/internal/pgkvtest"
)

// loadTime is how long the hosts of a measurement run.
const loadTime = 3 * time.Second

// load carries stored runs of a model with a delay and one tool, from several clients at
// once, each with a tenant, and returns how many completed in loadTime, and the processor
// time that the process took for them.
func (p *process) load(clients int, delay time.Duration) (completed int64, took time.Duration, err error) {
	model := hosttest.ModelFunc(func(ctx context.Context, req *llm.Request) hosttest.Reply {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return hosttest.Fail(ctx.Err())
		}
		if last := req.Messages[len(req.Messages)-1]; len(last.ToolResults()) == 0 {
			return hosttest.Call("look", `{}`)
		}
		return hosttest.Say("It was sent yesterday.")
	})
	look := host.NewTool("look", "Looks.", func(context.Context, *host.Call, struct{}) (string, error) { return "sent", nil }, nil)
	agent, err := host.NewAgent("clerk", &host.AgentOptions{Model: model, Tools: []*host.Tool{look}})
	if err != nil {
		return 0, 0, err
	}
	before := processorTime()
	ctx, cancel := context.WithTimeout(context.Background(), loadTime)
	defer cancel()
	var done atomic.Int64
	var failure atomic.Pointer[error]
	var running sync.WaitGroup
	for i := range clients {
		running.Go(func() {
			tenant := fmt.Sprintf("%s-%d", p.name, i)
			for ctx.Err() == nil {
				run, err := p.registry.Start(ctx, agent, &host.Request{Tenant: tenant, Text: "Where is my order?", Durable: true}, nil)
				if err == nil {
					run, err = p.registry.Wait(ctx, tenant, run.ID)
				}
				switch {
				case ctx.Err() != nil:
				case err != nil:
					failure.Store(&err)
					return
				case run.Status == runs.Completed:
					done.Add(1)
				}
			}
		})
	}
	running.Wait()
	if err := failure.Load(); err != nil {
		return 0, 0, *err
	}
	return done.Load(), processorTime() - before, nil
}

// processorTime returns what this process has taken so far.
func processorTime() time.Duration {
	var use syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &use) != nil {
		return 0
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// BenchmarkHostsOfADatabase measures how many runs a second one host and three hosts of a
// database complete, each a process: durable runs of two rounds and one tool, on new threads,
// with the registry and a usage record. Clients of a host are as many in both cases. ms/run is
// the processor time of the hosts, without the database's. It needs a server whose commits
// cost what they cost in operation.
func BenchmarkHostsOfADatabase(b *testing.B) {
	for _, delay := range []time.Duration{0, 200 * time.Millisecond} {
		for _, clients := range []int{16, 64} {
			b.Run(fmt.Sprintf("model=%s/clients=%d", delay, clients), func(b *testing.B) {
				one, three := loadHosts(b, 1, clients, delay), loadHosts(b, 3, clients, delay)
				b.ReportMetric(one.rate, "runs/s(1_host)")
				b.ReportMetric(three.rate, "runs/s(3_hosts)")
				b.ReportMetric(three.rate/one.rate, "x")
				b.ReportMetric(one.took, "ms/run(1_host)")
				b.ReportMetric(three.took, "ms/run(3_hosts)")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// carried is what hosts have done together: runs a second, and milliseconds of processor
// time a run.
type carried struct{ rate, took float64 }

func loadHosts(b *testing.B, hosts, clients int, delay time.Duration) carried {
	address := pgkvtest.Address(b)
	all := make([]*childHost, hosts)
	for i := range all {
		all[i] = startHost(b, address, "host-"+strconv.Itoa(i))
	}
	time.Sleep(2 * time.Second) // they know of each other
	runs, took := 0, time.Duration(0)
	for range b.N {
		answers := make([]string, hosts)
		var running sync.WaitGroup
		for i, h := range all {
			running.Go(func() { answers[i] = h.do(fmt.Sprintf("load %d %s", clients, delay)) })
		}
		running.Wait()
		for _, answer := range answers {
			var n, of int64
			if _, err := fmt.Sscan(answer, &n, &of); err != nil {
				b.Fatalf("a host says %q", answer)
			}
			runs, took = runs+int(n), took+time.Duration(of)
		}
	}
	for _, h := range all {
		h.kill()
	}
	return carried{rate: float64(runs) / loadTime.Seconds() / float64(b.N), took: float64(took.Milliseconds()) / float64(max(runs, 1))}
}

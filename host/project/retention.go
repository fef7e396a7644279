package project

import (
	"context"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host/project/internal/configfile"
	"github.com/agenthost/agenthost/host/tenants"
	"github.com/agenthost/agenthost/host/threads"
)

// retentionEvery is the time between two sweeps.
const retentionEvery = time.Hour

// retention removes the threads that tenants do not keep, in the background.
type retention struct {
	threads    *threads.Store
	partitions func(context.Context) iter.Seq2[string, error]   // all tenants that have data
	expire     []func(ctx context.Context, tenant string) error // remove a tenant's expired memories, and events of ended runs
	resume     func(context.Context) error                      // completes deletions of tenants; may be nil
	planned    func(tenant string) (tenants.Retention, bool)    // of a tenant with a plan; may be nil
	logger     *slog.Logger

	mu       sync.Mutex
	any      configfile.Retention
	byTenant map[string]configfile.Retention
}

// lateRetention is the retention of a project, which begins when the project serves. The
// changes of other hosts are taken before that, and meanwhile.
type lateRetention struct {
	mu    sync.Mutex
	begun *retention // nil before that
}

// begin makes the retention.
func (l *lateRetention) begin(made func() *retention) *retention {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun = made()
	return l.begun
}

// take makes a change of the configuration, and gives the retention its new settings.
func (l *lateRetention) take(c *configfile.Config, change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	if l.begun != nil {
		l.begun.take(c)
	}
}

// take sets the retention to that of a configuration.
func (r *retention) take(c *configfile.Config) {
	own := make(map[string]configfile.Retention, len(c.Tenants))
	for name, t := range c.Tenants {
		own[name] = t.Retention
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.any, r.byTenant = c.AnyTenant.Retention, own
}

// of returns the retention of a tenant: its own, or that of any other tenant.
func (r *retention) of(tenant string) configfile.Retention {
	r.mu.Lock()
	defer r.mu.Unlock()
	if own, ok := r.byTenant[tenant]; ok {
		return own
	}
	return r.any
}

// options returns which threads of a tenant go now: as its plan says, or else the
// configuration; ok is false if all stay.
func (r *retention) options(tenant string, now time.Time) (opts threads.PruneOptions, ok bool) {
	if r.planned != nil {
		if kept, ok := r.planned(tenant); ok {
			return kept.Options(now)
		}
	}
	return r.of(tenant).Options(now)
}

// run sweeps now and every retentionEvery, until ctx ends.
func (r *retention) run(ctx context.Context) {
	ticks := time.NewTicker(retentionEvery)
	defer ticks.Stop()
	for {
		r.sweep(ctx)
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
	}
}

// sweep removes the data that tenants do not keep. Data that cannot be removed now is
// retried in the next sweep.
func (r *retention) sweep(ctx context.Context) {
	if r.resume != nil {
		if err := r.resume(ctx); err != nil && ctx.Err() == nil {
			r.logger.WarnContext(ctx, "end a deletion of a tenant that was interrupted", "error", err)
		}
	}
	for tenant, err := range r.partitions(ctx) {
		if err != nil {
			r.failed(ctx, "", err)
			return
		}
		for _, expire := range r.expire {
			if err := expire(ctx, tenant); err != nil {
				r.failed(ctx, tenant, err)
			}
		}
		opts, ok := r.options(tenant, time.Now())
		if !ok {
			continue
		}
		pruned, err := r.threads.For(tenant).Prune(ctx, opts)
		if n := len(pruned.Threads); n > 0 {
			r.logger.InfoContext(ctx, "threads were removed, as the configuration says", "tenant", tenant, "threads", n)
		}
		if err != nil {
			r.failed(ctx, tenant, err)
		}
	}
}

func (r *retention) failed(ctx context.Context, tenant string, err error) {
	if ctx.Err() == nil {
		r.logger.WarnContext(ctx, "remove threads that the configuration does not keep", "tenant", tenant, "error", err)
	}
}

// newRetention returns the removal of the threads that a project's configuration does
// not keep.
func newRetention(p *Project) *retention {
	r := &retention{threads: p.threads, partitions: p.data.Tenants, expire: []func(context.Context, string) error{p.memories.expire, p.memories.embed, p.Runs().RemoveExpired}, resume: p.tenants.resume, planned: p.tenants.retention, logger: p.logger}
	r.take(p.config)
	return r
}

// StartRetention removes such threads in the background while a host runs, and settles runs
// whose questions have expired.
func (p *Project) StartRetention() {
	if !p.data.KeepsHouse() {
		return
	}
	kept := p.retention.begin(func() *retention { return newRetention(p) })
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { kept.run(ctx) })
	expired := newSettlement(p.Runs(), p.threads, p.Target, p.data.Tenants, p.logger)
	running.Go(func() { expired.run(ctx) })
	p.closers.add(func() error {
		cancel()
		running.Wait()
		return nil
	})
}

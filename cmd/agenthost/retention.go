package main

import (
	"context"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host/threads"
)

// retentionConfig is what a tenant keeps of its threads. What a thread that stays
// was forked from stays with it.
type retentionConfig struct {
	MaxAge     duration `yaml:"max_age"`
	MaxThreads int      `yaml:"max_threads"`
	MaxBytes   byteSize `yaml:"max_bytes"`
}

// retentionEvery is how often threads are looked at.
const retentionEvery = time.Hour

// options say which threads go now; ok is false if all stay.
func (r retentionConfig) options(now time.Time) (opts threads.PruneOptions, ok bool) {
	opts.Keep, opts.MaxBytes = r.MaxThreads, int64(r.MaxBytes)
	if r.MaxAge > 0 {
		opts.Before = now.Add(-time.Duration(r.MaxAge))
	}
	return opts, r != retentionConfig{}
}

// checkRetention refuses what no tenant can have.
func (c *config) checkRetention() error {
	check := func(at place, r retentionConfig) error {
		if r.MaxThreads < 0 {
			return c.errorAt(at.to("max_threads"), "max_threads is %d; leave it out for no bound", r.MaxThreads)
		}
		return nil
	}
	if err := check(keys("any_tenant", "retention"), c.AnyTenant.Retention); err != nil {
		return err
	}
	for _, name := range sortedKeys(c.Tenants) {
		if err := check(keys("tenants", name, "retention"), c.Tenants[name].Retention); err != nil {
			return err
		}
	}
	return nil
}

// retention removes the threads that tenants do not keep, in the background.
type retention struct {
	threads    *threads.Store
	partitions func(context.Context) iter.Seq2[string, error] // all tenants that have data
	expire     func(ctx context.Context, tenant string) error // what a tenant has of memories; may be nil
	resume     func(context.Context) error                    // ends deletions of tenants; may be nil
	logger     *slog.Logger

	mu      sync.Mutex
	any     retentionConfig
	tenants map[string]retentionConfig
}

// take takes what a configuration says from now on.
func (r *retention) take(c *config) {
	tenants := make(map[string]retentionConfig, len(c.Tenants))
	for name, t := range c.Tenants {
		tenants[name] = t.Retention
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.any, r.tenants = c.AnyTenant.Retention, tenants
}

// of returns what a tenant keeps: what is said of it, or of any other.
func (r *retention) of(tenant string) retentionConfig {
	r.mu.Lock()
	defer r.mu.Unlock()
	if own, ok := r.tenants[tenant]; ok {
		return own
	}
	return r.any
}

// run looks at all threads now and every so often, until ctx ends.
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

// sweep removes what no tenant keeps. What cannot be removed now is looked at
// again next time.
func (r *retention) sweep(ctx context.Context) {
	if r.resume != nil {
		if err := r.resume(ctx); err != nil && ctx.Err() == nil {
			r.logger.Warn("end a deletion of a tenant that was interrupted", "error", err)
		}
	}
	for tenant, err := range r.partitions(ctx) {
		if err != nil {
			r.failed(ctx, "", err)
			return
		}
		if r.expire != nil {
			if err := r.expire(ctx, tenant); err != nil {
				r.failed(ctx, tenant, err)
			}
		}
		opts, ok := r.of(tenant).options(time.Now())
		if !ok {
			continue
		}
		pruned, err := r.threads.For(tenant).Prune(ctx, opts)
		if n := len(pruned.Threads); n > 0 {
			r.logger.Info("threads were removed, as the configuration says", "tenant", tenant, "threads", n)
		}
		if err != nil {
			r.failed(ctx, tenant, err)
		}
	}
}

func (r *retention) failed(ctx context.Context, tenant string, err error) {
	if ctx.Err() == nil {
		r.logger.Warn("remove threads that the configuration does not keep", "tenant", tenant, "error", err)
	}
}

// newRetention returns what removes the threads that an app's configuration does
// not keep.
func newRetention(a *app) *retention {
	r := &retention{threads: a.threads, partitions: a.data.tenantNames, expire: a.expire, resume: a.erasures().Resume, logger: a.logger}
	r.take(a.config)
	return r
}

// startRetention has them removed in the background while a host runs.
func (a *app) startRetention() {
	if a.data.db == nil {
		return
	}
	a.retention = newRetention(a)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { a.retention.run(ctx) })
	a.closers = append(a.closers, func() error {
		cancel()
		running.Wait()
		return nil
	})
}

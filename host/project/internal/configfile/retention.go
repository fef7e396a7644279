package configfile

import (
	"maps"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host/threads"
)

// Retention bounds the threads that a tenant keeps. The thread that a kept thread was
// forked from is kept, too.
type Retention struct {
	MaxAge     Duration `yaml:"max_age"`
	MaxThreads int      `yaml:"max_threads"`
	MaxBytes   byteSize `yaml:"max_bytes"`
}

// Options say which threads go now; ok is false if all stay.
func (r Retention) Options(now time.Time) (opts threads.PruneOptions, ok bool) {
	opts.Keep, opts.MaxBytes = r.MaxThreads, int64(r.MaxBytes)
	if r.MaxAge > 0 {
		opts.Before = now.Add(-time.Duration(r.MaxAge))
	}
	return opts, r != Retention{}
}

// CheckRetention refuses a negative max_threads.
func (c *Config) CheckRetention() error {
	check := func(at KeyPath, r Retention) error {
		if r.MaxThreads < 0 {
			return c.ErrorAt(at.To("max_threads"), "max_threads is %d; leave it out for no bound", r.MaxThreads)
		}
		return nil
	}
	if err := check(Keys("any_tenant", "retention"), c.AnyTenant.Retention); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(c.Tenants)) {
		if err := check(Keys("tenants", name, "retention"), c.Tenants[name].Retention); err != nil {
			return err
		}
	}
	return nil
}

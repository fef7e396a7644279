package trace

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"

	"github.com/agenthost/agenthost/host"
)

// EraseTenant removes all runs of a tenant. Runs in progress are recorded no
// further. It may be repeated.
func (l *Log) EraseTenant(tenant string) error {
	l.drop(func(w *writer) bool {
		return cmp.Or(w.tenant, host.DefaultTenant) == cmp.Or(tenant, host.DefaultTenant)
	})
	err := l.eraseRuns(tenant, func(run *Run) bool {
		return run == nil || cmp.Or(run.Tenant, host.DefaultTenant) == cmp.Or(tenant, host.DefaultTenant)
	})
	if err == nil {
		err = os.RemoveAll(filepath.Join(l.dir, tenantDir(tenant)))
	}
	if err != nil {
		return host.Errorf(host.FailedPrecondition, "erase traces: %w", err).WithHint("make the directory writable for this user")
	}
	return nil
}

// EraseThread removes the runs of one thread of a tenant.
func (l *Log) EraseThread(tenant, thread string) error {
	err := l.eraseRuns(tenant, func(run *Run) bool { return run != nil && run.Thread == thread })
	if err != nil {
		return host.Errorf(host.FailedPrecondition, "erase traces of a thread: %w", err).WithHint("make the directory writable for this user")
	}
	return nil
}

// CountTenant returns how many files have runs of a tenant.
func (l *Log) CountTenant(tenant string) (int, error) {
	n := 0
	err := l.eachRun(tenant, func(_ string, run *Run) error {
		if run == nil || cmp.Or(run.Tenant, host.DefaultTenant) == cmp.Or(tenant, host.DefaultTenant) {
			n++
		}
		return nil
	})
	return n, err
}

// eraseRuns removes the runs in a tenant's directory, and in that of earlier
// versions, that goes picks: nil is one that cannot be read.
func (l *Log) eraseRuns(tenant string, goes func(*Run) bool) error {
	return l.eachRun(tenant, func(path string, run *Run) error {
		if !goes(run) {
			return nil
		}
		if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	})
}

func (l *Log) eachRun(tenant string, fn func(path string, run *Run) error) error {
	names, err := files(l.dir, cmp.Or(tenant, host.DefaultTenant))
	if host.CodeOf(err) == host.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		path := filepath.Join(l.dir, name)
		run, err := readFile(path, l.opts.Keys)
		switch {
		case errors.Is(err, os.ErrNotExist):
			continue
		case errors.Is(err, errSealed):
			run = nil
		case err != nil:
			return err
		}
		if err := fn(path, run); err != nil {
			return err
		}
	}
	return nil
}

// drop stops recording runs in progress.
func (l *Log) drop(goes func(*writer) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.writers {
		if goes(w) {
			w.dropped.Store(true)
		}
	}
}

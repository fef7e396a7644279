package datadir

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/erasure"
	"github.com/agenthost/agenthost/host/keys"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/queue"
	"github.com/agenthost/agenthost/host/responses"
	"github.com/agenthost/agenthost/host/runs"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/trace"
)

// TracesPath returns the path of a data directory's traces.
func TracesPath(dir string) string { return filepath.Join(dir, TracesName) }

// OpenTraces opens the traces beside the store, encrypted like the store. It returns nil
// for memory and for a database, which have none: see RATIONALE.md, "Why does a database have
// no traces?".
func (d *Dir) OpenTraces(logger *slog.Logger) (*trace.Log, error) {
	dir := d.at.Dir()
	if dir == "" {
		return nil, nil
	}
	keys, err := d.traceKeys(dir)
	if err != nil {
		return nil, err
	}
	return trace.Open(TracesPath(dir), &trace.Options{Logger: logger, Keys: keys})
}

// traceKeys returns the keys of the open store or, if another process has it open,
// of its key file.
func (d *Dir) traceKeys(dir string) (*badgerkv.Keys, error) {
	if d.db != nil {
		return d.db.Keys(), nil
	}
	return Keys(dir, d.getenv)
}

// Keys reads the keys of a data directory from its key file. Another process may have
// the directory open, or none.
func Keys(dir string, getenv func(string) string) (*badgerkv.Keys, error) {
	key, err := Key(getenv)
	if err != nil {
		return nil, err
	}
	keys, err := badgerkv.ReadKeys(StorePath(dir), key)
	if err != nil {
		return nil, Error(dir, err)
	}
	return keys, nil
}

// ThreadOptions returns options that delete the events of a thread's durable runs and its
// responses with the thread, and its traces unless traces is nil.
func (d *Dir) ThreadOptions(traces *trace.Log) *threads.Options {
	return &threads.Options{Deleted: func(ctx context.Context, tenant, id string) error {
		err := errors.Join(runs.EraseThread(ctx, d.Driver, tenant, id), responses.EraseThread(ctx, d.Driver, tenant, id))
		if traces != nil {
			err = errors.Join(err, traces.EraseThread(tenant, id))
		}
		return err
	}}
}

// withKeys calls fn with the API keys of the store.
func (d *Dir) withKeys(fn func(*keys.Store) error) error {
	s := keys.New(d.Driver, nil)
	return errors.Join(fn(s), s.Close())
}

// Erasures returns the deletion of tenants from the store, the traces, the queue and from
// more. traces may be nil, jobs if no queue runs in this process, and open if no host uses
// threads in it. A process has one, see [erasure.New]. If another process has the directory
// open, the error of each method has code failed_precondition.
func (d *Dir) Erasures(traces *trace.Log, jobs *queue.Queue, open *threads.Store, more ...erasure.Part) *erasure.Tenants {
	forget := func(ctx context.Context, tenant string) error { return queue.EraseTenant(ctx, d.Driver, tenant) }
	if jobs != nil {
		forget = jobs.EraseTenant
	}
	parts := slices.Clone(more)
	if d.pg != nil {
		parts = append(parts, erasure.Func{What: "memory of hosts", // before their locks and indexes go
			EraseFunc: func(ctx context.Context, _ string) error { return d.forgetOnHosts(ctx) },
			FindFunc:  func(context.Context, string) (int, error) { return 0, nil }})
	}
	if traces != nil {
		parts = append(parts, erasure.Func{What: "traces",
			EraseFunc: func(_ context.Context, tenant string) error { return traces.EraseTenant(tenant) },
			FindFunc:  func(_ context.Context, tenant string) (int, error) { return traces.CountTenant(tenant) }})
	}
	parts = append(parts, erasure.Func{What: "index of runs",
		EraseFunc: func(ctx context.Context, tenant string) error { return runs.EraseTenant(ctx, d.Driver, tenant) },
		FindFunc:  func(ctx context.Context, tenant string) (int, error) { return runs.CountTenant(ctx, d.Driver, tenant) }})
	parts = append(parts, erasure.Func{What: "keys",
		EraseFunc: func(ctx context.Context, tenant string) error {
			return d.withKeys(func(s *keys.Store) error { return s.Erase(ctx, tenant) })
		},
		FindFunc: func(ctx context.Context, tenant string) (n int, err error) {
			err = d.withKeys(func(s *keys.Store) error { n, err = s.Find(ctx, tenant); return err })
			return n, err
		}})
	parts = append(parts, erasure.Func{What: "queue", EraseFunc: forget,
		FindFunc: func(ctx context.Context, tenant string) (int, error) { return queue.CountTenant(ctx, d.Driver, tenant) }})
	if open != nil {
		parts = append(parts, erasure.Func{What: "decoded messages",
			EraseFunc: func(_ context.Context, tenant string) error { return open.DropTenant(tenant) },
			FindFunc:  func(_ context.Context, tenant string) (int, error) { return open.CountCached(tenant) }})
	}
	return erasure.New(d.eraser(), parts...)
}

// Erasing returns the partitions whose erasure has begun and not ended. Code
// failed_precondition if another process has the directory open.
func (d *Dir) Erasing(ctx context.Context) ([]string, error) { return d.eraser().Erasing(ctx) }

// eraser returns the store if it can erase partitions.
func (d *Dir) eraser() kv.Eraser {
	if d.db != nil {
		return d.db
	}
	if d.pg != nil {
		return d.pg
	}
	if memory, ok := d.Driver.(kv.Eraser); ok {
		return memory
	}
	return usedElsewhere{}
}

// usedElsewhere is the eraser of a directory that another process has open.
type usedElsewhere struct{}

var _ kv.Eraser = usedElsewhere{}

func errUsedElsewhere() error {
	return host.Errorf(host.FailedPrecondition, "another process has the data directory open").WithHint("delete the tenant there, or stop that process")
}

func (usedElsewhere) BeginErase(context.Context, string) error    { return errUsedElsewhere() }
func (usedElsewhere) Erase(context.Context, string) error         { return errUsedElsewhere() }
func (usedElsewhere) CompleteErase(context.Context, string) error { return errUsedElsewhere() }

func (usedElsewhere) Erasing(context.Context) ([]string, error) { return nil, errUsedElsewhere() }

func (usedElsewhere) Prove(context.Context, string) (*kv.Proof, error) {
	return nil, errUsedElsewhere()
}

package project

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/erasure"
)

// maxErasureWait bounds how long a finished command waits for the deletion of a tenant
// that it has resumed. The next command resumes the rest of the deletion.
const maxErasureWait = 2 * time.Minute

// erasures are the deletions of tenants as far as a project's own memory and its start are
// concerned.
type erasures struct{ project *Project }

// resume completes interrupted deletions of tenants while a command runs that
// has the store to itself. A live host completes them in its retention sweeps.
func (e erasures) resume(ctx context.Context) error {
	p := e.project
	if p.data.Badger() == nil || p.live { // a database's are resumed by the hosts that serve it
		return nil
	}
	begun, err := p.data.Badger().Erasing(ctx)
	if err != nil || len(begun) == 0 {
		return err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() {
		if err := p.Erasures().Resume(ctx); err != nil && ctx.Err() == nil {
			p.logger.WarnContext(ctx, "end a deletion of a tenant that was interrupted", "error", err)
		}
	})
	p.closers.add(func() error {
		defer cancel()
		late := time.AfterFunc(maxErasureWait, func() {
			p.logger.WarnContext(ctx, "the deletion of a tenant that was interrupted has not ended; the next command goes on", "waited", maxErasureWait)
			cancel()
		})
		defer late.Stop()
		running.Wait()
		return nil
	})
	if p.erasing != nil {
		p.erasing(len(begun))
	}
	return nil
}

// Erasures returns the deletion of tenants from all of the project's data. If another
// process has the data directory open, the error of each method has code
// failed_precondition.
func (p *Project) Erasures() *erasure.Tenants { return p.tenants.erasures }

// forgetTimeout bounds how long this host waits for the ends of a tenant's runs before it
// looks at other announcements and tries again.
const forgetTimeout = 5 * time.Second

// memory is this process's memory as a part of an erasure: what its runs, searches and
// plugins have read of a tenant.
func (e erasures) memory() erasure.Part {
	return erasure.Func{What: "memory of this host", EraseFunc: e.forget, FindFunc: func(context.Context, string) (int, error) { return 0, nil }}
}

// forget removes from memory what only this process's parts have of a tenant, which the
// store refuses to read already.
func (e erasures) forget(ctx context.Context, tenant string) error {
	p := e.project
	if p.hosts.registry != nil {
		if err := p.hosts.registry.DropTenant(ctx, tenant); err != nil {
			return err
		}
	}
	if p.memories.own != nil {
		p.memories.own.DropCache()
	}
	p.plugins.runtime.DropIdle()
	return nil
}

// follow empties this host's memory of the tenants that other hosts of the database
// erase, before they say that they have, and drops decoded messages after a repair.
func (e erasures) follow(ctx context.Context) error {
	p := e.project
	m := p.hosts.member
	if m == nil || !p.live { // the process of a command ends soon
		return nil
	}
	if err := m.Subscribe(ctx, datadir.RepairsTopic, p.threads.DropWindows); err != nil {
		return err
	}
	return m.SubscribeAcknowledged(ctx, datadir.ErasuresTopic, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, forgetTimeout)
		defer cancel()
		begun, err := p.data.Erasing(ctx)
		for _, tenant := range begun {
			if err == nil {
				err = errors.Join(p.threads.DropTenant(tenant), p.ledger.Erasing().Erase(ctx, tenant), e.forget(ctx, tenant))
			}
		}
		return err
	})
}

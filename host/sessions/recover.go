package sessions

import (
	"context"
	"errors"
	"time"

	"github.com/agenthost/agenthost/host"
)

// Recover continues a tenant's background turns whose processes are gone, and returns
// how many these are: from their last step if they had begun, from the beginning
// otherwise. A turn that [Service.Abort] was asked to end is aborted, and one that
// five processes have ended during fails; turns of deleted sessions, and the records
// of turns that ended without a snapshot a week ago, are forgotten. Call it when a host
// starts, and from time to time if several share a store. Records that cannot be read
// stay; their errors are returned after the others are done.
func (s *Service) Recover(ctx context.Context, tenant string) (n int, err error) {
	if tenant, err = s.tenantToRecover(tenant); err != nil {
		return 0, err
	}
	if h := s.background.hosts; h != nil {
		if _, err := h.member.Observe(ctx); err != nil {
			return 0, err
		}
	}
	return s.background.recover(ctx, tenant, s.background.expired(ctx))
}

// Adopt is [Service.Recover] for a process that knows that no other runs turns of the
// store, such as one that has just opened a Badger directory: it takes unfinished turns
// over without waiting for Expiry. Call it before the first turn, of this service or
// another one of its target.
func (s *Service) Adopt(ctx context.Context, tenant string) (n int, err error) {
	if tenant, err = s.tenantToRecover(tenant); err != nil {
		return 0, err
	}
	return s.background.recover(ctx, tenant, func(p *record) bool { return !p.Status.Settled() })
}

func (s *Service) tenantToRecover(tenant string) (string, error) {
	if err := s.needStore("recover turns"); err != nil {
		return "", err
	}
	return s.served.host.Tenant(tenant)
}

// expired returns the rule for turns whose process is gone.
func (b *background) expired(ctx context.Context) func(*record) bool {
	return func(p *record) bool { return b.records.expired(ctx, p) }
}

func (b *background) recover(ctx context.Context, tenant string, orphaned func(*record) bool) (n int, err error) {
	var damaged []error
	for r, err := range b.records.all(ctx, tenant) {
		if err != nil {
			return n, err
		}
		if r.damaged != nil {
			damaged = append(damaged, r.damaged)
			continue
		}
		p := r.record
		if p.Status.Settled() && distance(p.Heartbeat) > keptFor {
			if err := b.records.remove(ctx, tenant, p.Session, p.Run); err != nil {
				return n, err
			}
			continue
		}
		if !orphaned(p) || b.running.find(tenant, p.Run) != nil {
			continue
		}
		began, err := b.takeOver(ctx, tenant, p, r.revision, false)
		if err != nil && host.CodeOf(err) != host.Conflict { // another process was faster
			return n, err
		}
		if began {
			n++
		}
	}
	return n, errors.Join(damaged...)
}

// takeOver continues a turn whose process is gone, or ends it. lent says that a
// background turn waits for it and lends it its room.
func (b *background) takeOver(ctx context.Context, tenant string, p *record, revision uint64, lent bool) (began bool, err error) {
	if _, err := b.sessions.threads.For(tenant).Snapshot(ctx, p.Session, p.Run); err == nil { // stored just before the process ended
		return false, b.records.remove(ctx, tenant, p.Session, p.Run)
	}
	if deleted, err := b.sessions.deleted(ctx, tenant, p.Session, p.Thread); err != nil {
		return false, err
	} else if deleted {
		return false, b.records.remove(ctx, tenant, p.Session, p.Run)
	}
	switch {
	case p.Status == Aborting:
		p.Status, p.Error, p.Input = Aborted, errAborted(), nil
		return false, b.records.write(ctx, tenant, p, revision)
	case p.Attempts >= maxAttempts:
		p.Status, p.Input = Failed, nil
		p.Error = host.Errorf(host.Unavailable, "%d hosts have ended while they ran this turn", p.Attempts)
		return false, b.records.write(ctx, tenant, p, revision)
	}
	t, err := b.turnOf(ctx, tenant, p)
	if err != nil {
		return false, err
	}
	p.Heartbeat, p.Released, p.Attempts = time.Now().UTC(), false, p.Attempts+1
	t.attempt = p.Attempts
	runCtx, d, err := b.reserve(ctx, t, false, lent)
	if err != nil {
		return false, err
	}
	err = b.begin(ctx, runCtx, d, p, revision, nil)
	return err == nil, err
}

// turnOf returns the turn of a record: it resumes the run if the journal has it, and
// runs it from the beginning otherwise.
func (b *background) turnOf(ctx context.Context, tenant string, p *record) (*turn, error) {
	t := &turn{served: b.served, keeper: b.sessions, tenant: tenant, session: p.Session, run: p.Run, input: p.Input, threadMade: p.Thread,
		plan: &plan{session: p.Session, snapshot: p.At, retry: p.Retry, lastCompleted: p.Parent}}
	t.req = host.Request{Tenant: tenant, Key: p.Key, Resume: p.Run}
	if _, err := b.sessions.threads.ReadRun(ctx, tenant, p.Run); host.CodeOf(err) == host.NotFound {
		t.req = host.Request{Tenant: tenant, Key: p.Key, Thread: p.Session, Run: p.Run, Input: p.Input, Durable: true}
	} else if err != nil {
		return nil, err
	}
	return t, nil
}

package sessions

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// Recover goes on with the turns of a tenant whose hosts are gone, and returns
// how many these are: from their last step, if they had begun, and from the
// beginning otherwise. A turn that [Service.Abort] was asked to end is aborted,
// and one that five hosts have died of fails; those of sessions that were deleted,
// and what is known of turns that left nothing a week ago, are forgotten. Call it
// when a host starts, and from time to time if several share a store. What cannot
// be read is left alone and told at the end.
func (s *Service) Recover(ctx context.Context, tenant string) (n int, err error) {
	return s.recover(ctx, tenant, s.expired)
}

// Adopt is [Service.Recover] for a process that knows that no other runs turns of
// the store, as the one that has just opened a Badger directory does: it takes
// over what was left without waiting for Expiry. Call it before the first turn,
// of this service or another one of its target.
func (s *Service) Adopt(ctx context.Context, tenant string) (n int, err error) {
	return s.recover(ctx, tenant, func(p *record) bool { return !p.Status.Settled() })
}

func (s *Service) recover(ctx context.Context, tenant string, orphaned func(*record) bool) (n int, err error) {
	if err := s.needStore("recover turns"); err != nil {
		return 0, err
	}
	if tenant, err = s.host.Tenant(tenant); err != nil {
		return 0, err
	}
	var bad []error
	for r, err := range s.records(ctx, tenant) {
		if err != nil {
			return n, err
		}
		if r.damaged != nil {
			bad = append(bad, r.damaged)
			continue
		}
		if r.Status.Settled() && away(r.Heartbeat) > keptFor {
			if err := s.forget(ctx, tenant, r.Session, r.Run); err != nil {
				return n, err
			}
			continue
		}
		if !orphaned(r.record) || s.local(tenant, r.Run) != nil {
			continue
		}
		began, err := s.takeOver(ctx, tenant, r.record, r.revision, false)
		if err != nil && host.CodeOf(err) != host.Conflict { // somebody else was faster
			return n, err
		}
		if began {
			n++
		}
	}
	return n, errors.Join(bad...)
}

// kept is a record as the store has it, or why it cannot be read.
type kept struct {
	*record
	revision uint64
	damaged  error
}

// records yields the records of the target's turns, those that began first first,
// and those that nobody can read.
func (s *Service) records(ctx context.Context, tenant string) iter.Seq2[kept, error] {
	return func(yield func(kept, error) bool) {
		for e, err := range kv.All(ctx, s.store.Driver(), tenant, kv.Range{Prefix: recordKeys}) {
			if err != nil {
				yield(kept{}, kverror.Wrap(err, "list turns in the background"))
				return
			}
			rest, _ := e.Key.CutPrefix(recordKeys)
			run, _, _ := rest.CutString()
			p, err := readRecord(e.Value, run)
			if err == nil && p.Agent != s.Name() {
				continue
			}
			if !yield(kept{p, e.Revision, err}, nil) {
				return
			}
		}
	}
}

// Background returns the tenant's turns that are in the background, or were and
// left nothing but why: those that began first first, without their sessions, at
// most [MaxBackground]. A record that is damaged is left out.
func (s *Service) Background(ctx context.Context, tenant string) ([]*Snapshot, error) {
	if err := s.needStore("list turns"); err != nil {
		return nil, err
	}
	tenant, err := s.host.Tenant(tenant)
	if err != nil {
		return nil, err
	}
	out := []*Snapshot{}
	for r, err := range s.records(ctx, tenant) {
		if err != nil {
			return nil, err
		}
		if r.damaged != nil {
			continue
		}
		if out = append(out, s.pendingSnapshot(r.record)); len(out) == MaxBackground {
			break
		}
	}
	return out, nil
}

// Running returns how many turns this service runs in the background.
func (s *Service) Running() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.detached)
}

// takeOver goes on with a turn whose host is gone, or ends it. lent says that a turn in
// the background waits for it and lends it its room.
func (s *Service) takeOver(ctx context.Context, tenant string, p *record, revision uint64, lent bool) (began bool, err error) {
	if _, err := s.store.Snapshot(ctx, tenant, p.Session, p.Run); err == nil { // it was stored just before
		return false, s.forget(ctx, tenant, p.Session, p.Run)
	}
	if gone, err := s.deleted(ctx, tenant, p.Session, p.Thread); err != nil {
		return false, err
	} else if gone {
		return false, s.forget(ctx, tenant, p.Session, p.Run)
	}
	switch {
	case p.Status == Aborting:
		p.Status, p.Error, p.Input = Aborted, errAborted(), nil
		return false, s.write(ctx, tenant, p, revision)
	case p.Attempts >= maxAttempts:
		p.Status, p.Input = Failed, nil
		p.Error = host.Errorf(host.Unavailable, "%d hosts have ended while they ran this turn", p.Attempts)
		return false, s.write(ctx, tenant, p, revision)
	}
	t := &turn{service: s, tenant: tenant, session: p.Session, run: p.Run, input: p.Input,
		plan: &plan{session: p.Session, snapshot: p.At, retry: p.Retry, good: p.Parent}}
	t.req = host.Request{Tenant: tenant, Resume: p.Run}
	if _, err := s.store.ReadRun(ctx, tenant, p.Run); host.CodeOf(err) == host.NotFound {
		t.req = host.Request{Tenant: tenant, Thread: p.Session, Run: p.Run, Input: p.Input, Durable: true}
	} else if err != nil {
		return false, err
	}
	p.Heartbeat, p.Released, p.Attempts = time.Now().UTC(), false, p.Attempts+1
	t.attempt, t.made = p.Attempts, p.Thread
	d, err := s.reserve(ctx, t, false, lent)
	if err != nil {
		return false, err
	}
	err = s.begin(ctx, d, p, revision, nil)
	return err == nil, err
}

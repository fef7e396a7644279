package sessions

import (
	"context"
	"errors"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/cluster"
	"github.com/agenthost/agenthost/host/kv"
)

// ReleasedTopic is announced to the members of a cluster when a service was closed and
// its turns in the background are free: see [Service.RecoverLost].
const ReleasedTopic = "sessions"

// releasedOwner is the owner of turns that a closed service has released.
const releasedOwner = "released"

// announceTimeout bounds the announcement of turns that are released.
const announceTimeout = 5 * time.Second

// hosts are the members of a cluster that run background turns on one store. A nil
// *hosts is a process that knows of no others: then heartbeats in the records and the
// clock say which turns are lost.
type hosts struct {
	member *cluster.Member
	owners *cluster.Owners // of turns in the background
	claims *cluster.Claims // of this member in the index
}

func newHosts(driver kv.Driver, member *cluster.Member) *hosts {
	if member == nil {
		return nil
	}
	owners := cluster.NewOwners(driver, "sessions")
	return &hosts{member: member, owners: owners, claims: cluster.NewClaims(member, owners)}
}

// claim makes the turn of a record, which is not stored yet, this member's. The caller calls
// confirm once the record is stored, and before it speaks of the turn: see
// [cluster.Claims.Claim].
func (h *hosts) claim(ctx context.Context, tenant string, p *record) (confirm func(context.Context) error, err error) {
	if h == nil {
		p.Host = ""
		return func(context.Context) error { return nil }, nil
	}
	p.Host = h.member.ID()
	return h.claims.Claim(ctx, tenant)
}

// gone reports whether the member that runs a turn is dead. known is false for turns of
// processes that were no members, and for this one's own, which it may have lost when
// the store did not answer.
func (h *hosts) gone(ctx context.Context, p *record) (gone, known bool) {
	if h == nil || p.Host == "" || p.Host == h.member.ID() {
		return false, false
	}
	gone, err := h.member.Gone(ctx, p.Host)
	return gone && err == nil, true
}

// released makes a turn that this member has released findable.
func (h *hosts) released(ctx context.Context, tenant string) error {
	if h == nil {
		return nil
	}
	return h.owners.Add(ctx, releasedOwner, tenant)
}

// announce tells the other members that turns are released.
func (h *hosts) announce() error {
	if h == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), announceTimeout)
	defer cancel()
	return h.member.Announce(ctx, ReleasedTopic)
}

// lost returns the entries of members that are gone, of turns that were released, and of
// this member. missing are the tenants whose entries of this member others have removed:
// while it was paused, or with the tenant.
func (h *hosts) lost(ctx context.Context) (found []cluster.Owned, missing map[string]bool, err error) {
	missing = h.claims.Tenants() // read before the index: a later claim is not missing
	all, err := h.owners.All(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range all {
		own := e.Owner == h.member.ID()
		if own {
			delete(missing, e.Tenant)
		}
		gone := own || e.Owner == releasedOwner
		if !gone {
			if gone, err = h.member.Gone(ctx, e.Owner); err != nil {
				return nil, nil, err
			}
		}
		if gone {
			found = append(found, e)
		}
	}
	return found, missing, nil
}

// RecoverLost is [Service.Recover] for the tenants whose turns other members of the
// cluster have left, because they died or were closed, and for the member's own turns
// that it lost while the store did not answer. A service with Options.Member calls it
// when [cluster.Member.Observe] has seen a death, when [ReleasedTopic] is announced, and
// every few seconds; within two intervals of a death the turn then runs here. Code
// failed_precondition without Options.Member.
func (s *Service) RecoverLost(ctx context.Context) (n int, err error) {
	if err := s.needStore("recover turns"); err != nil {
		return 0, err
	}
	b := s.background
	if b.hosts == nil {
		return 0, host.Errorf(host.FailedPrecondition, "recover the turns of other hosts: the sessions of %q have no member of a cluster", s.Name()).
			WithHint("set Options.Member, or call Recover for each tenant")
	}
	entries, missing, err := b.hosts.lost(ctx)
	if err != nil {
		return 0, err
	}
	err = b.claimAgain(ctx, missing)
	for _, e := range entries {
		m, failed := b.recover(ctx, e.Tenant, b.expired(ctx))
		n += m
		if failed == nil && e.Owner != b.hosts.member.ID() {
			failed = b.forget(ctx, e)
		}
		if failed != nil {
			err = failed
		}
	}
	return n, err
}

// claimAgain adds the entries of tenants of which this member has turns. A tenant without
// any, which may be one that was erased, is left out.
func (b *background) claimAgain(ctx context.Context, tenants map[string]bool) error {
	var failed []error
	for tenant := range tenants {
		has, err := b.hasTurns(ctx, tenant, b.hosts.member.ID())
		if err == nil && has {
			err = b.hosts.owners.Add(ctx, b.hosts.member.ID(), tenant)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// forget removes an entry if its owner has no more turns of the tenant, of any agent.
func (b *background) forget(ctx context.Context, e cluster.Owned) error {
	has, err := b.hasTurns(ctx, e.Tenant, e.Owner)
	if err == nil && !has {
		b.hosts.owners.Forget(ctx, e)
	}
	return err
}

// hasTurns reports whether a tenant has turns, of any agent, that are an owner's and have
// not ended.
func (b *background) hasTurns(ctx context.Context, tenant, owner string) (bool, error) {
	for turn, err := range eachTurn(ctx, b.records.driver, tenant) {
		if err != nil {
			return false, err
		}
		if p := turn.record; turn.damaged == nil && !p.Status.Settled() && (p.Host == owner || p.Released && owner == releasedOwner) {
			return true, nil
		}
	}
	return false, nil
}

package sessions

import (
	"context"
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
}

func newHosts(driver kv.Driver, member *cluster.Member) *hosts {
	if member == nil {
		return nil
	}
	return &hosts{member: member, owners: cluster.NewOwners(driver, "sessions")}
}

// claim makes the turn of a record, which is not stored yet, this member's.
func (h *hosts) claim(ctx context.Context, tenant string, p *record) error {
	if h == nil {
		p.Host = ""
		return nil
	}
	if err := h.member.Register(ctx); err != nil {
		return err
	}
	p.Host = h.member.ID()
	return h.owners.Add(ctx, p.Host, tenant)
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
// this member.
func (h *hosts) lost(ctx context.Context) (found []cluster.Owned, err error) {
	all, err := h.owners.All(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		gone := e.Owner == releasedOwner || e.Owner == h.member.ID()
		if !gone {
			if gone, err = h.member.Gone(ctx, e.Owner); err != nil {
				return nil, err
			}
		}
		if gone {
			found = append(found, e)
		}
	}
	return found, nil
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
	entries, err := b.hosts.lost(ctx)
	if err != nil {
		return 0, err
	}
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

// forget removes an entry if its owner has no more turns of the tenant, of any agent.
func (b *background) forget(ctx context.Context, e cluster.Owned) error {
	for turn, err := range eachTurn(ctx, b.records.driver, e.Tenant) {
		if err != nil {
			return err
		}
		if p := turn.record; turn.damaged == nil && !p.Status.Settled() && (p.Host == e.Owner || p.Released && e.Owner == releasedOwner) {
			return nil
		}
	}
	b.hosts.owners.Forget(ctx, e)
	return nil
}

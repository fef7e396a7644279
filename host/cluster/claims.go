package cluster

import (
	"context"
	"sync"
	"time"
)

// Claims are the entries of one member in an index of owners. Other members remove them
// when they have taken the member for dead and its work over; a member that was only
// paused has work again when it wakes, which must be findable as well. It is safe for
// concurrent use.
type Claims struct {
	member *Member
	index  *Owners

	mu      sync.Mutex
	entries map[string]int64 // by tenant: the period in which the entry was written; 0 for none that counts
}

// NewClaims returns the claims of a member.
func NewClaims(member *Member, index *Owners) *Claims {
	return &Claims{member: member, index: index, entries: map[string]int64{}}
}

// Claim makes work of a tenant findable, before it is stored. The caller calls confirm once
// the work is stored, and before it speaks of it: others that looked for work in between
// found none, and may have removed the entry. Codes are those of the driver.
func (c *Claims) Claim(ctx context.Context, tenant string) (confirm func(context.Context) error, err error) {
	if err := c.member.Register(ctx); err != nil {
		return nil, err
	}
	period := c.member.pulse.period()
	if period == 0 || c.written(tenant) != period {
		if err := c.add(ctx, tenant, period); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context) error {
		now := c.member.pulse.period()
		if now != 0 && now == period {
			return nil
		}
		return c.add(ctx, tenant, now)
	}, nil
}

// written returns the period in which the entry of a tenant was written.
func (c *Claims) written(tenant string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entries[tenant]
}

// add writes the entry of a tenant. The entry has a new revision then, so that a removal
// that was decided before fails.
func (c *Claims) add(ctx context.Context, tenant string, period int64) error {
	if err := c.index.Add(ctx, c.member.id, tenant); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries[tenant] = period
	return nil
}

// Tenants returns the tenants of which the member has claimed work.
func (c *Claims) Tenants() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[string]bool, len(c.entries))
	for tenant := range c.entries {
		out[tenant] = true
	}
	return out
}

// pulse numbers the periods in which heartbeats followed each other so closely that no
// other member can have taken this one for dead.
type pulse struct {
	silence time.Duration // without a heartbeat, in which no other member does that yet

	mu     sync.Mutex
	last   time.Time // when the last heartbeat that was written began
	number int64
}

// beat notes a heartbeat that is written.
func (p *pulse) beat(began time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.number == 0 || between(p.last, began) >= p.silence {
		p.number++
	}
	p.last = began
}

// period returns the number of the period, and 0 in the silence between two.
func (p *pulse) period() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.number == 0 || between(p.last, time.Now()) >= p.silence {
		return 0
	}
	return p.number
}

// between returns the time from a to b: the longer one of two clocks, since one stands
// still while the machine does, and the other may be set.
func between(a, b time.Time) time.Duration {
	return max(b.Sub(a), b.Round(0).Sub(a.Round(0)))
}

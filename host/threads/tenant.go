package threads

import (
	"context"

	"github.com/agenthost/agenthost/host"
)

// Tenant is one tenant's view of a [Store]: its methods read and write that tenant's
// threads and no others. [Store.For] makes one. Safe for concurrent use.
type Tenant struct {
	store *Store
	part  partition
	err   error // of the name, which every method returns
}

// For returns a tenant's view of the store; the empty name is [DefaultTenant]. It
// reads nothing and may be called for each request. A name that no tenant can have
// is an error of code invalid_argument from every method of the view.
func (s *Store) For(tenant string) *Tenant {
	part, err := s.partitionOf(tenant)
	return &Tenant{s, part, err}
}

// open returns the present moment of a thread; nil if the thread does not exist.
func (tn *Tenant) open(ctx context.Context, id string) (*Moment, error) {
	if tn.err != nil {
		return nil, tn.err
	}
	return tn.part.open(ctx, id)
}

// openOn is open of a branch of the thread; an empty name is the thread's main line.
// Code not_found if there is no such branch.
func (tn *Tenant) openOn(ctx context.Context, id, branch string) (*Moment, error) {
	t, err := tn.open(ctx, id)
	if err != nil || branch == "" {
		return t, err
	}
	if t == nil {
		return nil, noBranch(id, branch)
	}
	return t.onBranch(ctx, branch)
}

// find returns the present moment of a thread. Code not_found if the thread does not
// exist.
func (tn *Tenant) find(ctx context.Context, id string) (*Moment, error) {
	return tn.findAt(ctx, id, At{})
}

// findAt is find of a moment of the thread.
func (tn *Tenant) findAt(ctx context.Context, id string, at At) (*Moment, error) {
	if tn.err != nil {
		return nil, tn.err
	}
	return tn.part.findAt(ctx, id, at)
}

// lock waits for the turn that runs on a thread, as [Store.LockThread] does.
func (tn *Tenant) lock(ctx context.Context, id string, racing host.Racing) (unlock func(), err error) {
	p, err := tn.takePlace(ctx, id, "", racing)
	if err != nil {
		return nil, err
	}
	return p.Lock(ctx)
}

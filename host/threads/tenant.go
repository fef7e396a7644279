package threads

import (
	"context"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
)

// Tenant is one tenant's view of a [Store]: its methods read and write that tenant's
// threads and no others. [Store.For] makes one. Safe for concurrent use.
type Tenant struct{ write threadWriter }

// For returns a tenant's view of the store; the empty name is [DefaultTenant]. It
// reads nothing and may be called for each request. A name that no tenant can have
// is an error of code invalid_argument from every method of the view.
func (s *Store) For(tenant string) *Tenant { return &Tenant{s.writer(tenant)} }

// threadReader finds the threads of one tenant.
type threadReader struct {
	part partition
	err  error // of the name, which every method returns
}

func readerOf(driver kv.Driver, tenant string) threadReader {
	part, err := partitionOf(driver, tenant)
	return threadReader{part, err}
}

// open returns the present moment of a thread; nil if the thread does not exist.
func (r threadReader) open(ctx context.Context, id string) (*Moment, error) {
	if r.err != nil {
		return nil, r.err
	}
	return r.part.open(ctx, id)
}

// openOn is open of a branch of the thread; an empty name is the thread's main line.
// Code not_found if there is no such branch.
func (r threadReader) openOn(ctx context.Context, id, branch string) (*Moment, error) {
	t, err := r.open(ctx, id)
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
func (r threadReader) find(ctx context.Context, id string) (*Moment, error) {
	return r.findAt(ctx, id, At{})
}

// findAt is find of a moment of the thread.
func (r threadReader) findAt(ctx context.Context, id string, at At) (*Moment, error) {
	if r.err != nil {
		return nil, r.err
	}
	return r.part.findAt(ctx, id, at)
}

// threadWriter commits changes to the threads of one tenant, one turn or change of a
// thread at a time where that is asked for.
type threadWriter struct {
	read  threadReader
	store *Store
}

func (s *Store) writer(tenant string) threadWriter {
	return threadWriter{readerOf(s.driver, tenant), s}
}

// lock waits for the turn that runs on a thread, as [Store.LockThread] does.
func (w threadWriter) lock(ctx context.Context, id string, racing host.Racing) (unlock func(), err error) {
	p, err := w.takePlace(ctx, id, "", racing)
	if err != nil {
		return nil, err
	}
	return p.Lock(ctx)
}

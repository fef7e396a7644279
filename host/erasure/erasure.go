// Package erasure deletes tenants: from a store, and from every place beside it that
// keeps tenants' data.
//
//	tenants := erasure.New(store, erasure.Func{What: "jobs", EraseFunc: jobs.EraseTenant})
//	err := tenants.Resume(ctx) // complete the deletions of the last process
//	err = tenants.Delete(ctx, "acme")
//	report, err := tenants.Prove(ctx, "acme")
//
// A tenant's threads, sessions, artifacts, memory, jobs, journals and plugin keys are in
// its partition of the store. Each place of other data is a [Part]. Once Delete has
// begun, reads of the tenant find nothing, and writes for it are refused; Delete has
// ended when no file contains data of the tenant. The store records an interrupted
// deletion, and Resume completes it.
package erasure

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// Part is a place beside the store that keeps tenants' data. Every component that
// stores data by tenant outside the tenant's partition provides one.
type Part interface {
	// Name names the kept data, in a word: "traces".
	Name() string
	// Erase removes all data of a tenant from the place. It is repeated after a process
	// was killed, so it must be repeatable. The store serves no read or write of the
	// tenant meanwhile.
	Erase(ctx context.Context, tenant string) error
	// Find counts the place's data of a tenant.
	Find(ctx context.Context, tenant string) (int, error)
}

// Func makes a Part of two functions.
type Func struct {
	What      string
	EraseFunc func(ctx context.Context, tenant string) error
	FindFunc  func(ctx context.Context, tenant string) (int, error)
}

var _ Part = Func{}

// Name implements [Part].
func (f Func) Name() string { return f.What }

// Erase implements [Part].
func (f Func) Erase(ctx context.Context, tenant string) error { return f.EraseFunc(ctx, tenant) }

// Find implements [Part].
func (f Func) Find(ctx context.Context, tenant string) (int, error) { return f.FindFunc(ctx, tenant) }

// Tenants deletes tenants. It may be used concurrently.
type Tenants struct {
	store kv.Eraser
	parts []Part
	turn  chan struct{} // full while a deletion runs
}

// New returns the deletion of tenants from a store and the parts beside it. Delete and
// Resume may run concurrently only in the same Tenants, so a program has one for each
// store.
func New(store kv.Eraser, parts ...Part) *Tenants {
	return &Tenants{store: store, parts: parts, turn: make(chan struct{}, 1)}
}

// Delete deletes all data of a tenant, and returns when no file contains any of it. If
// ctx or the process ends earlier, the tenant stays deleted for readers, and Delete or
// Resume completes the deletion. The name may be used again afterwards. Code
// resource_exhausted without room for merging files, unavailable if the store closes.
func (t *Tenants) Delete(ctx context.Context, tenant string) error {
	partition, err := host.TenantPartition(tenant)
	if err != nil {
		return err
	}
	if err := t.store.BeginErase(ctx, partition); err != nil {
		return kverror.Wrap(err, "delete tenant %q", tenant)
	}
	return t.complete(ctx, partition)
}

// complete completes the deletion of a tenant that has begun, unless another call has
// done so meanwhile: the name may be in use again.
func (t *Tenants) complete(ctx context.Context, partition string) error {
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return kverror.Wrap(ctx.Err(), "delete tenant %q", partition)
	}
	// The parts' tombstones are removed from the files with those of the partition. Other
	// hosts that share the store may complete the deletion between two steps.
	for _, p := range append(slices.Clone(t.parts), Func{What: "store", EraseFunc: t.store.CompleteErase}) {
		begun, err := t.store.Erasing(ctx)
		if err != nil || !slices.Contains(begun, partition) {
			return kverror.Wrap(err, "delete tenant %q", partition)
		}
		if err := p.Erase(ctx, partition); err != nil {
			return kverror.Wrap(fmt.Errorf("%s: %w", p.Name(), err), "delete tenant %q", partition)
		}
	}
	return nil
}

// Resume completes interrupted deletions. If one fails, Resume continues with the
// others.
func (t *Tenants) Resume(ctx context.Context) error {
	begun, err := t.store.Erasing(ctx)
	if err != nil {
		return kverror.Wrap(err, "list deletions that were interrupted")
	}
	var errs []error
	for _, partition := range begun {
		errs = append(errs, t.complete(ctx, partition))
	}
	return errors.Join(errs...)
}

// Report lists the stored data of a tenant.
type Report struct {
	Tenant string `json:"tenant"`
	// Store is the data in the store's files.
	Store *kv.Proof `json:"store"`
	// Parts is the data in the places beside it.
	Parts []Found `json:"parts"`
	// Gone reports that no data was found.
	Gone bool `json:"gone"`
}

// Found counts a part's data of a tenant.
type Found struct {
	Part  string `json:"part"`
	Found int    `json:"found"`
}

// Prove reads all stored data, and reports a tenant's share. It takes as long as reading
// every file of the store.
func (t *Tenants) Prove(ctx context.Context, tenant string) (*Report, error) {
	partition, err := host.TenantPartition(tenant)
	if err != nil {
		return nil, err
	}
	r := &Report{Tenant: partition, Parts: []Found{}}
	if r.Store, err = t.store.Prove(ctx, partition); err != nil {
		return nil, kverror.Wrap(err, "prove what is kept of tenant %q", tenant)
	}
	r.Gone = r.Store.Gone()
	for _, p := range t.parts {
		n, err := p.Find(ctx, partition)
		if err != nil {
			return nil, host.Errorf(host.CodeOf(err), "prove what is kept of tenant %q: %s: %w", tenant, p.Name(), err)
		}
		r.Parts = append(r.Parts, Found{p.Name(), n})
		r.Gone = r.Gone && n == 0
	}
	return r, nil
}

// Package erasure deletes tenants: from a store, and from everything beside it that
// keeps what belongs to them.
//
//	tenants := erasure.New(store, erasure.Func{What: "jobs", EraseFunc: jobs.EraseTenant})
//	err := tenants.Resume(ctx) // what the last process did not end
//	err = tenants.Delete(ctx, "acme")
//	report, err := tenants.Prove(ctx, "acme")
//
// A tenant's threads, sessions, artifacts, memory, jobs, journals and what plugins
// keep for it are in its partition of the store. What lies elsewhere is a [Part].
// From the moment that Delete has begun reads of the tenant find nothing, and writes
// for it are refused; it has ended when nothing of the tenant is in any file. A
// deletion that was interrupted is written down in the store, and Resume ends it.
package erasure

import (
	"context"
	"errors"
	"fmt"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// Part is a place beside the store that keeps what belongs to tenants: whatever
// stores something by tenant outside its partition has one.
type Part interface {
	// Name says what the place keeps, in a word: "traces".
	Name() string
	// Erase removes all that the place has of a tenant. It may be repeated, and is,
	// after a process was killed. The store serves no read or write of the tenant
	// meanwhile.
	Erase(ctx context.Context, tenant string) error
	// Find counts what the place has of a tenant.
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
}

// New returns what deletes tenants from a store and parts beside it.
func New(store kv.Eraser, parts ...Part) *Tenants { return &Tenants{store, parts} }

// Delete deletes all that is kept of a tenant, and returns when nothing of it is in
// any file. If ctx ends, or the process, the tenant stays deleted for readers, and
// Delete or Resume ends the rest. The name may be used again afterwards. Code
// resource_exhausted without room for merging files, unavailable if the store closes.
func (t *Tenants) Delete(ctx context.Context, tenant string) error {
	partition, err := host.TenantPartition(tenant)
	if err != nil {
		return err
	}
	if err := t.store.BeginErase(ctx, partition); err != nil {
		return kverror.Wrap(err, "delete tenant %q", tenant)
	}
	// Tombstones that a part writes leave the files with those of the partition.
	for _, p := range t.parts {
		if err := p.Erase(ctx, partition); err != nil {
			return kverror.Wrap(fmt.Errorf("%s: %w", p.Name(), err), "delete tenant %q", tenant)
		}
	}
	return kverror.Wrap(t.store.Erase(ctx, partition), "delete tenant %q", tenant)
}

// Resume ends deletions that were interrupted. One that fails does not keep it from
// the others.
func (t *Tenants) Resume(ctx context.Context) error {
	begun, err := t.store.Erasing(ctx)
	if err != nil {
		return kverror.Wrap(err, "list deletions that were interrupted")
	}
	var errs []error
	for _, tenant := range begun {
		errs = append(errs, t.Delete(ctx, tenant))
	}
	return errors.Join(errs...)
}

// Report lists the stored data of a tenant.
type Report struct {
	Tenant string `json:"tenant"`
	// Store is what the store's files have.
	Store *kv.Proof `json:"store"`
	// Parts are the places beside it.
	Parts []Found `json:"parts"`
	// Gone says that nothing was found.
	Gone bool `json:"gone"`
}

// Found is what a part has of a tenant.
type Found struct {
	Part  string `json:"part"`
	Found int    `json:"found"`
}

// Prove reads all that is kept, and says what of it is a tenant's. It takes as long
// as reading every file of the store.
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

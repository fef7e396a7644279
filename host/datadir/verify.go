package datadir

import (
	"context"
	"errors"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
)

// Verification is the result of [Dir.Verify]: the amount of data read, and the damage
// found.
type Verification struct {
	Tenants  int       `json:"tenants"`
	Threads  int       `json:"threads"`
	Messages int       `json:"messages"`
	Turns    int       `json:"turns"`
	Blobs    int       `json:"blobs"`
	Bytes    int64     `json:"bytes"`
	Damaged  []Damaged `json:"damaged"`
	// More reports more damage than is listed.
	More bool `json:"more,omitempty"`
}

// Damaged is an entry or a file whose content differs from the stored one. Without a
// thread it is an entry or a file of the store.
type Damaged struct {
	Tenant string      `json:"tenant,omitempty"`
	Thread string      `json:"thread,omitempty"`
	Error  *host.Error `json:"error"`
}

// maxDamaged bounds the list of damaged entries and files.
const maxDamaged = 100

func (v *Verification) addDamaged(tenant, thread string, err error) {
	if len(v.Damaged) == maxDamaged {
		v.More = true
		return
	}
	v.Damaged = append(v.Damaged, Damaged{tenant, thread, fault.AsError(err)})
}

// Verify reads the whole store: the files of a directory, every entry, and every thread of
// every tenant. It calls tell with the number of threads read. Damage is part of the
// result, not an error. Code failed_precondition unless [Dir.KeepsHouse].
func (d *Dir) Verify(ctx context.Context, tell func(threads int)) (*Verification, error) {
	out := &Verification{Damaged: []Damaged{}}
	if err := d.verifyFiles(out); err != nil {
		return nil, err
	}
	if err := d.verifyDigests(ctx, out); err != nil {
		return nil, err
	}
	for tenant, err := range d.Tenants(ctx) {
		if err != nil {
			return nil, err
		}
		before := out.Threads
		if err := d.verifyTenant(ctx, tenant, out, tell); err != nil {
			return nil, err
		}
		if out.Threads > before { // a partition without threads is the queue's, not a tenant's
			out.Tenants++
		}
	}
	return out, nil
}

// verifyFiles reads the files of a directory's store. Those of a database are the
// server's to check.
func (d *Dir) verifyFiles(out *Verification) error {
	if d.db == nil {
		return nil
	}
	err := d.db.Verify()
	if errors.Is(err, kv.ErrCorrupt) {
		out.addDamaged("", "", host.Errorf(host.DataLoss, "a table cannot be read: %w", err).WithHint("restore it from a backup"))
		return nil
	}
	return err
}

// verifyTenant reads every thread of a tenant.
func (d *Dir) verifyTenant(ctx context.Context, tenant string, out *Verification, tell func(int)) error {
	all := threads.New(d.Driver, nil).For(tenant)
	opts := &threads.ListOptions{Limit: threads.MaxListLimit}
	for {
		page, err := all.List(ctx, opts)
		if ctx.Err() != nil {
			return err
		}
		if err != nil {
			out.addDamaged(tenant, "", err)
			return nil
		}
		for _, t := range page.Threads {
			v, err := all.Verify(ctx, t.ID)
			switch {
			case ctx.Err() != nil:
				return err
			case host.CodeOf(err) == host.NotFound:
				continue // deleted since
			case err != nil:
				out.addDamaged(tenant, t.ID, err)
			}
			out.Threads++
			if v != nil {
				out.Messages, out.Turns = out.Messages+v.Messages, out.Turns+v.Turns
				out.Blobs, out.Bytes = out.Blobs+v.Blobs, out.Bytes+v.Bytes
			}
			tell(out.Threads)
		}
		if opts.Cursor = page.Next; page.Next == "" {
			return nil
		}
	}
}

// verifyDigests compares every entry with its digest, also entries that no thread
// contains: memories, jobs, plugins' keys, and the host's own.
func (d *Dir) verifyDigests(ctx context.Context, out *Verification) error {
	for partition, err := range d.Partitions(ctx) {
		if err != nil {
			return err
		}
		for e, err := range kv.Damaged(ctx, d.Driver, partition) {
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case errors.Is(err, kv.ErrCorrupt) && e.Key != "":
				out.addDamaged(partition, "", host.Errorf(host.DataLoss, "the value of key %s is not what was stored", e.Key).WithHint("restore it from a backup"))
			default: // the rest of the partition cannot be read
				out.addDamaged(partition, "", err)
			}
		}
	}
	return nil
}

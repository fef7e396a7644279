package memory

import (
	"context"
	"errors"
	"sync"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/cache"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// DefaultVectorBytes is the default of Options.VectorBytes.
const DefaultVectorBytes = 256 << 20

// scopeVectors is the table of a scope's vectors as of one point in its changes.
type scopeVectors struct {
	loading chan struct{} // of capacity 1: who reads vectors from the store

	mu    sync.RWMutex
	table *vectorTable // nil: not read yet
	seq   uint64       // of the scope's record
}

func newVectorCache(maxBytes int) *cache.Cache[content, *scopeVectors] {
	return cache.New(cache.Options[content, *scopeVectors]{
		MaxBytes: int64(maxBytes),
		Cost:     func(of content, v *scopeVectors) int64 { return int64(len(of)) + vectorBytes + v.bytes() },
	})
}

func (v *scopeVectors) bytes() int64 {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.table == nil {
		return 0
	}
	return v.table.bytes()
}

// fresh reports whether the table has the changes up to seq.
func (v *scopeVectors) fresh(seq uint64, dimensions int) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.table != nil && v.seq >= seq && v.table.dimensions == dimensions
}

// nearest returns the memories of a scope whose vectors are nearest to q.
func (m *meaning) nearest(ctx context.Context, driver kv.Driver, o *opened, q vector, n int) ([]candidate, error) {
	if need := vectorTableBytes(o.Count, len(q.values)); need > int64(m.maxBytes) {
		return nil, host.Errorf(host.ResourceExhausted, "the vectors of the scope have about %d bytes, more than the limit VectorBytes of %d", need, m.maxBytes).
			WithHint("raise it, choose fewer dimensions, or delete memories")
	}
	v := m.cache.Update(o.content(), func(cached *scopeVectors, found bool) (*scopeVectors, bool) {
		if found {
			return cached, true
		}
		return &scopeVectors{loading: make(chan struct{}, 1)}, true
	})
	if !v.fresh(o.Seq, len(q.values)) {
		if err := m.refresh(ctx, driver, o, v, len(q.values)); err != nil {
			return nil, err
		}
		m.cache.Update(o.content(), func(cached *scopeVectors, _ bool) (*scopeVectors, bool) { return v, cached == v }) // it costs more
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.table.nearest(q, n, m.minSimilarity), nil
}

// refresh brings a table up to date: by the entries of the memories that have changed since,
// if the scope's record still names them, otherwise by all.
func (m *meaning) refresh(ctx context.Context, driver kv.Driver, o *opened, v *scopeVectors, dimensions int) error {
	select {
	case v.loading <- struct{}{}:
		defer func() { <-v.loading }()
	case <-ctx.Done():
		return kverror.Wrap(ctx.Err(), "wait for the vectors of memories")
	}
	if v.fresh(o.Seq, dimensions) {
		return nil
	}
	v.mu.RLock()
	behind, usable := o.Seq-v.seq, v.table != nil && v.table.dimensions == dimensions
	v.mu.RUnlock()
	if usable && behind <= uint64(len(o.Recent)) {
		return m.refreshRecent(ctx, driver, o, v, o.Recent[len(o.Recent)-int(behind):])
	}
	table, err := m.readTable(ctx, driver, o, dimensions)
	if err != nil {
		return err
	}
	v.mu.Lock()
	v.table, v.seq = table, o.Seq
	v.mu.Unlock()
	return nil
}

func (m *meaning) refreshRecent(ctx context.Context, driver kv.Driver, o *opened, v *scopeVectors, ids []string) error {
	type change struct {
		id   string
		v    vector
		gone bool
	}
	var changes []change
	for _, id := range ids {
		e, err := driver.Get(ctx, o.scope.partition(), o.content().vector(id))
		if err != nil && !errors.Is(err, kv.ErrNotFound) {
			return kverror.Wrap(err, "read the vectors of memories")
		}
		got, _, ok := decodeVector(e.Value, m.print)
		changes = append(changes, change{id, got, err != nil || !ok})
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range changes {
		if c.gone {
			v.table.drop(c.id)
		} else {
			v.table.put(c.id, c.v)
		}
	}
	v.seq = o.Seq
	return nil
}

func (m *meaning) readTable(ctx context.Context, driver kv.Driver, o *opened, dimensions int) (*vectorTable, error) {
	table := newVectorTable(dimensions)
	err := eachVector(ctx, driver, o, func(id string, entry []byte) {
		if v, _, ok := decodeVector(entry, m.print); ok && len(table.ids) < MaxMemories {
			table.put(id, v)
		}
	})
	return table, err
}

// eachVector calls f for each entry of a scope's vectors, in the order of ids.
func eachVector(ctx context.Context, driver kv.Driver, o *opened, f func(id string, entry []byte)) error {
	prefix := o.content().vectors()
	for e, err := range kv.All(ctx, driver, o.scope.partition(), kv.Range{Prefix: prefix, Limit: kv.MaxScanLimit}) {
		if err != nil {
			return kverror.Wrap(err, "read the vectors of memories")
		}
		rest, _ := e.Key.CutPrefix(prefix)
		if id, _, ok := rest.CutString(); ok {
			f(id, e.Value)
		}
	}
	return nil
}

// Package changerow lets the hosts of a store follow each other's changes of records. A
// row beside the records has the number of the last change and the ids of the last 256;
// each change of a record writes both in one transaction, on condition of the revisions of
// both. A host reads the row twice a second, and when the store wakes it, then the records
// that changed, and all records if it has missed more changes than the row has.
package changerow

import (
	"context"
	"errors"
	"time"

	"github.com/agenthost/agenthost/host/kv"
)

const (
	// Interval is how often a host looks for the changes of others, which it must know
	// within a second.
	Interval = 500 * time.Millisecond

	maxChanges = 256 // that the row has
	layout     = 1
)

// Row is the stored row.
type Row struct {
	V     int      `json:"v"`
	Seq   uint64   `json:"seq"`   // of the last change
	Count int      `json:"count"` // of records
	IDs   []string `json:"ids"`   // of the last changes, the last one at the end
}

// Read returns a row with its revision; the zero Row at revision 0 if there is none.
func Read(ctx context.Context, d kv.Driver, partition string, key kv.Key) (r Row, revision uint64, err error) {
	e, err := d.Get(ctx, partition, key)
	if errors.Is(err, kv.ErrNotFound) {
		return r, 0, nil
	}
	if err != nil {
		return r, 0, err
	}
	if err := kv.DecodeRecord(e.Value, &r); err != nil {
		return r, 0, err
	}
	if r.V > layout {
		return r, 0, kv.ErrFormat
	}
	return r, e.Revision, nil
}

// Add returns the row with another change. grows is 1 for a new record, -1 for a removed
// one, and 0 for another change.
func (r Row) Add(id string, grows int) Row {
	ids := append(r.IDs[max(0, len(r.IDs)-maxChanges+1):len(r.IDs):len(r.IDs)], id)
	return Row{V: layout, Seq: r.Seq + 1, Count: r.Count + grows, IDs: ids}
}

// Since returns the ids of the records that changed after a change, or false if the row
// does not reach back so far.
func (r Row) Since(seq uint64) ([]string, bool) {
	if r.Seq < seq || r.Seq-seq > uint64(len(r.IDs)) {
		return nil, false
	}
	return r.IDs[uint64(len(r.IDs))-(r.Seq-seq):], true
}

// Follow calls read every [Interval], and after each change of a partition if the store
// wakes processes, until ctx ends.
func Follow(ctx context.Context, d kv.Driver, partition string, read func(context.Context)) {
	var woken <-chan struct{}
	if n := kv.NotifierOf(d); n != nil {
		if changed, stop, err := n.Watch(partition); err == nil {
			woken = changed
			defer stop()
		}
	}
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-woken:
		case <-tick.C:
		}
		read(ctx)
	}
}

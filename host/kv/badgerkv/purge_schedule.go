package badgerkv

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/agenthost/agenthost/host/kv"
)

// purgeDue returns when the next purge is due; ok is false if nothing was deleted
// since the last.
func (e *engine) purgeDue(interval time.Duration) (due time.Time, ok bool, err error) {
	return e.dueAfter(purgeKey, deletionKey, interval)
}

// collectionDue returns when the next collection of large values is due, unless a purge
// precedes it; ok is false if no large value was written since the last collection.
func (e *engine) collectionDue(interval time.Duration) (due time.Time, ok bool, err error) {
	return e.dueAfter(collectKey, blobsKey, interval)
}

// dueAfter returns the time in the key done plus an interval; ok is false if cause was
// not written since.
func (e *engine) dueAfter(done, cause string, interval time.Duration) (due time.Time, ok bool, err error) {
	txn := e.db.NewTransaction(false)
	defer txn.Discard()
	written, err := txn.Get([]byte(cause))
	if errors.Is(err, badger.ErrKeyNotFound) {
		return due, false, nil
	}
	if err != nil {
		return due, false, readError(err)
	}
	last, err := txn.Get([]byte(done))
	if errors.Is(err, badger.ErrKeyNotFound) {
		return e.made().Add(interval), true, nil
	}
	if err != nil {
		return due, false, readError(err)
	}
	if written.Version() < last.Version() {
		return due, false, nil
	}
	value, err := last.ValueCopy(nil)
	if err != nil || len(value) != 8 {
		return due, false, readError(errors.Join(err, kv.ErrCorrupt))
	}
	return time.UnixMicro(int64(binary.BigEndian.Uint64(value))).Add(interval), true, nil
}

// made returns the modification time of the format file, which is when the store was
// made; if that cannot be read, the zero time.
func (e *engine) made() time.Time {
	info, err := os.Stat(filepath.Join(e.dir, formatFile))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// purgeChecks is how many times an interval the store checks whether a purge is due,
// firstPurgeCheck the latest time of the first check: a command that runs for a moment
// does not begin a purge that it would break off.
const (
	purgeChecks     = 24
	firstPurgeCheck = time.Minute
)

// keepPurged purges the store whenever a purge is due, until ctx ends.
func (s *Store) keepPurged(ctx context.Context, interval time.Duration) {
	every := max(interval/purgeChecks, time.Millisecond)
	for wait := min(every, firstPurgeCheck); sleep(ctx, wait) == nil; wait = every {
		due, ok, err := s.engine.collectionDue(interval)
		if err == nil && (s.uncollected.Load() || ok && !time.Now().Before(due.Add(-every))) {
			err = s.collectUncollected(ctx)
		}
		if err == nil {
			due, ok, err = s.engine.purgeDue(interval)
		}
		if err == nil && ok && !time.Now().Before(due.Add(-every)) {
			err = s.Purge(ctx)
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, kv.ErrClosed) {
			s.engine.logger.WarnContext(ctx, "deleted data is still in the store's files; it is tried again", "error", err)
		}
	}
}

package badgerkv

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/agenthost/agenthost/host/kv"
)

// Badger keeps deleted and replaced entries in its log and tables until a compaction
// reads them, which never happens to a table without newer overlapping tables. A purge
// causes these compactions: filler entries make the memtable full, so that it becomes a
// table and its log is removed; then each table is merged down to the last level, with
// the overlapping tables there, which leaves one version of each key and no deletion
// marks.
const (
	// DefaultPurgeInterval is how long deleted bytes stay in the files at most, apart
	// from the time that the purge takes.
	DefaultPurgeInterval = 24 * time.Hour
	// purgeFree is how many bytes must be free for a purge beyond those for a commit:
	// enough for the filler, its table, and a merge.
	purgeFree = 8 * memTableSize
	// fillerBytes is the size of a filler entry, fillerEntries their number in a
	// commit. They are zeros, which a table compresses well.
	fillerBytes   = 512 << 10
	fillerEntries = 3
	// maxFillers bounds the filler commits of a flush: four memtables' worth.
	maxFillers = 4 * memTableSize / (fillerBytes * fillerEntries)
	// purgeShare is the length of a purge's first rests, as a multiple of the work
	// before, so that other callers keep their speed; maxRest bounds one rest, and
	// restCheck is how often a rest checks whether callers fill level 0, which only the
	// purge empties meanwhile.
	purgeShare = 8
	maxRest    = 2 * time.Second
	restCheck  = 20 * time.Millisecond
)

// The package's own keys beside deletionKey.
var (
	// purgeKey has the time of the last purge; its version says which deletions that
	// purge covers.
	purgeKey  = string([]byte{ownSpace, 'p'})
	fillerKey = string([]byte{ownSpace, 'f'})
	// eraseKey is written by every erasure, for its version: a revision is given once,
	// even if the entries that had it are gone.
	eraseKey = string([]byte{ownSpace, 'e'})
	// blobsKey is written with every large value, which may replace another, for its
	// version; collectKey has the time of the last collection of large values.
	blobsKey   = string([]byte{ownSpace, 'b'})
	collectKey = string([]byte{ownSpace, 'c'})
)

// Purge removes the entries that were deleted or replaced before the call from the
// files: when it returns, their bytes are in no table, no log and no blob. It rests
// between its steps, so that other callers keep most of their speed, less when they
// write faster than it merges, and waits for backups that began before. A store purges
// itself, see Options.PurgeInterval.
//
// Errors: [kv.ErrNoSpace] if the device has too little room for merging tables,
// [kv.ErrClosed], ctx's.
func (s *Store) Purge(ctx context.Context) error {
	if err := s.purge(ctx); err != nil {
		return fmt.Errorf("purge store: %w", err)
	}
	return nil
}

func (s *Store) purge(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.RUnlock()
	ctx, cancel := s.closing.until(ctx)
	defer cancel()
	return s.purgeOpen(ctx)
}

// purgeOpen purges the store. The caller keeps it open meanwhile; ctx is from
// closeSignal.until.
func (s *Store) purgeOpen(ctx context.Context) error {
	select {
	case s.merger.purging <- struct{}{}:
		defer func() { <-s.merger.purging }()
	case <-ctx.Done():
		return endOf(ctx)
	}
	covered, err := s.engine.versionOf(deletionKey)
	if err != nil {
		return err
	}
	notePurge := func(ctx context.Context) error { return s.engine.note(ctx, purgeKey, deletionKey, covered) }
	for _, step := range []func(context.Context) error{s.merger.checkPurgeSpace, s.merger.waitForSnapshots, s.merger.flushMemtable, s.merger.settleLevel0, s.merger.mergeTables, s.merger.waitForSnapshots, s.collector.collectBlobs, notePurge} {
		if err := step(ctx); err != nil {
			return errors.Join(err, endOf(ctx))
		}
	}
	return nil
}

// until returns a context that also ends when the store begins to close.
func (c *closeSignal) until(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	c.Lock()
	closing := c.ch
	c.Unlock()
	stop := make(chan struct{})
	go func() { // ends with the cancel function
		select {
		case <-closing:
			cancel(kv.ErrClosed)
		case <-stop:
		}
	}()
	return ctx, sync.OnceFunc(func() {
		close(stop)
		cancel(nil)
	})
}

// endOf returns why ctx has ended: the caller's reason, or that the store closes.
func endOf(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), kv.ErrClosed) {
		return kv.ErrClosed
	}
	return ctx.Err()
}

func (m *tableMerger) checkPurgeSpace(context.Context) error {
	return checkFree(m.engine.dir, m.engine.minFree+purgeFree)
}

// waitForSnapshots waits for readers of an old moment, for which Badger keeps files and
// entries that were deleted since. A read that begins later sees the deletions.
func (m *tableMerger) waitForSnapshots(ctx context.Context) error {
	for !m.snapshots.TryLock() {
		if err := sleep(ctx, restCheck); err != nil {
			return err
		}
	}
	defer m.snapshots.Unlock()
	m.engine.db.NewTransaction(false).Discard() // Badger may drop deleted versions below its timestamp
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// flushMemtable returns when all earlier writes are in tables and their logs are gone.
func (m *tableMerger) flushMemtable(ctx context.Context) error {
	logs, err := filepath.Glob(filepath.Join(m.engine.dir, "*.mem"))
	if err != nil {
		return err
	}
	for fillers := 0; anyExists(logs); {
		began := time.Now()
		if fillers < maxFillers && newestExists(logs) {
			fillers++
			if err := m.engine.commitOwn(ctx, putFillers); err != nil {
				return err
			}
		}
		if err := sleep(ctx, max(time.Millisecond, min(purgeShare*time.Since(began), maxRest))); err != nil {
			return err
		}
	}
	return m.engine.commitOwn(ctx, deleteFillers)
}

// putFillers overwrites the filler entries, deleteFillers deletes them.
func putFillers(txn *badger.Txn) error {
	for i := range byte(fillerEntries) {
		if err := txn.Set(append([]byte(fillerKey), i), make([]byte, fillerBytes)); err != nil {
			return err
		}
	}
	return nil
}

func deleteFillers(txn *badger.Txn) error {
	for i := range byte(fillerEntries) {
		if err := txn.Delete(append([]byte(fillerKey), i)); err != nil {
			return err
		}
	}
	return nil
}

// settleLevel0 makes Badger merge the tables of level 0 if all tables are there:
// Flatten merges nothing then, and Badger by itself nothing below level0Tables tables.
func (m *tableMerger) settleLevel0(ctx context.Context) error {
	for m.engine.onlyLevel0() {
		if m.engine.db.Levels()[0].NumTables < level0Tables {
			if err := m.flushMemtable(ctx); err != nil {
				return err
			}
		}
		if err := sleep(ctx, restCheck); err != nil {
			return err
		}
	}
	return nil
}

func (e *engine) onlyLevel0() bool {
	for _, level := range e.db.Levels()[1:] {
		if level.NumTables > 0 {
			return false
		}
	}
	return true
}

func anyExists(paths []string) bool {
	for _, path := range paths {
		if _, err := os.Lstat(path); err == nil {
			return true
		}
	}
	return false
}

// newestExists reports whether the last of the logs exists: while Badger writes to it,
// filling it makes Badger close it.
func newestExists(logs []string) bool { return len(logs) > 0 && anyExists(logs[len(logs)-1:]) }

// commitOwn commits entries of the package's own, or deletions of entries that no
// caller sees any more.
func (e *engine) commitOwn(ctx context.Context, fn func(*badger.Txn) error) error {
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := e.checkWritable(); err != nil {
		return err
	}
	txn := e.db.NewTransaction(true)
	defer txn.Discard()
	if err := fn(txn); err != nil {
		return err
	}
	return e.commitTxn(txn)
}

// versionOf returns the version of one of the package's own keys, 0 if the key is not
// written.
func (e *engine) versionOf(key string) (uint64, error) {
	txn := e.db.NewTransaction(false)
	defer txn.Discard()
	item, err := txn.Get([]byte(key))
	if errors.Is(err, badger.ErrKeyNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, readError(err)
	}
	return item.Version(), nil
}

// note writes the time of the work that covers the changes under the key cause, up to
// the version covered, to the key done. It writes cause again if cause has a later
// version, so that both get the same version and the next work covers the later
// changes.
func (e *engine) note(ctx context.Context, done, cause string, covered uint64) error {
	return e.commitOwn(ctx, func(txn *badger.Txn) error {
		if now, err := e.versionOf(cause); err != nil {
			return err
		} else if now > covered {
			if err := txn.Set([]byte(cause), nil); err != nil {
				return err
			}
		}
		return txn.Set([]byte(done), binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixMicro())))
	})
}

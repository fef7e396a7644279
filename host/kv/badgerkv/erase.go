package badgerkv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/table"

	"github.com/agenthost/agenthost/host/kv"
)

const (
	// maxEraseRounds bounds how often an erasure drops a partition until no entry is
	// left. A second round is for a merge of level 0 that failed during the first,
	// which Badger only logs.
	maxEraseRounds = 8
	// drainedBytes is the size to which an erasure drains the level below level 0
	// before it drops a partition, in at most maxDrainMerges merges; after each merge
	// it rests eraseShare times as long as the merge took.
	drainedBytes   = 4 << 20
	maxDrainMerges = 128
	eraseShare     = 4
)

var _ kv.Eraser = (*Store)(nil)

// BeginErase implements [kv.Eraser].
func (s *Store) BeginErase(ctx context.Context, partition string) error {
	if err := kv.ValidateKey(partition, "k"); err != nil {
		return fmt.Errorf("begin to erase partition: %w", err)
	}
	if err := s.enter(ctx); err != nil {
		return fmt.Errorf("begin to erase partition: %w", err)
	}
	defer s.mu.RUnlock()
	err := s.engine.betweenCommits(ctx, func() error {
		if err := s.keys.beginErasing(partition); err != nil {
			return err
		}
		s.heads.forgetPartition(engineKey(partition, ""))
		return nil
	})
	if err != nil {
		return fmt.Errorf("begin to erase partition: %w", err)
	}
	return nil
}

// betweenCommits calls fn while no commit is being made: one finds a partition marked from
// its beginning to its end, or not at all.
func (e *engine) betweenCommits(ctx context.Context, fn func() error) error {
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return fn()
}

// Erasing implements [kv.Eraser].
func (s *Store) Erasing(ctx context.Context) ([]string, error) {
	if err := s.enter(ctx); err != nil {
		return nil, fmt.Errorf("list what is being erased: %w", err)
	}
	defer s.mu.RUnlock()
	return s.keys.erasingNames(), nil
}

// Erase implements [kv.Eraser]. It returns when no table, no log and no blob has an
// entry of the partition. Other callers wait while Badger drops the partition's tables,
// which takes as long as merging some tens of megabytes, whatever the size of the
// partition.
func (s *Store) Erase(ctx context.Context, partition string) error {
	if err := s.BeginErase(ctx, partition); err != nil {
		return err
	}
	return s.CompleteErase(ctx, partition)
}

// CompleteErase implements [kv.Eraser].
func (s *Store) CompleteErase(ctx context.Context, partition string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("erase partition: %w", err)
		}
	}()
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.RUnlock()
	ctx, cancel := s.closing.until(ctx)
	defer cancel()
	select {
	case s.merger.purging <- struct{}{}:
		defer func() { <-s.merger.purging }()
	case <-ctx.Done():
		return errors.Join(ctx.Err(), endOf(ctx))
	}
	if !s.keys.isErasing(partition) {
		return nil // another call has erased it, and callers may have written to it since
	}
	if err := s.blobs.eraseBlobs(ctx, partition); err != nil {
		return errors.Join(err, endOf(ctx))
	}
	if err := s.merger.erasePrefix(ctx, engineKey(partition, "")); err != nil {
		return errors.Join(err, endOf(ctx))
	}
	if err := s.engine.betweenCommits(ctx, func() error { return s.keys.endErasing(partition) }); err != nil {
		return errors.Join(err, endOf(ctx))
	}
	return nil
}

// erasePrefix removes every version of every key of a prefix from the files. The caller
// has the token of purges: purges and erasures both stop Badger's compactions and start
// them again.
func (m *tableMerger) erasePrefix(ctx context.Context, prefix []byte) error {
	for range maxEraseRounds {
		drop := func(ctx context.Context) error { return m.dropPrefix(ctx, prefix) }
		for _, step := range []func(context.Context) error{m.checkPurgeSpace, m.waitForSnapshots, m.drainUpperLevels, drop} {
			if err := step(ctx); err != nil {
				return err
			}
		}
		left, err := m.engine.countVersions(ctx, prefix)
		if err != nil {
			return err
		}
		if left == 0 {
			return m.eraseLost(prefix)
		}
	}
	return fmt.Errorf("a merge of tables failed in each of %d rounds; erase it again", maxEraseRounds)
}

// dropPrefix has Badger drop the tables that only have keys of the prefix, unread, and
// rewrite those at their borders without them. Badger refuses writes meanwhile, so
// commits wait for their turn here. Badger does nothing if every key is deleted, as
// after a process was killed behind a deletion; the entry that dropPrefix writes at the
// prefix itself, which is no caller's key, makes it look.
func (m *tableMerger) dropPrefix(ctx context.Context, prefix []byte) error {
	mark := func(txn *badger.Txn) error {
		return errors.Join(txn.Set(prefix, nil), txn.Set([]byte(eraseKey), nil))
	}
	if err := m.engine.commitOwn(ctx, mark); err != nil {
		return err
	}
	logs, err := m.dropInTurn(ctx, prefix)
	if err != nil {
		return err
	}
	return m.engine.waitForReplaced(ctx, logs)
}

// dropInTurn holds the commit token, drops a prefix, and returns the logs of the
// memtables that Badger made tables of. Badger removes all logs before it makes a new one,
// as when it closes: the inventory says so meanwhile, for a process that is killed between.
func (m *tableMerger) dropInTurn(ctx context.Context, prefix []byte) (logs []string, err error) {
	select {
	case m.engine.turn <- struct{}{}:
		defer func() { <-m.engine.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := m.engine.checkWritable(); err != nil {
		return nil, err
	}
	if logs, err = filepath.Glob(filepath.Join(m.engine.dir, "*.mem")); err != nil {
		return nil, err
	}
	m.engine.describing.Lock()
	defer m.engine.describing.Unlock()
	if err := writeInventory(m.engine.dir, closing); err != nil {
		return nil, err
	}
	if err := m.engine.db.DropPrefix(prefix); err != nil {
		// Badger may have the memtable in its list twice, and would end the process on
		// a write.
		broken := fmt.Errorf("%w after a partition could not be dropped (%v); restart, and check the device", kv.ErrReadOnly, err)
		m.engine.broken.CompareAndSwap(nil, &broken)
		return nil, fileError(err)
	}
	m.engine.writeOpenInventory() // keepInventory repeats one that fails, for the MANIFEST has changed
	return logs, nil
}

// drainUpperLevels merges level 0, and the level below it, downwards, and waits for
// running compactions: when a prefix is dropped, commits wait for the merge of the
// entries that these levels still have. If callers write faster than it merges, their
// commits wait longer.
func (m *tableMerger) drainUpperLevels(ctx context.Context) error {
	return m.flatten(&pacer{ctx: ctx, merger: m, share: eraseShare, left: m.engine.undrained, maxMerges: maxDrainMerges})
}

// undrained returns the size of level 0 and of the level below it, unless that is the
// last; 0 if the size is small.
func (e *engine) undrained() int64 {
	levels := e.db.Levels()
	bytes, limit := levels[0].Size, int64(0)
	for _, level := range levels[1:lastLevel] {
		if level.NumTables > 0 {
			bytes, limit = bytes+level.Size, drainedBytes
			break
		}
	}
	if levels[0].NumTables == 0 && bytes <= limit {
		return 0
	}
	return bytes
}

// countVersions counts the versions of keys of a prefix in tables and logs, also
// deletion marks.
func (e *engine) countVersions(ctx context.Context, prefix []byte) (n int, err error) {
	txn := e.db.NewTransaction(false)
	defer txn.Discard()
	it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix, AllVersions: true})
	defer it.Close()
	for it.Seek(prefix); it.Valid(); it.Next() {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// eraseLost removes the tables in [LostDir] that have keys of a prefix, and those that
// it cannot read: a table of a killed process may have entries of the partition.
func (m *tableMerger) eraseLost(prefix []byte) error {
	names, _ := filepath.Glob(filepath.Join(m.engine.dir, LostDir, "*")) // the pattern is right
	for _, name := range names {
		if n, err := countInTable(name, prefix); err == nil && n == 0 {
			continue
		}
		m.engine.logger.Warn("a table in "+LostDir+" may hold what was erased, and is removed", "table", filepath.Base(name))
		if err := os.Remove(name); err != nil {
			return fileError(err)
		}
	}
	return nil
}

// countInTable counts the entries of a prefix in the file of a table that is not
// encrypted.
func countInTable(path string, prefix []byte) (n int, err error) {
	defer func() {
		if p := recover(); p != nil { // the file is damaged
			err = fmt.Errorf("%w: %v", kv.ErrCorrupt, p)
		}
	}()
	content, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	t, err := table.OpenInMemoryTable(content, 0, &table.Options{Compression: options.Snappy, BlockSize: 4 << 10, ChkMode: options.OnTableRead})
	if err != nil {
		return 0, err
	}
	it := t.NewIterator(0)
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		if bytes.HasPrefix(it.Key(), prefix) {
			n++
		}
	}
	return n, nil
}

package badgerkv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/table"

	"github.com/agenthost/agenthost/host/kv"
)

const (
	// eraseBatch is how many keys an erasure deletes in one commit.
	eraseBatch = 256
	// maxEraseRounds bounds how often an erasure deletes and purges until nothing is
	// left. A second round is for what a reader held during the first.
	maxEraseRounds = 8
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
	select {
	case s.turn <- struct{}{}: // no commit is being made
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return fmt.Errorf("begin to erase partition: %w", ctx.Err())
	}
	if err := s.keys.beginErasing(partition); err != nil {
		return fmt.Errorf("begin to erase partition: %w", err)
	}
	s.heads.forgetPartition(engineKey(partition, ""))
	return nil
}

// Erasing implements [kv.Eraser].
func (s *Store) Erasing(ctx context.Context) ([]string, error) {
	if err := s.enter(ctx); err != nil {
		return nil, fmt.Errorf("list what is being erased: %w", err)
	}
	defer s.mu.RUnlock()
	return s.keys.erasingNames(), nil
}

// Erase implements [kv.Eraser]. It deletes in small commits and then purges, see
// [Store.Purge], and returns when no table and no log has a key of the partition.
func (s *Store) Erase(ctx context.Context, partition string) error {
	if err := s.BeginErase(ctx, partition); err != nil {
		return err
	}
	if err := s.erase(ctx, partition); err != nil {
		return fmt.Errorf("erase partition: %w", err)
	}
	return nil
}

func (s *Store) erase(ctx context.Context, partition string) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.RUnlock()
	ctx, cancel := s.untilClose(ctx)
	defer cancel()
	prefix := engineKey(partition, "")
	if err := s.eraseBlobs(ctx, partition); err != nil {
		return errors.Join(err, s.purgeEnded(ctx))
	}
	for round := range maxEraseRounds {
		if err := s.deleteAll(ctx, prefix, round > 0); err != nil {
			return errors.Join(err, s.purgeEnded(ctx))
		}
		if err := s.purgeOpen(ctx); err != nil {
			return err
		}
		left, err := s.countVersions(ctx, prefix)
		if err != nil {
			return err
		}
		if left == 0 {
			if err := s.eraseLost(prefix); err != nil {
				return err
			}
			return s.keys.endErasing(partition)
		}
	}
	return fmt.Errorf("readers held entries of it in each of %d rounds; erase it again", maxEraseRounds)
}

// deleteAll writes a deletion mark for each key of a prefix in tables and logs, or
// only for those that have none.
func (s *Store) deleteAll(ctx context.Context, prefix []byte, again bool) error {
	var after []byte
	for {
		began := time.Now()
		keys, err := s.versionedKeys(prefix, after, again)
		if err != nil || len(keys) == 0 {
			return err
		}
		err = s.commitOwn(ctx, func(txn *badger.Txn) error {
			for _, key := range keys {
				if err := txn.Delete(key); err != nil {
					return err
				}
			}
			return txn.Set([]byte(deletionKey), nil)
		})
		if err != nil {
			return err
		}
		after = keys[len(keys)-1]
		if err := sleep(ctx, purgeShare*time.Since(began)); err != nil {
			return err
		}
	}
}

// versionedKeys returns the next keys of a prefix of which some version is in the
// files; with marked also those whose last version is a deletion mark.
func (s *Store) versionedKeys(prefix, after []byte, marked bool) (keys [][]byte, err error) {
	txn := s.db.NewTransaction(false)
	defer txn.Discard()
	it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix, AllVersions: true})
	defer it.Close()
	from := prefix
	if after != nil {
		from = after
	}
	last := string(after)
	for it.Seek(from); it.Valid() && len(keys) < eraseBatch; it.Next() {
		item := it.Item()
		if key := string(item.Key()); key != last {
			last = key
			if marked || !item.IsDeletedOrExpired() {
				keys = append(keys, item.KeyCopy(nil))
			}
		}
	}
	return keys, nil
}

// countVersions counts what tables and logs have of a prefix, deletion marks too.
func (s *Store) countVersions(ctx context.Context, prefix []byte) (n int, err error) {
	txn := s.db.NewTransaction(false)
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

// eraseLost removes the tables in [LostDir] that have keys of a prefix, or of which
// that cannot be told: a table that a killed process left may have what is to go.
func (s *Store) eraseLost(prefix []byte) error {
	names, _ := filepath.Glob(filepath.Join(s.dir, LostDir, "*")) // the pattern is right
	for _, name := range names {
		if n, err := countInTable(name, prefix); err == nil && n == 0 {
			continue
		}
		s.logger.Warn("a table in "+LostDir+" may hold what was erased, and is removed", "table", filepath.Base(name))
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

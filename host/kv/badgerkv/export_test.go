package badgerkv

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/table"

	"github.com/agenthost/agenthost/host/kv"
)

// What tests of the package's promises need and its users do not.

// Compact drops what was deleted or replaced, as Badger would in its own time.
// Flatten alone would not: it is content when all tables are at level 0, so that
// level is compacted first, which Badger offers at closing.
func Compact(s *Store) error {
	opts := s.engine.db.Opts()
	for _, l0OnClose := range []bool{true, false} {
		if err := s.engine.db.Close(); err != nil {
			return err
		}
		db, err := badger.Open(opts.WithCompactL0OnClose(l0OnClose))
		if err != nil {
			return err
		}
		s.engine.db = db
	}
	return s.engine.db.Flatten(1)
}

// MergeLevel0 merges a table of level 0 with those of the last level; before is called
// when level 0 has it.
func MergeLevel0(s *Store, before func()) error {
	ctx := context.Background()
	if err := s.Purge(ctx); err != nil {
		return err
	}
	if err := s.merger.flushMemtable(ctx); err != nil {
		return err
	}
	before()
	return s.engine.db.Flatten(1)
}

// SetMinFree changes Options.MinFree of an open store.
func SetMinFree(s *Store, n uint64) { s.engine.minFree = n }

// FailCommits makes Badger's commits fail with err, until err is nil.
func FailCommits(s *Store, err error) {
	s.engine.commit = func(*badger.Txn) error { return err }
	if err == nil {
		s.engine.commit = (*badger.Txn).Commit
	}
}

// KeyFileOf is the path of a store's key file.
func KeyFileOf(s *Store) string { return filepath.Join(s.engine.dir, KeyFile) }

// Sealed is a value as the store would keep it.
func Sealed(t *testing.T, s *Store, partition string, key kv.Key, revision uint64, value string) []byte {
	t.Helper()
	if err := s.keys.ensure([]string{partition, "globex"}); err != nil {
		t.Fatal(err)
	}
	b, err := s.keys.seal(engineKey(partition, key), revision, []byte(value))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Unsealed opens a value.
func Unsealed(s *Store, partition string, key kv.Key, revision uint64, sealed []byte) error {
	_, err := s.keys.unseal(engineKey(partition, key), revision, sealed)
	return err
}

// WrapBoth has both keys open the key file in dir.
func WrapBoth(dir string, old, key []byte) error {
	r, err := openKeyring(dir, old, true)
	if err != nil {
		return err
	}
	return r.saveAll(false, old, key)
}

// Opens reports whether a key opens a key file.
func Opens(file string, key []byte) bool {
	_, err := readKeyring(file, key)
	return err == nil
}

// ScanFiles counts the different texts that a pattern finds in a store's directory:
// in the bytes of each file, in each entry of each table whether the store uses it
// or not, and in every version of every entry that the store can read, with the
// keys that are there.
func ScanFiles(dir string, opts *Options, pattern string) (int, error) {
	re, found := regexp.MustCompile(pattern), map[string]bool{}
	look := func(b []byte) {
		for _, m := range re.FindAll(b, -1) {
			found[string(m)] = true
		}
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		look(b)
		if filepath.Ext(path) == tableExt {
			lookInTable(b, look)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	s, err := Open(dir, opts)
	if err != nil {
		return 0, err
	}
	txn := s.engine.db.NewTransaction(false)
	it := txn.NewIterator(badger.IteratorOptions{AllVersions: true})
	for it.Rewind(); it.Valid(); it.Next() {
		look(it.Item().Key())
		value, err := it.Item().ValueCopy(nil)
		if err != nil {
			return 0, err
		}
		look(value)
		if opened, err := s.keys.value(it.Item().Key(), it.Item().Version(), it.Item().UserMeta(), value); err == nil {
			look(opened)
			if content, err := s.blobs.read(partitionIn(it.Item().Key()), opened); err == nil && it.Item().UserMeta()&blobMeta != 0 {
				look(content)
			}
		}
	}
	it.Close()
	txn.Discard()
	return len(found), s.Close()
}

// lookInTable shows the entries of a table that is not encrypted.
func lookInTable(content []byte, look func([]byte)) {
	defer func() { _ = recover() }() // it is encrypted
	t, err := table.OpenInMemoryTable(content, 0, &table.Options{Compression: options.Snappy, BlockSize: 4 << 10, ChkMode: options.OnTableRead})
	if err != nil {
		return
	}
	it := t.NewIterator(0)
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		look(it.Key())
		look(it.Value().Value)
	}
}

// Collect removes large values that no entry refers to, as a purge does.
func Collect(ctx context.Context, s *Store) error { return s.collectUncollected(ctx) }

// SetBlobBytes changes the size from which values of an open store are files of their
// own.
func SetBlobBytes(s *Store, n int) { s.blobs.least = n }

// CountReferences returns how many different large values the entries of a partition
// refer to.
func CountReferences(ctx context.Context, s *Store, partition string) (int, error) {
	addresses := map[[addressBytes]byte]bool{}
	err := s.collector.eachReference(ctx, engineKey(partition, ""), func(_ []byte, _ uint64, ref *blobReference) error {
		addresses[ref.address] = true
		return nil
	})
	return len(addresses), err
}

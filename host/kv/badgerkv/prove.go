package badgerkv

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/agenthost/agenthost/host/kv"
)

// Prove implements [kv.Eraser]. It reads every entry in the store's tables and logs,
// and lists its files. It takes as long as reading all files; other callers do not
// wait.
func (s *Store) Prove(ctx context.Context, partition string) (*kv.Proof, error) {
	if err := kv.ValidateKey(partition, "k"); err != nil {
		return nil, fmt.Errorf("prove what is stored: %w", err)
	}
	if err := s.enter(ctx); err != nil {
		return nil, fmt.Errorf("prove what is stored: %w", err)
	}
	defer s.mu.RUnlock()
	p := &kv.Proof{DataKey: s.keys.hasKey(partition), Erasing: s.keys.isErasing(partition)}
	if at := s.keys.erasedAt(partition); !at.IsZero() {
		p.ErasedAt = &at
	}
	for _, step := range []func(context.Context, *kv.Proof, string) error{s.prover().proveEntries, s.prover().proveFiles} {
		if err := step(ctx, p, partition); err != nil {
			return nil, fmt.Errorf("prove what is stored: %w", err)
		}
	}
	return p, nil
}

// prover reads the files of a store for a proof.
type prover struct {
	engine *engine
	blobs  *blobs
}

func (s *Store) prover() *prover { return &prover{s.engine, s.blobs} }

// proveEntries reads every version of every entry. It recognizes the partition's keys
// by their own bytes, not by their position.
func (pr *prover) proveEntries(ctx context.Context, p *kv.Proof, partition string) error {
	txn := pr.engine.db.NewTransaction(false)
	defer txn.Discard()
	it := txn.NewIterator(badger.IteratorOptions{AllVersions: true})
	defer it.Close()
	var last []byte
	for it.Rewind(); it.Valid(); it.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		p.Scanned++
		key := it.Item().Key()
		if len(key) < 2 || key[0] != dataSpace || partitionIn(key) != partition {
			continue
		}
		p.Found++
		if !slices.Equal(last, key) && !it.Item().IsDeletedOrExpired() && !p.Erasing {
			p.Readable++
		}
		last = append(last[:0], key...)
	}
	return nil
}

// maxTableChecks bounds how often a proof looks whether tables that the store does not use
// are gone, with restCheck between two looks: for ten seconds, and longer where the process
// has no processor or stands still, and its merges with it.
const maxTableChecks = 500

// proveFiles lists the files. A table that the store does not use is held by a reader,
// or being written by a merge, both of which end, or is left over.
func (pr *prover) proveFiles(ctx context.Context, p *kv.Proof, partition string) error {
	prefix := engineKey(partition, "")
	unused, err := pr.engine.unusedTables()
	for checks := 0; err == nil && len(unused) > 0 && checks < maxTableChecks; checks++ {
		if err := sleep(ctx, restCheck); err != nil {
			return err
		}
		unused, err = pr.engine.stillUnused(unused)
	}
	if err != nil {
		return err
	}
	if p.Blobs, err = pr.blobs.countBlobs(partition); err != nil {
		return err
	}
	for _, name := range unused {
		if n, err := countInTable(filepath.Join(pr.engine.dir, name), prefix); err != nil || n > 0 {
			p.Unread = append(p.Unread, name)
		}
	}
	return filepath.WalkDir(pr.engine.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return ignoreMissing(err)
		}
		info, err := d.Info()
		if err != nil {
			return ignoreMissing(err)
		}
		p.Files++
		p.Bytes += info.Size()
		switch {
		case filepath.Base(filepath.Dir(path)) == LostDir:
			if n, err := countInTable(path, prefix); err != nil || n > 0 {
				p.Unread = append(p.Unread, filepath.Join(LostDir, d.Name()))
			}
		case filepath.Ext(path) == ".sst":
			p.Tables++
		case filepath.Ext(path) == ".mem", filepath.Ext(path) == ".vlog":
			p.Logs++
		}
		return nil
	})
}

// ignoreMissing returns err, or nil if err says that a file does not exist.
func ignoreMissing(err error) error {
	if os.IsNotExist(err) {
		return nil
	}
	return err
}

// stillUnused returns those of the tables that still exist and that the store does not
// use.
func (e *engine) stillUnused(names []string) ([]string, error) {
	now, err := e.unusedTables()
	return slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(now, name) }), err
}

// unusedTables returns the names of tables in the directory that the store does not
// use.
func (e *engine) unusedTables() (names []string, err error) {
	paths, err := filepath.Glob(filepath.Join(e.dir, "*.sst"))
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, t := range e.db.Tables() {
		used[tableName(t.ID)] = true
	}
	for _, path := range paths {
		if name := filepath.Base(path); !used[name] {
			names = append(names, name)
		}
	}
	return names, nil
}

package badgerkv

import (
	"context"
	"fmt"
	"iter"

	"github.com/dgraph-io/badger/v4"

	"github.com/agenthost/agenthost/host/kv"
)

// Partitions yields the names of the partitions that have entries, in no
// particular order. It is for the store's operator: a [kv.Driver] has no such method,
// because no tenant may learn the name of another.
func (s *Store) Partitions(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		var after []byte
		for {
			name, next, err := s.partitionAfter(ctx, after)
			if err != nil {
				yield("", fmt.Errorf("list partitions: %w", err))
				return
			}
			if next == nil {
				return
			}
			if !s.keys.isErasing(name) && !yield(name, nil) {
				return
			}
			after = next
		}
	}
}

// partitionAfter returns the first partition with keys above after, and a bound above
// all keys of the partition; a nil end says that no such partition exists.
func (s *Store) partitionAfter(ctx context.Context, after []byte) (name string, end []byte, err error) {
	if err := s.enter(ctx); err != nil {
		return "", nil, err
	}
	defer s.mu.RUnlock()
	return s.engine.openPartitionAfter(after)
}

// openPartitionAfter is partitionAfter within a call.
func (e *engine) openPartitionAfter(after []byte) (name string, end []byte, err error) {
	txn := e.db.NewTransaction(false)
	defer txn.Discard()
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{dataSpace}})
	defer it.Close()
	if after == nil {
		after = []byte{dataSpace}
	}
	if it.Seek(after); !it.Valid() {
		return "", nil, nil
	}
	key := it.Item().Key()
	if len(key) < 2 || len(key) < 2+int(key[1]) {
		return "", nil, fmt.Errorf("%w: a key is of no partition", kv.ErrCorrupt)
	}
	name = string(key[2 : 2+int(key[1])])
	return name, append(engineKey(name, ""), lastKey...), nil
}

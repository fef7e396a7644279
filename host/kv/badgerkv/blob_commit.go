package badgerkv

import (
	"errors"
	"fmt"

	"github.com/agenthost/agenthost/host/kv"
)

// blobWrites are the blobs of one Commit.
type blobWrites struct {
	store *Store
	refs  map[int][][]byte // by Tx, of each of its writes; nil where the value is small
	paths map[int][]string // by Tx, the pinned paths
}

// writeBlobs writes the large values of the Txs at the positions of valid to files,
// and returns the positions of the Txs that may be committed; the results of the others
// have their errors. The caller ends the writes.
func (s *Store) writeBlobs(txs []kv.Tx, valid []int, results []kv.Result) (*blobWrites, []int) {
	if !s.blobs.areIn(txs, valid) {
		return nil, valid
	}
	s.blobs.inCommit.RLock()
	w := &blobWrites{store: s, refs: map[int][][]byte{}, paths: map[int][]string{}}
	var left []int
	for _, i := range valid {
		err := w.add(i, txs[i])
		if err != nil && s.keys.isErasing(txs[i].Partition) { // perhaps since add looked
			err = kv.ErrErasing
		}
		if err != nil {
			results[i].Err = fmt.Errorf("commit: %w", err)
			continue
		}
		left = append(left, i)
	}
	return w, left
}

// areIn reports whether one of the Txs at the positions of valid has a large value.
func (b *blobs) areIn(txs []kv.Tx, valid []int) bool {
	for _, i := range valid {
		for _, w := range txs[i].Writes {
			if len(w.Value) >= b.least {
				return true
			}
		}
	}
	return false
}

// add writes the blobs of Tx i.
func (w *blobWrites) add(i int, tx kv.Tx) error {
	if !w.store.blobs.areIn([]kv.Tx{tx}, []int{0}) {
		return nil
	}
	if w.store.keys.isErasing(tx.Partition) {
		return kv.ErrErasing
	}
	if err := w.store.engine.checkWritable(); err != nil {
		return err
	}
	if err := w.store.keys.ensure([]string{tx.Partition}); err != nil {
		return err
	}
	refs := make([][]byte, len(tx.Writes))
	for n, write := range tx.Writes {
		if len(write.Value) < w.store.blobs.least {
			continue
		}
		ref, path, err := w.store.blobs.write(tx.Partition, write.Value)
		if path != "" {
			w.paths[i] = append(w.paths[i], path)
		}
		if err != nil {
			return err
		}
		refs[n] = ref.encode()
	}
	w.refs[i] = refs
	return nil
}

// of returns the references of Tx i; nil if it has none.
func (w *blobWrites) of(i int) [][]byte {
	if w == nil {
		return nil
	}
	return w.refs[i]
}

// end unpins the blobs. The caller calls it when the commits have ended.
func (w *blobWrites) end(results []kv.Result) {
	if w == nil {
		return
	}
	for i, paths := range w.paths {
		err := results[i].Err
		for _, path := range paths {
			w.store.blobs.unpin(path, err == nil || errors.Is(err, kv.ErrInDoubt))
		}
	}
	w.store.blobs.inCommit.RUnlock()
}

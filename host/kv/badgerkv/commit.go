package badgerkv

import (
	"context"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/agenthost/agenthost/host/kv"
)

// Badger refuses a transaction of 15 % of its memtable. A group of Txs that share a
// Badger transaction stays below that size, and so does any single Tx.
const (
	maxGroupBytes  = memTableSize * 15 / 100
	maxGroupWrites = 8 << 10
	// writeOverhead is the size that Badger (12 bytes), engineKey and a seal add to a
	// write.
	writeOverhead = 12 + 2 + sealOverhead
	// groupOverhead is for the end marker of a transaction, deletionKey and blobsKey.
	groupOverhead = 256
	largestTx     = kv.MaxTxBytes + kv.MaxTxWrites*(writeOverhead+kv.MaxPartitionBytes)
)

// Relations between the sizes. A violation does not compile.
const (
	_ uint = maxGroupBytes - groupOverhead - largestTx - 1 // every Tx fits
	_ uint = maxGroupWrites - kv.MaxTxWrites
	_ uint = valueThreshold - kv.MaxValueBytes - 1 // every value is inline
)

// Commit implements [kv.Driver]. Consecutive Txs share one Badger transaction, and so
// one sync, until one touches a key that an earlier one writes.
func (s *Store) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	results := make([]kv.Result, len(txs))
	if len(txs) > kv.MaxCommitTxs {
		return failAll(results, &kv.LimitError{What: "commit", Got: len(txs), Max: kv.MaxCommitTxs, Unit: "transactions"})
	}
	valid := validate(txs, results)
	if err := s.enter(ctx); err != nil {
		return failAll(results, err)
	}
	defer s.mu.RUnlock()
	blobs, valid := s.writeBlobs(txs, valid, results)
	defer func() { blobs.end(results) }()
	for len(valid) > 0 {
		n, err := s.commitSome(ctx, txs, valid, blobs, results)
		if err != nil {
			fail(results, valid, err)
			break
		}
		valid = valid[n:]
	}
	return results
}

// validate sets the results of Txs that no store may accept and returns the
// positions of the others.
func validate(txs []kv.Tx, results []kv.Result) (valid []int) {
	valid = make([]int, 0, len(txs))
	for i, tx := range txs {
		if err := tx.Validate(); err != nil {
			results[i].Err = fmt.Errorf("commit: %w", err)
			continue
		}
		valid = append(valid, i)
	}
	return valid
}

func failAll(results []kv.Result, err error) []kv.Result {
	for i := range results {
		results[i] = kv.Result{Err: fmt.Errorf("commit: %w", err)}
	}
	return results
}

func fail(results []kv.Result, which []int, err error) {
	for _, i := range which {
		results[i] = kv.Result{Err: fmt.Errorf("commit: %w", err)}
	}
}

// commitSome waits for the commit token, commits as many of the Txs at the positions of
// valid as fit into one group, sets their results and returns their number. An error
// means that it wrote nothing.
func (s *Store) commitSome(ctx context.Context, txs []kv.Tx, valid []int, blobs *blobWrites, results []kv.Result) (int, error) {
	select {
	case s.engine.turn <- struct{}{}:
		defer func() { <-s.engine.turn }()
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := s.engine.checkWritable(); err != nil {
		return 0, err
	}
	if err := s.ensureDataKeys(txs, valid); err != nil {
		return 0, err
	}
	g := s.newGroup()
	defer g.txn.Discard()
	for _, i := range valid {
		tx := withKeys(txs[i])
		tx.refs = blobs.of(i)
		if !g.admits(tx) {
			break
		}
		if results[i].Err = g.add(tx); results[i].Err != nil {
			g.txs[len(g.txs)-1].writes = nil // it writes nothing
		}
	}
	n := len(g.txs)
	s.finish(g, valid[:n], results)
	return n, nil
}

// ensureDataKeys makes the data keys of partitions that are written to for the
// first time.
func (s *Store) ensureDataKeys(txs []kv.Tx, valid []int) error {
	if !s.keys.seals() {
		return nil
	}
	var partitions []string
	for _, i := range valid {
		if len(txs[i].Writes) > 0 {
			partitions = append(partitions, txs[i].Partition)
		}
	}
	return s.keys.ensure(partitions)
}

// finish commits the group and sets the revision or the error of its Txs, whose
// positions are which.
func (s *Store) finish(g *group, which []int, results []kv.Result) {
	if g.writes == 0 {
		return
	}
	revision := g.revision
	for _, tx := range g.txs {
		s.heads.forget(tx)
	}
	err := s.commitGroup(g)
	for n, i := range which {
		switch {
		case results[i].Err != nil || len(g.txs[n].Writes) == 0:
		case err != nil:
			results[i].Err = fmt.Errorf("commit: %w", err)
		default:
			results[i].Revision = revision
			s.heads.keep(g.txs[n], revision)
		}
	}
}

func (s *Store) commitGroup(g *group) error {
	if g.err != nil {
		return g.err
	}
	return s.engine.commitTxn(g.txn)
}

// commitTxn commits a transaction. The caller holds the commit token.
func (e *engine) commitTxn(txn *badger.Txn) error {
	err := e.commit(txn)
	if err == nil {
		return nil
	}
	// The next start may find the writes or not. A later sync may not cover the data
	// that this one failed to sync, so the store makes no more commits.
	broken := fmt.Errorf("%w after a failed write (%v); restart, and check the device", kv.ErrReadOnly, err)
	e.broken.CompareAndSwap(nil, &broken)
	return fmt.Errorf("%w: %v; read back to find out", kv.ErrInDoubt, err)
}

func (e *engine) checkWritable() error {
	if broken := e.broken.Load(); broken != nil {
		return *broken
	}
	return e.checkSpace()
}

// engineTx is a Tx with its keys as Badger has them.
type engineTx struct {
	kv.Tx
	conds, writes [][]byte
	refs          [][]byte // by write, nil for a small value; nil if it has no blobs
}

func withKeys(tx kv.Tx) engineTx {
	size := 0
	for _, c := range tx.Conds {
		size += len(tx.Partition) + len(c.Key) + 2
	}
	for _, w := range tx.Writes {
		size += len(tx.Partition) + len(w.Key) + 2
	}
	all, room := make([][]byte, 0, len(tx.Conds)+len(tx.Writes)), make([]byte, 0, size)
	add := func(key kv.Key) {
		begin := len(room)
		room = appendEngineKey(room, tx.Partition, key)
		all = append(all, room[begin:len(room):len(room)])
	}
	for _, c := range tx.Conds {
		add(c.Key)
	}
	for _, w := range tx.Writes {
		add(w.Key)
	}
	return engineTx{Tx: tx, conds: all[:len(tx.Conds)], writes: all[len(tx.Conds):]}
}

func (tx *engineTx) size() int {
	return tx.Size() + len(tx.Writes)*(writeOverhead+len(tx.Partition))
}

// group is a Badger transaction that several Txs share.
type group struct {
	store *Store
	txn   *badger.Txn
	// revision is the revision that the group's writes will have.
	revision uint64
	txs      []engineTx
	written  map[string]bool // engine keys; see hasWritten
	noted    int             // how many of txs written has
	bytes    int
	writes   int
	err      error // of Badger, for the whole group
}

func (s *Store) newGroup() *group {
	txn := s.engine.db.NewTransaction(true)
	return &group{store: s, txn: txn, revision: txn.ReadTs() + 1, bytes: groupOverhead}
}

// admits reports whether tx may join. The first always may. A Tx that reads or
// writes a key that the group has written may not: it must see that write with
// its revision, and its own write needs a revision above it.
func (g *group) admits(tx engineTx) bool {
	if g.writes == 0 {
		return true
	}
	if g.bytes+tx.size() >= maxGroupBytes || g.writes+len(tx.Writes) > maxGroupWrites {
		return false
	}
	for _, keys := range [][][]byte{tx.conds, tx.writes} {
		for _, key := range keys {
			if g.hasWritten(key) {
				return false
			}
		}
	}
	return true
}

// hasWritten reports whether a Tx of the group writes a key. A group of one Tx, which is most
// of them on a host that is not busy, is not asked and notes no keys.
func (g *group) hasWritten(key []byte) bool {
	if g.written == nil {
		g.written = make(map[string]bool)
	}
	for ; g.noted < len(g.txs); g.noted++ {
		for _, written := range g.txs[g.noted].writes {
			g.written[string(written)] = true
		}
	}
	return g.written[string(key)]
}

// add checks the conditions of tx and, if they hold, adds its writes.
func (g *group) add(tx engineTx) error {
	g.txs = append(g.txs, tx)
	if g.store.keys.isErasing(tx.Partition) {
		return fmt.Errorf("commit: %w", kv.ErrErasing)
	}
	for i, c := range tx.Conds {
		e, err := g.read(tx.conds[i], c)
		if err != nil && !errors.Is(err, kv.ErrNotFound) {
			return fmt.Errorf("commit: read key %s of condition %d: %w", c.Key, i, err)
		}
		if err := c.Check(i, e); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
	}
	g.bytes += tx.size()
	g.writes += len(tx.Writes)
	for i, w := range tx.Writes {
		if tx.refs != nil && tx.refs[i] != nil {
			g.note(g.set(tx.writes[i], tx.refs[i], blobMeta))
			g.note(g.txn.Set([]byte(blobsKey), nil))
			continue
		}
		g.write(tx.writes[i], w)
	}
	return nil
}

// read returns the entry that a condition is checked against: with its value only if
// the condition is on the value.
func (g *group) read(engineKey []byte, c kv.Cond) (kv.Entry, error) {
	if e, ok := g.store.heads.get(engineKey); ok {
		return e, nil
	}
	if c.Kind == kv.CondFence {
		return g.store.get(g.txn, engineKey, c.Key)
	}
	item, err := g.txn.Get(engineKey)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return kv.Entry{}, kv.ErrNotFound
	}
	if err != nil {
		return kv.Entry{}, readError(err)
	}
	return kv.Entry{Key: c.Key, Revision: item.Version()}, nil
}

// write adds one write to the transaction. Badger keeps w.Value until the
// commit has returned, which is before Commit returns it to the caller.
func (g *group) write(key []byte, w kv.Write) {
	if !w.Delete {
		g.note(g.set(key, w.Value, 0))
		return
	}
	g.note(g.txn.Delete(key))
	g.note(g.txn.Set([]byte(deletionKey), nil))
}

func (g *group) set(key, value []byte, meta byte) error {
	if !g.store.keys.seals() {
		return g.txn.SetEntry(badger.NewEntry(key, value).WithMeta(meta))
	}
	sealed, err := g.store.keys.seal(key, g.revision, value)
	if err != nil {
		return err
	}
	return g.txn.SetEntry(badger.NewEntry(key, sealed).WithMeta(meta | sealedMeta))
}

// note keeps the first error of Badger, which fails the whole group. No error is
// expected: the sizes are within Badger's limits.
func (g *group) note(err error) {
	if err != nil && g.err == nil {
		g.err = fmt.Errorf("%w: %v", kv.ErrInvalid, err)
	}
}

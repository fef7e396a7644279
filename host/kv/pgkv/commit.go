package pgkv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/agenthost/agenthost/host/kv"
)

// The size of a batch. A single Tx always fits.
const (
	maxBatchBytes  = kv.MaxGroupBytes
	maxBatchWrites = 8 << 10
)

// Commit implements [kv.Driver]. Consecutive Txs share one statement until one touches a
// key that an earlier one writes.
func (s *Store) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	results := make([]kv.Result, len(txs))
	if len(txs) > kv.MaxCommitTxs {
		return failAll(results, &kv.LimitError{What: "commit", Got: len(txs), Max: kv.MaxCommitTxs, Unit: "transactions"})
	}
	if err := s.enter(ctx); err != nil {
		return failAll(results, err)
	}
	defer s.mu.RUnlock()
	b := newBatch()
	for i, tx := range txs {
		if err := tx.Validate(); err != nil {
			results[i].Err = fmt.Errorf("commit: %w", err)
			continue
		}
		if !b.admits(tx) {
			s.commitBatch(ctx, b, results)
			b = newBatch()
		}
		b.add(i, tx)
	}
	s.commitBatch(ctx, b, results)
	return results
}

func failAll(results []kv.Result, err error) []kv.Result {
	for i := range results {
		results[i] = kv.Result{Err: fmt.Errorf("commit: %w", err)}
	}
	return results
}

// entryKey is the place of an entry.
type entryKey struct {
	partition string
	key       kv.Key
}

// batch is Txs that share a statement: none touches a key that an earlier one writes.
type batch struct {
	txs     []kv.Tx
	at      []int // the positions of their results
	written map[entryKey]struct{}
	bytes   int
	writes  int
}

func newBatch() *batch { return &batch{written: map[entryKey]struct{}{}} }

func (b *batch) admits(tx kv.Tx) bool {
	if len(b.txs) == 0 {
		return true
	}
	if b.bytes+tx.Size() > maxBatchBytes || b.writes+len(tx.Writes) > maxBatchWrites {
		return false
	}
	for _, c := range tx.Conds {
		if _, ok := b.written[entryKey{tx.Partition, c.Key}]; ok {
			return false
		}
	}
	for _, w := range tx.Writes {
		if _, ok := b.written[entryKey{tx.Partition, w.Key}]; ok {
			return false
		}
	}
	return true
}

func (b *batch) add(i int, tx kv.Tx) {
	b.txs, b.at = append(b.txs, tx), append(b.at, i)
	b.bytes += tx.Size()
	b.writes += len(tx.Writes)
	for _, w := range tx.Writes {
		b.written[entryKey{tx.Partition, w.Key}] = struct{}{}
	}
}

// keep keeps the Txs at the given positions, which are ascending.
func (b *batch) keep(which []int) {
	for n, i := range which {
		b.txs[n], b.at[n] = b.txs[i], b.at[i]
	}
	b.txs, b.at = b.txs[:len(which)], b.at[:len(which)]
}

// commitBatch commits a batch and sets the results of its Txs.
func (s *Store) commitBatch(ctx context.Context, b *batch, results []kv.Result) {
	tries := s.attempts()
	for lockFirst := false; len(b.txs) > 0; {
		a, err := s.arguments(ctx, b)
		if err != nil {
			b.fail(results, err)
			return
		}
		rows, err := s.send(ctx, a, lockFirst)
		if err == nil {
			lockFirst = s.settle(ctx, b, a, rows, results)
			if len(b.txs) > 0 && tries.over(ctx) {
				b.fail(results, endOf(ctx, errRepeat))
				return
			}
			continue
		}
		switch {
		case ctx.Err() != nil && !errors.Is(err, kv.ErrInDoubt):
			b.fail(results, ctx.Err())
			return
		case !errors.Is(err, errRepeat):
			b.fail(results, translate(err))
			return
		}
		s.logger.WarnContext(ctx, "repeat a commit that was not made", "cause", err)
		if !tries.again(ctx) {
			b.fail(results, endOf(ctx, err))
			return
		}
	}
}

// endOf returns the error of a batch that is not sent again: ctx's if it has ended.
func endOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%w (%w)", kv.ErrUnavailable, err)
}

func (b *batch) fail(results []kv.Result, err error) {
	for _, i := range b.at {
		results[i] = kv.Result{Err: fmt.Errorf("commit: %w", err)}
	}
}

// errRepeat is the error of a batch of which nothing was written and nothing will be,
// and which may succeed when it is sent again.
var errRepeat = errors.New("not committed")

// send sends a batch once and returns its outcome. It resolves the outcome if the
// connection breaks.
func (s *Store) send(ctx context.Context, a *arguments, lockFirst bool) ([]int64, error) {
	waiting, cancel := context.WithTimeout(ctx, s.timeout)
	conn, err := s.pool.Acquire(waiting)
	cancel()
	if err != nil {
		if answeredError(err) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %v", errRepeat, translate(err))
	}
	defer conn.Release()
	l := s.lanes.take()
	defer s.lanes.put(l)
	l.n++
	// From here on the outcome counts, not the caller's context.
	working, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
	defer cancel()
	var rows []int64
	if lockFirst {
		rows, err = s.commitLocked(working, conn.Conn(), a, l)
	} else {
		rows, err = collect(conn.Query(working, s.sql.commit, a.values(l)...))
	}
	switch {
	case err == nil:
		return rows, nil
	case inTheWay(err), pgconn.SafeToRetry(err):
		return nil, fmt.Errorf("%w: %v", errRepeat, translate(err))
	case answeredError(err):
		return nil, err
	}
	s.logger.WarnContext(ctx, "the connection broke during a commit", "cause", translate(err))
	cancel()
	conn.Release() // another is needed to find out
	rows, unknown := s.resolve(l)
	switch {
	case unknown != nil:
		return nil, fmt.Errorf("%w: %v; the connection broke, and no other could be made in time to find out", kv.ErrInDoubt, translate(err))
	case rows == nil:
		return nil, fmt.Errorf("%w: %v", errRepeat, translate(err))
	}
	return rows, nil
}

// commitLocked locks the partitions of a batch, and then commits it: for a batch that
// lost the race for its partitions several times. It takes one round trip.
func (s *Store) commitLocked(ctx context.Context, conn *pgx.Conn, a *arguments, l *lane) (rows []int64, err error) {
	var b pgx.Batch
	b.Queue("begin isolation level read committed")
	b.Queue(s.sql.lock, a.written)
	b.Queue(s.sql.commit, a.values(l)...)
	b.Queue("commit")
	sent := conn.SendBatch(ctx, &b)
	for i := range b.Len() {
		if i != 2 {
			_, err = sent.Exec()
		} else {
			rows, err = collect(sent.Query())
		}
		if err != nil {
			_ = sent.Close()
			if answeredError(err) {
				_, err2 := conn.Exec(ctx, "rollback")
				_ = err2 // a broken connection is not used again
			}
			return nil, err
		}
	}
	return rows, sent.Close()
}

// collect reads the rows of commitSQL, four numbers each.
func collect(rows pgx.Rows, err error) ([]int64, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := []int64{}
	for rows.Next() {
		var kind, a, b, c int64
		if err := rows.Scan(&kind, &a, &b, &c); err != nil {
			return nil, err
		}
		out = append(out, kind, a, b, c)
	}
	return out, rows.Err()
}

// arguments are those of commitSQL.
type arguments struct {
	names   [][]byte // of the partitions
	written [][]byte // of those that are written to
	part    map[string]int32

	condTx, condPart []int32
	condKey          [][]byte
	condKind         []int32
	condRevision     []int64
	condValue        [][]byte
	condAt           []int // position of each within its Tx

	writeTx, writePart []int32
	writeKey           [][]byte
	writeValue         [][]byte
	writeDataKey       []int32
	writeMark          [][]byte

	expected []int64            // numbers of the partitions in names, 0 for any
	sealers  map[string]*sealer // nil in a store without a key
}

func (a *arguments) values(l *lane) []any {
	return []any{
		a.names, a.written,
		a.condTx, a.condPart, a.condKey, a.condKind, a.condRevision, a.condValue,
		a.writeTx, a.writePart, a.writeKey, a.writeValue,
		l.id[:], l.n,
		a.expected, a.writeDataKey, a.writeMark,
	}
}

// arguments returns the arguments of the batch's remaining Txs, sealed if the store has a
// key.
func (s *Store) arguments(ctx context.Context, b *batch) (*arguments, error) {
	a := &arguments{part: map[string]int32{}, written: [][]byte{}}
	writes := map[string]bool{}
	for _, tx := range b.txs {
		writes[tx.Partition] = writes[tx.Partition] || len(tx.Writes) > 0
	}
	names := slices.Sorted(maps.Keys(writes))
	if s.keys.seals() {
		var err error
		if a.sealers, err = s.sealers(ctx, b.sealed()); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		a.names = append(a.names, []byte(name))
		a.part[name] = int32(len(a.names))
		expected := int64(0)
		if k := a.sealers[name]; k != nil {
			expected = k.id
		}
		a.expected = append(a.expected, expected)
		if writes[name] {
			a.written = append(a.written, []byte(name))
		}
	}
	for i, tx := range b.txs {
		if err := a.add(int32(i), tx); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// sealed returns the partitions whose values or fences the batch seals.
func (b *batch) sealed() []string {
	names := map[string]struct{}{}
	for _, tx := range b.txs {
		fenced := slices.ContainsFunc(tx.Conds, func(c kv.Cond) bool { return c.Kind == kv.CondFence })
		if fenced || len(tx.Writes) > 0 {
			names[tx.Partition] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func (a *arguments) add(i int32, tx kv.Tx) error {
	part, sealer := a.part[tx.Partition], a.sealers[tx.Partition]
	for at, c := range tx.Conds {
		a.condTx, a.condPart = append(a.condTx, i), append(a.condPart, part)
		a.condKey = append(a.condKey, []byte(c.Key))
		a.condKind = append(a.condKind, int32(c.Kind))
		a.condRevision = append(a.condRevision, int64(c.Revision)) // above any revision: negative, which none is
		var value []byte
		switch {
		case c.Kind == kv.CondFence && sealer != nil && sealer.erasing: // nothing is compared
		case c.Kind == kv.CondFence && sealer != nil:
			value = sealer.markOf(c.Key, c.Value)
		case c.Kind == kv.CondFence:
			value = notNil(c.Value)
		}
		a.condValue = append(a.condValue, value)
		a.condAt = append(a.condAt, at)
	}
	for _, w := range tx.Writes {
		a.writeTx, a.writePart = append(a.writeTx, i), append(a.writePart, part)
		a.writeKey = append(a.writeKey, []byte(w.Key))
		value, mark, dataKey, err := a.stored(sealer, w)
		if err != nil {
			return err
		}
		a.writeValue, a.writeMark, a.writeDataKey = append(a.writeValue, value), append(a.writeMark, mark), append(a.writeDataKey, dataKey)
	}
	return nil
}

// stored returns the columns of a write; a nil value is a deletion. The statement refuses
// the Txs of a partition that is being erased, and gets none of their values.
func (a *arguments) stored(sealer *sealer, w kv.Write) (value, mark []byte, dataKey int32, err error) {
	switch {
	case w.Delete || sealer != nil && sealer.erasing:
		return nil, nil, 0, nil
	case sealer == nil && a.sealers != nil:
		return nil, nil, 0, errOvertaken
	case sealer == nil:
		return notNil(w.Value), nil, 0, nil
	}
	value, err = sealer.seal(w.Key, w.Value)
	return value, sealer.markOf(w.Key, w.Value), dataKeyID, err
}

func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// The rows of commitSQL.
const (
	rowPartition, rowFailed, rowRefused = 0, 1, 2

	flagStale, flagErasing = 1, 2
)

// settle sets the results of the Txs that a statement has decided and leaves the others
// in the batch: those of partitions that another commit changed meanwhile, and those of
// partitions without a row, which it makes. It reports whether the batch lost the race
// for a partition.
func (s *Store) settle(ctx context.Context, b *batch, a *arguments, rows []int64, results []kv.Result) (lost bool) {
	type state struct {
		revision uint64
		flags    int64
	}
	parts, failed := map[int32]state{}, map[int]error{}
	for row := range slices.Chunk(rows, 4) {
		switch row[0] {
		case rowPartition:
			parts[int32(row[1])] = state{uint64(row[2]), row[3]}
		case rowFailed:
			tx, at := int(row[1]), a.condAt[row[2]-1]
			cond := b.txs[tx].Conds[at]
			cond.Value = nil
			failed[tx] = &kv.PreconditionError{Index: at, Cond: cond, Found: uint64(row[3])}
		case rowRefused:
			return false // the whole batch is sent again, with another number
		}
	}
	var left []int
	missing, written, announced := map[string]bool{}, map[string]uint64{}, map[string]bool{}
	for i, tx := range b.txs {
		part, exists := parts[a.part[tx.Partition]]
		res := &results[b.at[i]]
		switch {
		case part.flags&flagErasing != 0:
			res.Err = fmt.Errorf("commit: %w", kv.ErrErasing)
		case part.flags&flagStale != 0:
			left, lost = append(left, i), true
		case !exists && a.expected[a.part[tx.Partition]-1] != 0: // it was erased after its key was read
			left = append(left, i)
			missing[tx.Partition] = true
		case failed[i] != nil:
			res.Err = fmt.Errorf("commit: %w", failed[i])
		case len(tx.Writes) == 0:
		case !exists:
			left = append(left, i)
			missing[tx.Partition] = true
		default:
			res.Revision = part.revision + 1
			written[tx.Partition] = res.Revision
			announced[tx.Partition] = announced[tx.Partition] || !tx.Quiet
		}
	}
	for partition, revision := range written {
		s.watcher.committed(partition, revision, announced[partition])
	}
	b.keep(left)
	if len(missing) == 0 {
		return lost
	}
	var names [][]byte
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		names = append(names, []byte(name))
		s.keys.forget(name)
	}
	err := s.repeat(ctx, func(ctx context.Context) error { // repeating it does no harm
		_, err := s.pool.Exec(ctx, s.sql.ensure, names)
		return err
	})
	if err != nil {
		b.fail(results, err)
		b.keep(nil)
	}
	return lost
}

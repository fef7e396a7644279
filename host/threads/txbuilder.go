package threads

import (
	"context"
	"slices"

	"github.com/agenthost/agenthost/host/kv"
)

// txBuilder collects the writes of one commit to a thread. Content that is too large
// for one transaction is committed ahead of it, under keys that no reader looks at
// until the transaction refers to them.
type txBuilder struct {
	part    partition
	thread  string // its id, for errors
	isNew   bool   // the thread has no content yet
	tx      kv.Tx
	room    int      // bytes of content that fit into tx
	blobs   []string // digests of blobs that are in tx or were written ahead
	isAhead bool     // something was written ahead
}

// usualConds and usualWrites are how many a commit mostly has.
const usualConds, usualWrites = 4, 8

func newTxBuilder(part partition, thread string, isNew bool) txBuilder {
	tx := kv.Tx{Conds: make([]kv.Cond, 0, usualConds), Writes: make([]kv.Write, 0, usualWrites)}
	return txBuilder{part: part, thread: thread, isNew: isNew, room: maxInlineBytes, tx: tx}
}

func (b *txBuilder) put(key kv.Key, value []byte) { b.add(kv.Put(key, value)) }
func (b *txBuilder) delete(key kv.Key)            { b.add(kv.Delete(key)) }
func (b *txBuilder) add(writes ...kv.Write)       { b.tx.Writes = append(b.tx.Writes, writes...) }

// require adds a condition on which the commit is made.
func (b *txBuilder) require(c kv.Cond) { b.tx.Conds = append(b.tx.Conds, c) }

// requireFirst adds conditions that are checked before those that were required.
func (b *txBuilder) requireFirst(conds ...kv.Cond) {
	b.tx.Conds = slices.Insert(b.tx.Conds, 0, conds...)
}

// takeRoom reports whether n more bytes of content fit into the transaction, and
// takes their room if they do.
func (b *txBuilder) takeRoom(n int) bool {
	if n > ChunkBytes || n > b.room {
		return false
	}
	b.room -= n
	return true
}

// valueOf returns a record as the value of one key: itself, or a reference to a blob
// among the thread's contents if it is large. The record begins with formatJSON.
func (b *txBuilder) valueOf(ctx context.Context, in contents, rec []byte) ([]byte, error) {
	if b.takeRoom(len(rec) - 1) {
		return rec, nil
	}
	ref, err := b.putBlob(ctx, in, rec[1:])
	if err != nil {
		return nil, err
	}
	return encode(reference{version{V: layout}, ref})
}

// maxUnaskedBytes is the size of the largest blob that is written without asking whether
// the thread has it: a small state is new in most turns, and to write the same value to
// the same key again costs less than a read that waits for a database.
const maxUnaskedBytes = 4 << 10

// putBlob stores content under its digest, in the transaction or ahead of it. It does
// not store again a large blob that the thread's own content has.
func (b *txBuilder) putBlob(ctx context.Context, in contents, content []byte) (*Ref, error) {
	if string(content) == emptyObject {
		ref := emptyObjectRef
		return &ref, nil
	}
	ref := refTo(content)
	if slices.Contains(b.blobs, ref.Digest) {
		return ref, nil
	}
	if !b.isNew && len(content) > maxUnaskedBytes {
		if stored, err := in.hasBlob(ctx, ref.Digest); err != nil || stored {
			return ref, err
		}
	}
	b.blobs = append(b.blobs, ref.Digest)
	writes, err := in.own.blobWrites(content, ref)
	if err != nil {
		return nil, err
	}
	if b.takeRoom(len(content)) {
		b.add(writes...)
		return ref, nil
	}
	return ref, b.writeAhead(ctx, writes)
}

// writeAhead commits writes in order, in as many transactions as they take.
func (b *txBuilder) writeAhead(ctx context.Context, writes []kv.Write) error {
	b.isAhead = true
	var tx kv.Tx
	for i, w := range writes {
		tx.Writes = append(tx.Writes, w)
		full := tx.Size() >= aheadBytes || len(tx.Writes) == aheadWrites
		if !full && i < len(writes)-1 {
			continue
		}
		if _, err := b.part.Apply(ctx, tx); err != nil {
			return wrap(err, "write to thread %q", b.thread)
		}
		tx.Writes = nil
	}
	return nil
}

// commit makes the commit and returns the revision of its writes.
func (b *txBuilder) commit(ctx context.Context) (revision uint64, err error) {
	return b.part.Apply(ctx, b.tx)
}

package kv

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"iter"
	"slices"
	"sync"
)

// A checked value is checkedMark, a digest and the value. The digest covers the
// partition, the key and the value, so it also detects a value moved from another key.
// It is no seal: an attacker who can write to the store can write a digest. A store
// that encrypts seals its values.
//
// A value without the mark was stored before digests existed, and is returned
// unchanged. The mark begins with a byte that no record format has, and is long enough
// to tell a damaged mark from a missing one.
const (
	checkedMark = "\x02\xc5\x9e\x17\x01"
	digestBytes = 8
	// checkedOverhead is how many bytes a checked value is longer than the value.
	checkedOverhead = len(checkedMark) + digestBytes
	// sameMarkBytes is how many bytes of a damaged mark are at least unchanged.
	sameMarkBytes = len(checkedMark) - 1
)

// MaxCheckedBytes is the longest value that a [Checked] driver stores.
const MaxCheckedBytes = MaxValueBytes - checkedOverhead

// Checked returns a driver over d that stores a digest with every value that is not
// empty, and compares it when the value is read: a value that was changed, cut or moved
// to another key on the way to d, in it, or back, is [ErrCorrupt] with its key. Older
// values without a digest are read unchanged. A [Fence] compares the value without its
// digest. A value may have [MaxCheckedBytes]. A Checked driver is returned unchanged.
// It is a [Locker] if d is one.
func Checked(d Driver) Driver {
	switch c := d.(type) {
	case *checked:
		return c
	case *checkedLocker:
		return c
	}
	c := &checked{d}
	if l, ok := d.(Locker); ok {
		return &checkedLocker{c, l}
	}
	return c
}

type checked struct{ driver Driver }

// checkedLocker is a checked driver over one that locks.
type checkedLocker struct {
	*checked
	Locker
}

// Unchecked returns the driver below a [Checked] one, and any other unchanged: for a
// caller that removes entries, damaged ones too. [CheckEntry] reads its values.
func Unchecked(d Driver) Driver {
	switch c := d.(type) {
	case *checked:
		return c.driver
	case *checkedLocker:
		return c.driver
	}
	return d
}

// Get implements [Driver].
func (c *checked) Get(ctx context.Context, partition string, key Key) (Entry, error) {
	e, err := c.driver.Get(ctx, partition, key)
	if err != nil {
		return e, err
	}
	if e, err = CheckEntry(partition, e); err != nil {
		return Entry{}, fmt.Errorf("get: %w", err)
	}
	return e, nil
}

// Scan implements [Driver].
func (c *checked) Scan(ctx context.Context, partition string, r Range) (Page, error) {
	page, err := c.driver.Scan(ctx, partition, r)
	if err != nil {
		return page, err
	}
	for i := range page.Entries {
		if page.Entries[i], err = CheckEntry(partition, page.Entries[i]); err != nil {
			return Page{}, fmt.Errorf("scan: %w", err)
		}
	}
	return page, nil
}

// withDigests is the memory of a commit: its Txs with digests before their values.
type withDigests struct {
	room   []byte // of the values
	txs    []Tx
	conds  []Cond
	writes []Write
	digest digester
}

// commits are kept for reuse.
var commits = sync.Pool{New: func() any { return &withDigests{digest: newDigester()} }}

// The largest memory that is kept for reuse.
const (
	maxKeptRoom = 1 << 20
	maxKeptTxs  = 1 << 10
)

// keep returns the memory for reuse, without what it refers to.
func (d *withDigests) keep() {
	if cap(d.room) > maxKeptRoom || max(len(d.txs), len(d.conds), len(d.writes)) > maxKeptTxs {
		return
	}
	clear(d.txs)
	clear(d.conds)
	clear(d.writes)
	d.room, d.txs, d.conds, d.writes = d.room[:0], d.txs[:0], d.conds[:0], d.writes[:0]
	commits.Put(d)
}

// Commit implements [Driver].
func (c *checked) Commit(ctx context.Context, txs ...Tx) []Result {
	d := commits.Get().(*withDigests)
	defer d.keep() // Commit keeps no reference to a Tx
	d.addAll(txs)
	results := c.driver.Commit(ctx, d.txs...)
	for i := range results {
		if results[i].Err == nil {
			continue
		}
		if failed := (*PreconditionError)(nil); errors.As(results[i].Err, &failed) && failed.Cond.Kind == CondFence {
			results[i] = c.commitWithoutDigests(ctx, txs[i], d.txs[i], results[i])
		}
	}
	return results
}

// commitWithoutDigests commits a Tx again whose fence failed because the stored value
// is older than digests: it replaces the fence by a condition on that value's revision.
// Txs that followed it in its Commit then precede it.
func (c *checked) commitWithoutDigests(ctx context.Context, tx, stored Tx, failed Result) Result {
	old := false
	for i, cond := range tx.Conds {
		if cond.Kind != CondFence || len(cond.Value) == 0 {
			continue
		}
		if e, err := c.driver.Get(ctx, tx.Partition, cond.Key); err == nil && bytes.Equal(e.Value, cond.Value) {
			stored.Conds[i], old = AtRevision(cond.Key, e.Revision), true
		}
	}
	if !old {
		return failed
	}
	result := c.driver.Commit(ctx, stored)[0]
	if again := (*PreconditionError)(nil); errors.As(result.Err, &again) && tx.Conds[again.Index].Kind == CondFence {
		return failed
	}
	return result
}

// Close implements [Driver].
func (c *checked) Close() error { return c.driver.Close() }

// sizeWithDigests returns the size of a Tx's values with digests.
func (tx Tx) sizeWithDigests() int {
	n := 0
	for _, w := range tx.Writes {
		n += len(w.Value) + checkedOverhead
	}
	for _, cond := range tx.Conds {
		n += len(cond.Value) + checkedOverhead
	}
	return n
}

// addAll adds Txs with digests before their values.
func (d *withDigests) addAll(txs []Tx) {
	size, conds, writes := 0, 0, 0
	for _, tx := range txs {
		size, conds, writes = size+tx.sizeWithDigests(), conds+len(tx.Conds), writes+len(tx.Writes)
	}
	d.room, d.txs = slices.Grow(d.room, size), slices.Grow(d.txs, len(txs))
	d.conds, d.writes = slices.Grow(d.conds, conds), slices.Grow(d.writes, writes)
	for _, tx := range txs {
		d.add(tx)
	}
}

func (d *withDigests) add(tx Tx) {
	conds, writes := len(d.conds), len(d.writes)
	for _, w := range tx.Writes {
		if !w.Delete {
			w.Value = d.with(tx.Partition, w.Key, w.Value)
		}
		d.writes = append(d.writes, w)
	}
	for _, cond := range tx.Conds {
		if cond.Kind == CondFence {
			cond.Value = d.with(tx.Partition, cond.Key, cond.Value)
		}
		d.conds = append(d.conds, cond)
	}
	d.txs = append(d.txs, Tx{Partition: tx.Partition, Conds: slices.Clip(d.conds[conds:]), Writes: slices.Clip(d.writes[writes:]), Quiet: tx.Quiet})
}

// with returns a value with its digest.
func (d *withDigests) with(partition string, key Key, value []byte) []byte {
	if len(value) == 0 {
		return value
	}
	begin := len(d.room)
	d.room = append(d.room, checkedMark...)
	d.room = append(d.room, d.digest.of(partition, key, value)...)
	d.room = append(d.room, value...)
	return slices.Clip(d.room[begin:])
}

// digesters are kept for reuse.
var digesters = sync.Pool{New: func() any { d := newDigester(); return &d }}

// digester computes digests, one after another.
type digester struct {
	hash  hash.Hash
	place []byte
	sum   []byte
}

func newDigester() digester { return digester{hash: sha256.New(), sum: make([]byte, 0, sha256.Size)} }

// of returns the digest of a value and its place, which holds until the next call.
func (d *digester) of(partition string, key Key, value []byte) []byte {
	d.place = append(d.place[:0], byte(len(partition)))
	d.place = append(d.place, partition...)
	d.place = append(d.place, byte(len(key)>>8), byte(len(key)))
	d.place = append(d.place, key...)
	d.hash.Reset()
	d.hash.Write(d.place)
	d.hash.Write(value)
	return d.hash.Sum(d.sum[:0])[:digestBytes]
}

// CheckEntry returns an entry of an [Unchecked] driver as a [Checked] one does: without
// the digest, which it compares with the value. Otherwise the error is [ErrCorrupt].
func CheckEntry(partition string, e Entry) (Entry, error) {
	same := 0
	for i := range min(len(e.Value), len(checkedMark)) {
		if e.Value[i] == checkedMark[i] {
			same++
		}
	}
	switch {
	case same == len(checkedMark) && len(e.Value) > checkedOverhead:
		value := e.Value[checkedOverhead:]
		d := digesters.Get().(*digester)
		equal := bytes.Equal(d.of(partition, e.Key, value), e.Value[len(checkedMark):checkedOverhead])
		digesters.Put(d)
		if equal {
			e.Value = value
			return e, nil
		}
	case same >= sameMarkBytes || same > 0 && same == len(e.Value): // it was changed or cut
	default:
		return e, nil
	}
	return e, fmt.Errorf("%w: the value of key %s is not what was stored; restore it from a backup", ErrCorrupt, e.Key)
}

// Damaged reads a whole partition and yields the entries whose values differ from those
// that a [Checked] driver has stored, or that cannot be read ([EntryError]), each with
// its [ErrCorrupt]. Another error is yielded last, with a zero Entry. d may be Checked
// or not.
func Damaged(ctx context.Context, d Driver, partition string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for e, err := range EachEntry(ctx, d, partition, "") {
			if err != nil && !yield(e, err) {
				return
			}
		}
	}
}

// EachEntry yields the entries of a partition whose keys begin with prefix, in ascending
// order, as a [Checked] driver has stored them. A damaged entry does not end it: the
// entry is yielded with its key and an [ErrCorrupt], and with its revision unless its
// value cannot be read at all ([EntryError]). Another error is yielded last, with a zero
// Entry. d may be Checked or not.
func EachEntry(ctx context.Context, d Driver, partition string, prefix Key) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		d, r, unread := Unchecked(d), Range{Prefix: prefix, Limit: MaxScanLimit}, Key("")
		for {
			page, err := d.Scan(ctx, partition, r)
			damaged := (*EntryError)(nil)
			switch {
			case errors.As(err, &damaged) && r.Limit > 1:
				r.Limit, unread = 1, damaged.Key // reads the entries before it one by one
				continue
			case errors.As(err, &damaged):
				if !yield(Entry{Key: damaged.Key}, err) {
					return
				}
				r = Range{Prefix: prefix, After: damaged.Key, Limit: MaxScanLimit}
				continue
			case err != nil:
				yield(Entry{}, err)
				return
			}
			for _, e := range page.Entries {
				if !yield(CheckEntry(partition, e)) {
					return
				}
			}
			if !page.More {
				return
			}
			if r = r.Next(page); r.After >= unread {
				r.Limit = MaxScanLimit
			}
		}
	}
}

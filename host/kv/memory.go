package kv

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"
)

// Memory is a Driver that keeps everything in memory and forgets it on Close:
// for tests, for examples and for conversations whose client holds the state.
//
// Each partition is a sorted list, cut into sorted chunks: a tree of two levels.
// Reading a range is walking slices, and a new key moves only what follows it in
// its chunk. (In one slice without chunks, a commit of two keys among 600,000 took
// 72 us, against 2.3 us now.)
type Memory struct {
	mu         sync.RWMutex
	closed     bool
	revision   uint64
	partitions map[string]*table
	erasing    map[string]bool
	erased     map[string]time.Time
}

var (
	_ Driver = (*Memory)(nil)
	_ Eraser = (*Memory)(nil)
)

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{partitions: make(map[string]*table), erasing: map[string]bool{}, erased: map[string]time.Time{}}
}

// Get implements [Driver].
func (m *Memory) Get(ctx context.Context, partition string, key Key) (Entry, error) {
	if err := ctx.Err(); err != nil {
		return Entry{}, fmt.Errorf("get %s: %w", key, err)
	}
	if err := ValidateKey(partition, key); err != nil {
		return Entry{}, fmt.Errorf("get: %w", err)
	}
	e, err := m.lookup(partition, key)
	if err != nil {
		return Entry{}, &getError{key, err}
	}
	return e.clone(), nil
}

// getError is the error of a Get. Most callers ask whether a key is missing, and do not
// read the text.
type getError struct {
	key Key
	err error
}

func (e *getError) Error() string { return fmt.Sprintf("get %s: %v", e.key, e.err) }
func (e *getError) Unwrap() error { return e.err }

func (m *Memory) lookup(partition string, key Key) (Entry, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return Entry{}, ErrClosed
	}
	e := m.partitions[partition].get(key)
	if e == nil {
		return Entry{}, ErrNotFound
	}
	return *e, nil
}

// Scan implements [Driver].
func (m *Memory) Scan(ctx context.Context, partition string, r Range) (Page, error) {
	if err := ctx.Err(); err != nil {
		return Page{}, fmt.Errorf("scan %s: %w", r.Prefix, err)
	}
	if err := r.Validate(partition); err != nil {
		return Page{}, fmt.Errorf("scan: %w", err)
	}
	page, err := m.page(partition, r)
	if err != nil {
		return Page{}, fmt.Errorf("scan %s: %w", r.Prefix, err)
	}
	for i, e := range page.Entries {
		page.Entries[i] = e.clone()
	}
	return page, nil
}

// page collects entries that share their values with the store.
func (m *Memory) page(partition string, r Range) (Page, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return Page{}, ErrClosed
	}
	b := NewPageBuilder(r)
	for e := range m.partitions[partition].walk(r) {
		if !b.Room() {
			break
		}
		b.Add(*e)
	}
	return b.Page(), nil
}

// Commit implements [Driver].
func (m *Memory) Commit(ctx context.Context, txs ...Tx) []Result {
	results := make([]Result, len(txs))
	if err := within("commit", len(txs), MaxCommitTxs, "transactions"); err != nil {
		return failAll(results, err)
	}
	if err := ctx.Err(); err != nil {
		return failAll(results, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return failAll(results, ErrClosed)
	}
	for i, tx := range txs {
		results[i] = m.commit(tx)
	}
	return results
}

func failAll(results []Result, err error) []Result {
	for i := range results {
		results[i].Err = fmt.Errorf("commit: %w", err)
	}
	return results
}

func (m *Memory) commit(tx Tx) Result {
	if err := tx.Validate(); err != nil {
		return Result{Err: fmt.Errorf("commit: %w", err)}
	}
	if m.erasing[tx.Partition] {
		return Result{Err: fmt.Errorf("commit: %w", ErrErasing)}
	}
	t := m.partitions[tx.Partition]
	if err := t.check(tx.Conds); err != nil {
		return Result{Err: fmt.Errorf("commit: %w", err)}
	}
	if len(tx.Writes) == 0 {
		return Result{}
	}
	if t == nil {
		t = &table{}
		m.partitions[tx.Partition] = t
	}
	m.revision++
	for _, w := range tx.Writes {
		t.write(w, m.revision)
	}
	return Result{Revision: m.revision}
}

// Close implements [Driver].
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed, m.partitions = true, nil
	return nil
}

// maxChunk is how many entries a chunk holds; one more, and it is cut in half.
const maxChunk = 512

// table holds the entries of one partition. An entry, once in the table, is
// replaced and never changed, so that a reader may copy its value without the
// lock. A nil table is empty.
type table struct {
	chunks [][]*Entry // in the order of their keys, none empty
}

// find returns the chunk c and the index i within it at which key is or would be.
func (t *table) find(key Key) (c, i int, ok bool) {
	c, ok = slices.BinarySearchFunc(t.chunks, key, func(chunk []*Entry, k Key) int {
		return strings.Compare(string(chunk[0].Key), string(k))
	})
	if ok || c == 0 {
		return c, 0, ok
	}
	c--
	i, ok = slices.BinarySearchFunc(t.chunks[c], key, func(e *Entry, k Key) int {
		return strings.Compare(string(e.Key), string(k))
	})
	return c, i, ok
}

func (t *table) get(key Key) *Entry {
	if t == nil {
		return nil
	}
	c, i, ok := t.find(key)
	if !ok {
		return nil
	}
	return t.chunks[c][i]
}

// walk yields the entries of r in its order, whatever its limit.
func (t *table) walk(r Range) iter.Seq[*Entry] {
	low, high := r.Bounds()
	switch {
	case t == nil:
		return func(func(*Entry) bool) {}
	case r.Reverse:
		return t.descend(low, high)
	default:
		return t.ascend(low, high)
	}
}

// ascend yields the entries of low <= key < high; an empty high is no bound.
func (t *table) ascend(low, high Key) iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		c, i, _ := t.find(low)
		for ; c < len(t.chunks); c, i = c+1, 0 {
			for _, e := range t.chunks[c][i:] {
				if high != "" && e.Key >= high || !yield(e) {
					return
				}
			}
		}
	}
}

// descend yields the entries of ascend in reverse order.
func (t *table) descend(low, high Key) iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		c, i := len(t.chunks), 0
		if high != "" {
			c, i, _ = t.find(high)
		}
		if c < len(t.chunks) && !back(t.chunks[c][:i], low, yield) {
			return
		}
		for c--; c >= 0; c-- {
			if !back(t.chunks[c], low, yield) {
				return
			}
		}
	}
}

// back yields entries from the last to the first and reports whether to continue.
func back(entries []*Entry, low Key, yield func(*Entry) bool) bool {
	for _, e := range slices.Backward(entries) {
		if e.Key < low || !yield(e) {
			return false
		}
	}
	return true
}

func (t *table) check(conds []Cond) error {
	for i, c := range conds {
		var e Entry
		if found := t.get(c.Key); found != nil {
			e = *found
		}
		if err := c.Check(i, e); err != nil {
			return err
		}
	}
	return nil
}

func (t *table) write(w Write, revision uint64) {
	c, i, ok := t.find(w.Key)
	if w.Delete {
		if ok {
			t.remove(c, i)
		}
		return
	}
	e := &Entry{Key: w.Key, Value: bytes.Clone(w.Value), Revision: revision}
	if ok {
		t.chunks[c][i] = e
		return
	}
	t.insert(c, i, e)
}

func (t *table) insert(c, i int, e *Entry) {
	if len(t.chunks) == 0 {
		t.chunks = [][]*Entry{{e}}
		return
	}
	chunk := slices.Insert(t.chunks[c], i, e)
	t.chunks[c] = chunk
	if len(chunk) > maxChunk {
		half := len(chunk) / 2
		t.chunks[c] = slices.Clone(chunk[:half])
		t.chunks = slices.Insert(t.chunks, c+1, slices.Clone(chunk[half:]))
	}
}

func (t *table) remove(c, i int) {
	t.chunks[c] = slices.Delete(t.chunks[c], i, i+1)
	if len(t.chunks[c]) == 0 {
		t.chunks = slices.Delete(t.chunks, c, c+1)
	}
}

func (e Entry) clone() Entry {
	e.Value = bytes.Clone(e.Value)
	return e
}

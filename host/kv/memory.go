package kv

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Memory is a Driver that keeps everything in memory and forgets it on Close:
// for tests, for examples and for conversations whose client holds the state.
//
// Each partition is a slice sorted by key. A new key is inserted by moving what
// follows it, eight bytes an entry; for the sizes that fit in memory that is
// cheaper than the pointers of a tree, reading a range is walking a slice, and
// the usual new key, the end of a log, has little behind it.
type Memory struct {
	mu         sync.RWMutex
	closed     bool
	revision   uint64
	partitions map[string]*table
}

var _ Driver = (*Memory)(nil)

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{partitions: make(map[string]*table)}
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
		return Entry{}, fmt.Errorf("get %s: %w", key, err)
	}
	return e.clone(), nil
}

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
	entries := m.partitions[partition].within(r.Bounds())
	b := NewPageBuilder(r)
	for i := range entries {
		if r.Reverse {
			i = len(entries) - 1 - i
		}
		if !b.Room() {
			break
		}
		b.Add(*entries[i])
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

// table holds the entries of one partition in the order of their keys. An
// entry, once in the table, is replaced and never changed, so that a reader may
// copy its value without the lock. A nil table is empty.
type table struct {
	entries []*Entry
}

// find returns where key is or would be.
func (t *table) find(key Key) (int, bool) {
	return slices.BinarySearchFunc(t.entries, key, func(e *Entry, k Key) int {
		return strings.Compare(string(e.Key), string(k))
	})
}

func (t *table) get(key Key) *Entry {
	if t == nil {
		return nil
	}
	i, ok := t.find(key)
	if !ok {
		return nil
	}
	return t.entries[i]
}

// within returns the entries in low <= key < high; an empty high is no bound.
func (t *table) within(low, high Key) []*Entry {
	if t == nil || (high != "" && low >= high) {
		return nil
	}
	first, _ := t.find(low)
	end := len(t.entries)
	if high != "" {
		end, _ = t.find(high)
	}
	return t.entries[first:end]
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
	i, ok := t.find(w.Key)
	switch e := (&Entry{Key: w.Key, Value: bytes.Clone(w.Value), Revision: revision}); {
	case w.Delete && ok:
		t.entries = slices.Delete(t.entries, i, i+1)
	case w.Delete:
	case ok:
		t.entries[i] = e
	default:
		t.entries = slices.Insert(t.entries, i, e)
	}
}

func (e Entry) clone() Entry {
	e.Value = bytes.Clone(e.Value)
	return e
}

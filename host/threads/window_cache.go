package threads

import (
	"context"
	"sync/atomic"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/cache"
	"github.com/agenthost/agenthost/host/threads/internal/turnqueue"
)

// windowCache keeps the decoded ends of conversations that Get has returned, so that the
// next turn decodes the messages that were stored since. A window is used only for the
// record that the store has at that moment: other hosts may write. Safe for concurrent
// use; a nil windowCache keeps nothing.
type windowCache struct {
	windows *cache.Cache[windowKey, *window]
	records *cache.Cache[recordKey, *Moment]
	drops   atomic.Uint64 // counts the calls of dropTenant
}

// recordKey names the record of a thread, which the store remembers as its last commit
// left it: the next commit of the turn is built on it without a read. If another writer
// has changed the thread since, that commit fails, and is built again on a record that is
// read.
type recordKey struct{ partition, thread string }

type windowKey struct{ partition, thread, branch string }

// A decoded message takes about this many bytes for each byte of its JSON, with the
// encodings that it keeps for models, and this many besides.
const (
	windowBytesPerByte    = 3
	windowBytesPerMessage = 512
)

// A remembered record takes about this many bytes, and this many for each part of a view.
const (
	recordBytes   = 1 << 10
	viewPartBytes = 24
	// maxRecordBytes bounds the memory of all remembered records.
	maxRecordBytes = 8 << 20
)

func newWindowCache(maxBytes int64) *windowCache {
	if maxBytes < 0 {
		return nil
	}
	if maxBytes == 0 {
		maxBytes = DefaultCacheBytes
	}
	return &windowCache{
		windows: cache.New(cache.Options[windowKey, *window]{MaxBytes: maxBytes, Cost: costOfWindow}),
		records: cache.New(cache.Options[recordKey, *Moment]{MaxBytes: min(maxBytes, maxRecordBytes), Cost: costOfRecord}),
	}
}

// costOfRecord is about how much memory a remembered record takes.
func costOfRecord(k recordKey, t *Moment) int64 {
	n := len(k.partition) + len(k.thread) + len(t.rec.Title) + len(t.view.Messages)*viewPartBytes + len(t.view.Turns)*viewPartBytes + len(t.known.blob)
	for name, value := range t.rec.Metadata {
		n += len(name) + len(value)
	}
	if late := t.rec.late(); late != nil {
		n += len(late.words)
	}
	return int64(n) + recordBytes
}

// record returns a copy of the thread's record as the last commit left it; nil if it is
// not remembered.
func (c *windowCache) record(partition, thread string) *Moment {
	if c == nil {
		return nil
	}
	t, found := c.records.Get(recordKey{partition, thread})
	if !found {
		return nil
	}
	next := *t
	return &next
}

// recordOfTurn returns a copy of the record of the thread that a run's turn continues, if the
// turn has the thread and its first commit was the last one here: it needs no read, for its
// next commit is refused if another writer has changed the thread since. nil otherwise.
func (c *windowCache) recordOfTurn(turns *turnqueue.Table[point], key turnqueue.Key, run string) *Moment {
	head := turns.HeadOf(key, run)
	if head == "" || key.Branch != "" {
		return nil
	}
	if t := c.record(key.Partition, key.Thread); t != nil && t.rec.Head == head {
		return t
	}
	return nil
}

// remember keeps the thread's record as a commit has left it, unless a tenant or thread
// was dropped since drops were counted. The record must not be changed any more.
func (c *windowCache) remember(t *Moment, drops uint64) {
	if c == nil || t.branch != nil {
		return
	}
	c.records.Update(recordKey{t.part.Name, t.rec.ID}, func(*Moment, bool) (*Moment, bool) {
		return t, c.drops.Load() == drops
	})
}

// forget removes the thread's record from memory.
func (c *windowCache) forget(partition, thread string) {
	if c != nil {
		c.records.Delete(recordKey{partition, thread})
	}
}

func costOfWindow(k windowKey, w *window) int64 {
	n := int64(len(w.messages) + len(w.kept))
	return int64(len(k.partition)+len(k.thread)+len(k.branch)) + windowBytesPerByte*int64(w.bytes) + windowBytesPerMessage*(n+1)
}

// DropTenant removes the decoded messages and records of a tenant's threads from memory. A deletion of
// the tenant calls it once the store refuses to read them ([kv.Eraser]). Code
// invalid_argument for a name that no tenant can have.
func (s *Store) DropTenant(tenant string) error {
	part, err := partitionOf(s.driver, tenant)
	if err == nil {
		s.windows.dropTenant(part.Name)
		s.open.dropTenant(part.Name)
	}
	return err
}

// DropWindows removes the decoded messages of all threads from memory, for a host that
// learns that another one has replaced entries in place ([Options].Repaired).
func (s *Store) DropWindows() { s.windows.dropAll() }

// CountCached returns how many conversations of a tenant have decoded messages in memory.
// Code invalid_argument for a name that no tenant can have.
func (s *Store) CountCached(tenant string) (n int, err error) {
	part, err := partitionOf(s.driver, tenant)
	if err != nil || s.windows == nil {
		return 0, err
	}
	s.windows.windows.DeleteIf(func(k windowKey) bool {
		if k.partition == part.Name {
			n++
		}
		return false
	})
	return n, nil
}

// dropTenant removes a tenant's windows. A read that began before does not put one back.
func (c *windowCache) dropTenant(partition string) {
	if c == nil {
		return
	}
	c.drops.Add(1)
	c.windows.DeleteIf(func(k windowKey) bool { return k.partition == partition })
	c.records.DeleteIf(func(k recordKey) bool { return k.partition == partition })
}

// dropAll removes all windows. A read that began before does not put one back.
func (c *windowCache) dropAll() {
	if c == nil {
		return
	}
	c.drops.Add(1)
	c.windows.Clear()
	c.records.Clear()
}

// dropThread removes the windows of a thread and its branches.
func (c *windowCache) dropThread(partition, thread string) {
	if c == nil {
		return
	}
	c.drops.Add(1)
	c.windows.DeleteIf(func(k windowKey) bool { return k.partition == partition && k.thread == thread })
	c.records.Delete(recordKey{partition, thread})
}

// dropBefore removes the window of a conversation that a commit has changed other than by
// adding to it.
func (c *windowCache) dropBefore(d *draft) {
	same := d.before.Content == d.thread.rec.Content && d.before.View == d.thread.rec.View && d.before.Marker == d.thread.rec.Marker
	if c == nil || same {
		return
	}
	c.drops.Add(1)
	c.windows.Delete(windowKey{d.thread.part.Name, d.thread.rec.ID, d.thread.Branch()})
}

// put keeps a window, unless another one that is as long took its place meanwhile, or a
// tenant or thread was dropped since drops were counted.
func (c *windowCache) put(key windowKey, w *window, drops uint64) {
	if c == nil {
		return
	}
	c.windows.Update(key, func(old *window, found bool) (*window, bool) {
		newer := found && old.isPartOf(w) && old.end() >= w.end()
		return w, !newer && c.drops.Load() == drops
	})
}

// countDrops returns how often windows were dropped: see put.
func (c *windowCache) countDrops() uint64 {
	if c == nil {
		return 0
	}
	return c.drops.Load()
}

// load returns the end of the conversation as Get does, of at most limit messages of the
// log: the cached part of it, and the rest from the store. drops were counted before the
// moment was read.
func (c *windowCache) load(ctx context.Context, t *Moment, limit int, drops uint64) ([]*host.Message, error) {
	key := windowKey{t.part.Name, t.rec.ID, t.Branch()}
	var cached *window
	if c != nil {
		cached, _ = c.windows.Get(key)
	}
	w, err := windowReader{t, limit}.after(ctx, cached)
	if err != nil {
		return nil, err
	}
	if w != cached {
		c.put(key, w, drops)
	}
	return w.shown(t, limit), nil
}

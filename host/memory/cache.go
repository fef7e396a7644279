package memory

import (
	"container/list"
	"sync"
	"unsafe"
)

// cache keeps the parts of scopes' indexes that searches have read; the least
// recently used scope leaves first.
type cache struct {
	limit int
	mu    sync.Mutex
	bytes int
	used  list.List // of *index, the latest first
	byKey map[content]*list.Element
}

func newCache(limit int) *cache {
	if limit <= 0 {
		limit = DefaultCacheBytes
	}
	return &cache{limit: limit, byKey: map[content]*list.Element{}}
}

// index holds the cached part of one scope's index at one revision.
type index struct {
	content  content
	revision uint64

	mu      sync.Mutex
	ids     []string
	numbers map[string]uint32
	stems   map[string][]posting
	bytes   int // counted in the cache, and guarded by its lock
}

// index returns the cache of a scope's index. It discards a cache of an older
// revision.
func (c *cache) index(o *opened) *index {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byKey[o.content()]; e != nil {
		ix := e.Value.(*index)
		if ix.revision == o.revision {
			c.used.MoveToFront(e)
			return ix
		}
		if ix.revision > o.revision { // another reader has a newer revision
			return newIndex(o)
		}
		c.drop(e)
	}
	ix := newIndex(o)
	c.byKey[ix.content] = c.used.PushFront(ix)
	return ix
}

func newIndex(o *opened) *index {
	return &index{content: o.content(), revision: o.revision, numbers: map[string]uint32{}, stems: map[string][]posting{}}
}

// drop forgets an index. cache.mu is held.
func (c *cache) drop(e *list.Element) {
	ix := c.used.Remove(e).(*index)
	c.bytes -= ix.bytes
	ix.bytes = 0
	delete(c.byKey, ix.content)
}

// put keeps where a stem is.
func (c *cache) put(ix *index, stem string, postings []posting) {
	added := ix.put(stem, postings)
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byKey[ix.content]
	if e == nil || e.Value.(*index) != ix {
		return // it was dropped, and goes when its search ends
	}
	ix.bytes += added
	for c.bytes += added; c.bytes > c.limit && c.used.Len() > 0; {
		c.drop(c.used.Back())
	}
}

func (ix *index) get(stem string) ([]posting, bool) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	list, ok := ix.stems[stem]
	return list, ok
}

// indexEntryBytes is about the cost of a stem or an id besides its text.
const indexEntryBytes = 64

func (ix *index) put(stem string, postings []posting) (bytes int) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if _, twice := ix.stems[stem]; twice {
		return 0
	}
	ix.stems[stem] = postings
	return len(stem) + indexEntryBytes + len(postings)*(int(unsafe.Sizeof(posting{}))+indexEntryBytes)
}

// number returns the number of a memory.
func (ix *index) number(id string) uint32 {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	n, ok := ix.numbers[id]
	if !ok {
		n = uint32(len(ix.ids))
		ix.ids = append(ix.ids, id)
		ix.numbers[id] = n
	}
	return n
}

// id is the opposite of number.
func (ix *index) id(n uint32) string {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	return ix.ids[n]
}

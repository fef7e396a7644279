package memory

import (
	"sync"
	"unsafe"

	"github.com/agenthost/agenthost/host/internal/cache"
)

// indexCache keeps the parts of scopes' indexes that searches have read.
type indexCache struct {
	byContent *cache.Cache[content, *index]
}

func newIndexCache(maxBytes int) indexCache {
	if maxBytes <= 0 {
		maxBytes = DefaultCacheBytes
	}
	return indexCache{cache.New(cache.Options[content, *index]{
		MaxBytes: int64(maxBytes),
		Cost:     func(of content, ix *index) int64 { return int64(len(of)) + indexEntryBytes + ix.size() },
	})}
}

// index holds the cached part of one scope's index at one revision.
type index struct {
	content  content
	revision uint64

	mu      sync.Mutex
	ids     []string
	numbers map[string]uint32
	stems   map[string][]posting
	bytes   int64 // of the stems
}

// index returns the cache of a scope's index. It discards a cache of an older
// revision.
func (c indexCache) index(o *opened) *index {
	return c.byContent.Update(o.content(), func(cached *index, found bool) (ix *index, keep bool) {
		switch {
		case !found || cached.revision < o.revision:
			return newIndex(o), true
		case cached.revision == o.revision:
			return cached, true
		}
		return newIndex(o), false // another reader has a newer revision
	})
}

func newIndex(o *opened) *index {
	return &index{content: o.content(), revision: o.revision, numbers: map[string]uint32{}, stems: map[string][]posting{}}
}

// put keeps where a stem is. An index that was evicted goes when its search ends.
func (c indexCache) put(ix *index, stem string, postings []posting) {
	ix.put(stem, postings)
	c.byContent.Update(ix.content, func(cached *index, _ bool) (_ *index, keep bool) {
		return ix, cached == ix
	})
}

func (ix *index) size() int64 {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	return ix.bytes
}

func (ix *index) get(stem string) ([]posting, bool) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	list, ok := ix.stems[stem]
	return list, ok
}

// indexEntryBytes is about the cost of an index, a stem or an id besides its text.
const indexEntryBytes = 64

func (ix *index) put(stem string, postings []posting) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if _, twice := ix.stems[stem]; twice {
		return
	}
	ix.stems[stem] = postings
	ix.bytes += int64(len(stem) + indexEntryBytes + len(postings)*(int(unsafe.Sizeof(posting{}))+indexEntryBytes))
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

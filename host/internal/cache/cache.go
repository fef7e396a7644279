package cache

import "sync"

// Options bound a cache. At least one of MaxEntries and MaxBytes is above 0.
type Options[K comparable, V any] struct {
	MaxEntries int   // 0: no bound on their number
	MaxBytes   int64 // on the sum of their costs; 0: no such bound

	// Cost is about how many bytes an entry takes, those of its key included. MaxBytes
	// needs it. The cache asks for it whenever the entry is put; it is called with the
	// lock of the cache held, so it must not use the cache.
	Cost func(K, V) int64

	// Evicted, if not nil, is called with each entry that a bound, a Delete, a DeleteIf
	// or a Clear has removed, but not with a value that another one replaced. It is
	// called without the lock, by the goroutine whose call removed the entry.
	Evicted func(K, V)
}

// Cache is a bounded map. To make room it looks at the entries in the order in which they
// came, evicts those that were not used since it last looked at them, and gives the others
// another round: nearly the order of their last use, without moving an entry at each Get.
// Get, and Put and Update of a key that has an entry, use it. A Cache is safe for
// concurrent use.
type Cache[K comparable, V any] struct {
	opts Options[K, V]

	mu    sync.Mutex
	byKey map[K]*entry[K, V]
	ring  entry[K, V] // ring.next came last; ring.prev is looked at next
	bytes int64       // sum of the entries' costs
}

type entry[K comparable, V any] struct {
	key        K
	value      V
	cost       int64
	used       bool         // since the cache last looked at it
	prev, next *entry[K, V] // in the ring; next alone links removed entries
}

// New returns an empty cache. It panics without a bound, and with a bound on bytes but no
// Cost.
func New[K comparable, V any](opts Options[K, V]) *Cache[K, V] {
	switch {
	case opts.MaxEntries <= 0 && opts.MaxBytes <= 0:
		panic("cache: it has no bound; set MaxEntries or MaxBytes")
	case opts.MaxBytes > 0 && opts.Cost == nil:
		panic("cache: MaxBytes without Cost; set Cost")
	}
	c := &Cache[K, V]{opts: opts, byKey: map[K]*entry[K, V]{}}
	c.ring.prev, c.ring.next = &c.ring, &c.ring
	return c
}

// Get returns the value of a key, and whether there is one. The cache keeps nothing of
// the key that it is given.
func (c *Cache[K, V]) Get(key K) (value V, found bool) {
	c.mu.Lock()
	e := c.byKey[key]
	if found = e != nil; found {
		if !e.used { // without a write that other processors would have to see
			e.used = true
		}
		value = e.value
	}
	c.mu.Unlock()
	return value, found
}

// Put sets the value of a key. An entry that costs more than MaxBytes alone is not kept,
// and evicts no other key's.
func (c *Cache[K, V]) Put(key K, value V) {
	c.Update(key, func(V, bool) (V, bool) { return value, true })
}

// Update calls f with the value of a key, or with found = false, and returns the value
// that f returns. If keep is true, it puts that value, as [Cache.Put] does and with its
// cost of now; otherwise the cache stays unchanged. No other call changes the cache in
// between. f is called with the lock held: it must not use the cache, nor wait.
func (c *Cache[K, V]) Update(key K, f func(old V, found bool) (value V, keep bool)) V {
	value, removed := c.update(key, f)
	c.report(removed)
	return value
}

func (c *Cache[K, V]) update(key K, f func(V, bool) (V, bool)) (value V, removed *entry[K, V]) {
	c.mu.Lock()
	defer c.mu.Unlock() // also if f panics
	var old V
	e := c.byKey[key]
	if e != nil {
		old = e.value
	}
	value, keep := f(old, e != nil)
	if keep {
		removed = c.put(key, value)
	}
	return value, removed
}

// Delete removes the entry of a key, if there is one. The cache keeps nothing of the key
// that it is given.
func (c *Cache[K, V]) Delete(key K) {
	c.mu.Lock()
	e := c.byKey[key]
	if e != nil {
		c.remove(e)
	}
	c.mu.Unlock()
	c.report(e)
}

// DeleteIf removes the entries whose keys match. It looks at every entry with the lock
// held: matches must not use the cache, nor wait.
func (c *Cache[K, V]) DeleteIf(matches func(K) bool) {
	c.report(c.deleteIf(matches))
}

// Clear removes all entries.
func (c *Cache[K, V]) Clear() {
	c.report(c.deleteIf(func(K) bool { return true }))
}

func (c *Cache[K, V]) deleteIf(matches func(K) bool) (removed *entry[K, V]) {
	c.mu.Lock()
	defer c.mu.Unlock() // also if matches panics
	for e := c.ring.next; e != &c.ring; {
		next := e.next
		if matches(e.key) {
			c.remove(e)
			e.next, removed = removed, e
		}
		e = next
	}
	return removed
}

// Len returns the number of entries.
func (c *Cache[K, V]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byKey)
}

// Bytes returns the sum of the entries' costs; 0 without [Options.Cost].
func (c *Cache[K, V]) Bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// put sets an entry and returns those that the bounds have removed, it may be among them.
// The lock is held.
func (c *Cache[K, V]) put(key K, value V) (removed *entry[K, V]) {
	cost := c.cost(key, value)
	e := c.byKey[key]
	if e == nil {
		e = &entry[K, V]{key: key}
	} else {
		c.remove(e)
		e.used = true
	}
	e.value, e.cost = value, cost
	if c.opts.MaxBytes > 0 && cost > c.opts.MaxBytes {
		return e
	}
	for c.lacksRoom(cost) {
		if last := c.evict(); last != nil {
			last.next, removed = removed, last
		}
	}
	c.insert(e)
	return removed
}

// evict looks at an entry. It removes and returns the entry if it was not used.
func (c *Cache[K, V]) evict() *entry[K, V] {
	e := c.ring.prev
	if e.used {
		e.used = false
		e.unlink()
		e.link(&c.ring)
		return nil
	}
	c.remove(e)
	return e
}

func (c *Cache[K, V]) cost(key K, value V) int64 {
	if c.opts.Cost == nil {
		return 0
	}
	return max(0, c.opts.Cost(key, value))
}

// lacksRoom reports whether one more entry of a cost would exceed a bound.
func (c *Cache[K, V]) lacksRoom(cost int64) bool {
	return c.opts.MaxEntries > 0 && len(c.byKey) >= c.opts.MaxEntries ||
		c.opts.MaxBytes > 0 && c.bytes+cost > c.opts.MaxBytes
}

func (c *Cache[K, V]) insert(e *entry[K, V]) {
	c.byKey[e.key] = e
	c.bytes += e.cost
	e.link(&c.ring)
}

func (c *Cache[K, V]) remove(e *entry[K, V]) {
	delete(c.byKey, e.key)
	c.bytes -= e.cost
	e.unlink()
}

// link puts an entry behind another one.
func (e *entry[K, V]) link(after *entry[K, V]) {
	e.prev, e.next = after, after.next
	e.prev.next, e.next.prev = e, e
}

// unlink takes an entry out of the ring.
func (e *entry[K, V]) unlink() {
	e.prev.next, e.next.prev = e.next, e.prev
	e.prev, e.next = nil, nil
}

// report calls Evicted for removed entries, which next links. The lock is not held.
func (c *Cache[K, V]) report(removed *entry[K, V]) {
	if c.opts.Evicted == nil {
		return
	}
	for e := removed; e != nil; e = e.next {
		c.opts.Evicted(e.key, e.value)
	}
}

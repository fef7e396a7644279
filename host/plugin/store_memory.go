package plugin

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agenthost/agenthost/host"
)

// NewMemoryStore returns a store that keeps items in memory, as long as the
// program runs.
func NewMemoryStore() Store { return &memoryStore{owners: map[Owner]*memoryItems{}} }

// memoryStore has a lock for each owner: whatever one makes of its items, it does
// not keep another waiting.
type memoryStore struct {
	last atomic.Int64 // revision

	mu     sync.Mutex
	owners map[Owner]*memoryItems
}

// memoryItems are one owner's. Its fields are guarded by its mutex.
type memoryItems struct {
	mu    sync.Mutex
	size  int64
	items map[string]memoryItem
	keys  keyList // of items
	gone  bool    // it was empty and is in the store no more
}

type memoryItem struct {
	value    []byte
	revision int64
	expires  time.Time
}

func (it memoryItem) live(now time.Time) bool { return it.expires.IsZero() || now.Before(it.expires) }

// locked returns an owner's items with their mutex held, to be given to unlock.
func (s *memoryStore) locked(owner Owner) *memoryItems {
	for {
		s.mu.Lock()
		m := s.owners[owner]
		if m == nil {
			m = &memoryItems{items: map[string]memoryItem{}}
			s.owners[owner] = m
		}
		s.mu.Unlock()
		m.mu.Lock()
		if !m.gone {
			return m
		}
		m.mu.Unlock()
	}
}

// unlock ends what locked began. An owner without items is forgotten.
func (s *memoryStore) unlock(owner Owner, m *memoryItems) {
	if m.gone = len(m.items) == 0; m.gone {
		s.mu.Lock()
		delete(s.owners, owner)
		s.mu.Unlock()
	}
	m.mu.Unlock()
}

func (s *memoryStore) Get(_ context.Context, owner Owner, key string) (Item, error) {
	m := s.locked(owner)
	defer s.unlock(owner, m)
	it, ok := m.items[key]
	if !ok || !it.live(time.Now()) {
		return Item{}, noItem(key)
	}
	return Item{Key: key, Value: slices.Clone(it.value), Revision: it.revision}, nil
}

func noItem(key string) error { return host.Errorf(host.NotFound, "there is no key %q", key) }

func (s *memoryStore) Put(_ context.Context, owner Owner, key string, value []byte, opts PutOptions) (int64, error) {
	if err := host.ValidateTenant(owner.Tenant); err != nil {
		return 0, err
	}
	m, now := s.locked(owner), time.Now()
	defer s.unlock(owner, m)
	if err := m.at(key, opts.At, now); err != nil {
		return 0, err
	}
	if m.after(key, value) > opts.Quota {
		m.expire(now)
		if m.after(key, value) > opts.Quota {
			return 0, QuotaError(opts.Quota)
		}
	}
	m.size = m.after(key, value)
	key = strings.Clone(key)
	if _, ok := m.items[key]; !ok {
		m.keys.add(key)
	}
	revision := s.last.Add(1)
	m.items[key] = memoryItem{slices.Clone(value), revision, opts.Expires}
	return revision, nil
}

// after is how much there is once key has value.
func (m *memoryItems) after(key string, value []byte) int64 {
	size := m.size + ItemBytes(key, value)
	if old, ok := m.items[key]; ok {
		size -= ItemBytes(key, old.value)
	}
	return size
}

// expire removes what has expired.
func (m *memoryItems) expire(now time.Time) {
	for key, it := range m.items {
		if !it.live(now) {
			m.remove(key)
		}
	}
}

func (m *memoryItems) remove(key string) {
	if it, ok := m.items[key]; ok {
		m.size -= ItemBytes(key, it.value)
		delete(m.items, key)
		m.keys.remove(key)
	}
}

// at fails unless key is at the revision, 0 for absent.
func (m *memoryItems) at(key string, at *int64, now time.Time) error {
	if at == nil {
		return nil
	}
	found := int64(0)
	if it, ok := m.items[key]; ok && it.live(now) {
		found = it.revision
	}
	if found != *at {
		return RevisionError(key, *at, found)
	}
	return nil
}

func (s *memoryStore) Delete(_ context.Context, owner Owner, key string, at *int64) error {
	m := s.locked(owner)
	defer s.unlock(owner, m)
	if err := m.at(key, at, time.Now()); err != nil {
		return err
	}
	m.remove(key)
	return nil
}

func (s *memoryStore) List(_ context.Context, owner Owner, opts ListOptions) (items []Item, more bool, err error) {
	m, now, size := s.locked(owner), time.Now(), int64(0)
	defer s.unlock(owner, m)
	var expired []string
	defer func() {
		for _, key := range expired {
			m.remove(key)
		}
	}()
	for key := range m.keys.from(max(opts.Prefix, opts.After)) {
		if !strings.HasPrefix(key, opts.Prefix) {
			break
		}
		it := m.items[key]
		if key == opts.After {
			continue
		}
		if !it.live(now) { // it is passed over once
			expired = append(expired, key)
			continue
		}
		item := Item{Key: key, Revision: it.revision}
		if opts.Values {
			item.Value = slices.Clone(it.value)
		}
		size += ItemBytes(key, item.Value)
		if len(items) == opts.Limit || len(items) > 0 && size > int64(opts.MaxBytes) {
			return items, true, nil
		}
		items = append(items, item)
	}
	return items, false, nil
}

// Erase implements [Eraser].
func (s *memoryStore) Erase(_ context.Context, owner Owner) (Erased, error) {
	m := s.locked(owner)
	defer s.unlock(owner, m)
	n := Erased{Items: len(m.items), Bytes: m.size}
	m.items, m.size, m.keys = nil, 0, keyList{} // unlock forgets them
	return n, nil
}

// EraseTenant implements [Eraser].
func (s *memoryStore) EraseTenant(ctx context.Context, tenant string) (sum Erased, err error) {
	s.mu.Lock()
	var owners []Owner
	for o := range s.owners {
		if o.Tenant == tenant {
			owners = append(owners, o)
		}
	}
	s.mu.Unlock()
	for _, o := range owners {
		n, _ := s.Erase(ctx, o) // never fails
		sum.Items += n.Items
		sum.Bytes += n.Bytes
	}
	return sum, nil
}

// keyList is a set of keys in order, in chunks, so that neither a new key nor a
// list takes time by how many keys there are: some hundred thousand are within
// the default quota, and a guest pays the same price for each.
type keyList struct{ chunks [][]string }

// keysPerChunk is how many keys a chunk has at most.
const keysPerChunk = 512

// chunk returns the index of the chunk where a key is, or would be.
func (l *keyList) chunk(key string) int {
	i, found := slices.BinarySearchFunc(l.chunks, key, func(c []string, key string) int { return strings.Compare(c[0], key) })
	if !found && i > 0 {
		i--
	}
	return i
}

func (l *keyList) add(key string) {
	if len(l.chunks) == 0 {
		l.chunks = append(l.chunks, []string{key})
		return
	}
	i := l.chunk(key)
	c := l.chunks[i]
	at, found := slices.BinarySearch(c, key)
	if found {
		return
	}
	if c = slices.Insert(c, at, key); len(c) > keysPerChunk {
		half := len(c) / 2
		l.chunks = slices.Insert(l.chunks, i+1, slices.Clone(c[half:]))
		clear(c[half:])
		c = c[:half]
	}
	l.chunks[i] = c
}

func (l *keyList) remove(key string) {
	i := l.chunk(key)
	if i == len(l.chunks) {
		return
	}
	at, found := slices.BinarySearch(l.chunks[i], key)
	if !found {
		return
	}
	if l.chunks[i] = slices.Delete(l.chunks[i], at, at+1); len(l.chunks[i]) == 0 {
		l.chunks = slices.Delete(l.chunks, i, i+1)
	}
}

// from yields the keys from the first on that is not before the given one. The
// list must not be changed meanwhile.
func (l *keyList) from(key string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := l.chunk(key); i < len(l.chunks); i++ {
			c := l.chunks[i]
			at, _ := slices.BinarySearch(c, key)
			for _, k := range c[at:] {
				if !yield(k) {
					return
				}
			}
		}
	}
}

var (
	_ Store  = (*memoryStore)(nil)
	_ Eraser = (*memoryStore)(nil)
)

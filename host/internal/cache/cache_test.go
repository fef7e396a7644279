package cache_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host/internal/cache"
)

// model is the slow cache that the fast one is held to. It looks at its first entry next.
type model struct {
	opts    cache.Options[string, int]
	entries []modelEntry
	evicted []modelEntry
}

type modelEntry struct {
	key   string
	value int
	used  bool
}

func (m *model) position(key string) int {
	return slices.IndexFunc(m.entries, func(e modelEntry) bool { return e.key == key })
}

func (m *model) get(key string) (int, bool) {
	i := m.position(key)
	if i < 0 {
		return 0, false
	}
	m.entries[i].used = true
	return m.entries[i].value, true
}

func (m *model) put(key string, value int) {
	e := modelEntry{key: key, value: value}
	if i := m.position(key); i >= 0 {
		m.entries = slices.Delete(m.entries, i, i+1)
		e.used = true
	}
	cost := m.opts.Cost(key, value)
	if m.opts.MaxBytes > 0 && cost > m.opts.MaxBytes {
		m.evicted = append(m.evicted, e)
		return
	}
	for m.opts.MaxEntries > 0 && len(m.entries) == m.opts.MaxEntries || m.opts.MaxBytes > 0 && m.bytes()+cost > m.opts.MaxBytes {
		first := m.entries[0]
		m.entries = m.entries[1:]
		if first.used {
			first.used = false
			m.entries = append(m.entries, first)
		} else {
			m.evicted = append(m.evicted, first)
		}
	}
	m.entries = append(m.entries, e)
}

func (m *model) deleteIf(matches func(string) bool) {
	m.entries = slices.DeleteFunc(m.entries, func(e modelEntry) bool {
		if matches(e.key) {
			m.evicted = append(m.evicted, e)
		}
		return matches(e.key)
	})
}

func (m *model) bytes() (sum int64) {
	for _, e := range m.entries {
		sum += m.opts.Cost(e.key, e.value)
	}
	return sum
}

func TestCacheDoesWhatItsModelDoes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		opts := cache.Options[string, int]{
			MaxEntries: rapid.IntRange(0, 6).Draw(t, "MaxEntries"),
			Cost:       func(key string, value int) int64 { return int64(len(key) + value) },
		}
		if opts.MaxEntries == 0 || rapid.Bool().Draw(t, "both") {
			opts.MaxBytes = rapid.Int64Range(1, 60).Draw(t, "MaxBytes")
		}
		m := &model{opts: opts}
		var evicted []modelEntry
		opts.Evicted = func(key string, value int) { evicted = append(evicted, modelEntry{key: key, value: value}) }
		c := cache.New(opts)
		tenants := []string{"a/", "bb/"}
		key := rapid.Custom(func(t *rapid.T) string {
			return rapid.SampledFrom(tenants).Draw(t, "tenant") + fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "id"))
		})
		value := rapid.IntRange(0, 30)
		t.Repeat(map[string]func(*rapid.T){
			"get": func(t *rapid.T) {
				k := key.Draw(t, "key")
				got, found := c.Get(k)
				if want, ok := m.get(k); got != want || found != ok {
					t.Fatalf("Get(%q) = %d, %v, want %d, %v", k, got, found, want, ok)
				}
			},
			"put": func(t *rapid.T) {
				k, v := key.Draw(t, "key"), value.Draw(t, "value")
				c.Put(k, v)
				m.put(k, v)
			},
			"update": func(t *rapid.T) {
				k, v, keep := key.Draw(t, "key"), value.Draw(t, "value"), rapid.Bool().Draw(t, "keep")
				i := m.position(k)
				got := c.Update(k, func(old int, found bool) (int, bool) {
					if found != (i >= 0) || found && old != m.entries[i].value {
						t.Fatalf("Update(%q) has %d, %v, want %v", k, old, found, m.entries)
					}
					return v, keep
				})
				if got != v {
					t.Fatalf("Update(%q) = %d, want %d", k, got, v)
				}
				if keep {
					m.put(k, v)
				}
			},
			"delete": func(t *rapid.T) {
				k := key.Draw(t, "key")
				c.Delete(k)
				m.deleteIf(func(other string) bool { return other == k })
			},
			"delete a tenant": func(t *rapid.T) {
				tenant := rapid.SampledFrom(tenants).Draw(t, "tenant")
				matches := func(k string) bool { return k[:len(k)-1] == tenant }
				c.DeleteIf(matches)
				m.deleteIf(matches)
			},
			"clear": func(*rapid.T) {
				c.Clear()
				m.deleteIf(func(string) bool { return true })
			},
			"": func(t *rapid.T) {
				if got, want := c.Len(), len(m.entries); got != want {
					t.Fatalf("Len = %d, want %d: %v", got, want, m.entries)
				}
				if got, want := c.Bytes(), m.bytes(); got != want {
					t.Fatalf("Bytes = %d, want %d: %v", got, want, m.entries)
				}
				if got, want := counts(evicted), counts(m.evicted); !maps.Equal(got, want) {
					t.Fatalf("evicted %v, want %v", got, want)
				}
			},
		})
	})
}

func counts(entries []modelEntry) map[modelEntry]int {
	out := map[modelEntry]int{}
	for _, e := range entries {
		e.used = false
		out[e]++
	}
	return out
}

func TestUsedEntriesOutliveUnusedOnes(t *testing.T) {
	t.Parallel()
	c := cache.New(cache.Options[int, int]{MaxEntries: 10})
	c.Put(0, 42)
	for i := 1; i < 100; i++ {
		c.Put(i, i)
		if got, found := c.Get(0); got != 42 || !found {
			t.Fatalf("after %d others, Get = %d, %v, want 42", i, got, found)
		}
	}
	if _, found := c.Get(1); found {
		t.Error("an entry outlives 98 newer ones without a use")
	}
}

func TestNewEntryStaysAmongUsedOnes(t *testing.T) {
	t.Parallel()
	c := cache.New(cache.Options[int, int]{MaxEntries: 3})
	for i := range 20 {
		c.Put(i, i)
		for k := range i + 1 {
			c.Get(k)
		}
		if _, found := c.Get(i); !found {
			t.Fatalf("entry %d was evicted when it was put", i)
		}
	}
}

func TestUpdateCountsTheCostOfNow(t *testing.T) {
	t.Parallel()
	type growing struct{ bytes int64 }
	c := cache.New(cache.Options[string, *growing]{MaxBytes: 10, Cost: func(_ string, v *growing) int64 { return v.bytes }})
	v := &growing{4}
	c.Put("other", &growing{3})
	c.Put("k", v)
	v.bytes = 8
	c.Update("k", func(old *growing, _ bool) (*growing, bool) { return old, true })
	if got := c.Bytes(); got != 8 {
		t.Errorf("Bytes = %d, want 8", got)
	}
	if _, found := c.Get("other"); found {
		t.Error("both are kept, 11 bytes of 10")
	}
}

func TestLargeEntryEvictsNoOther(t *testing.T) {
	t.Parallel()
	c := cache.New(cache.Options[string, int]{MaxBytes: 10, Cost: func(_ string, n int) int64 { return int64(n) }})
	c.Put("a", 5)
	c.Put("b", 11)
	if _, found := c.Get("b"); found {
		t.Error("11 bytes are kept in a cache of 10")
	}
	if _, found := c.Get("a"); !found {
		t.Error("an entry that was not kept has evicted another one")
	}
}

func TestEvictedMayUseTheCache(t *testing.T) {
	t.Parallel()
	var c *cache.Cache[int, int]
	lens := []int{}
	c = cache.New(cache.Options[int, int]{MaxEntries: 1, Evicted: func(int, int) { lens = append(lens, c.Len()) }})
	c.Put(1, 1)
	c.Put(2, 2)
	c.Delete(2)
	if !slices.Equal(lens, []int{1, 0}) {
		t.Errorf("Evicted saw caches of %d entries, want 1 and 0", lens)
	}
}

func TestPanicsLeaveTheCacheUsable(t *testing.T) {
	t.Parallel()
	c := cache.New(cache.Options[int, int]{MaxBytes: 10, Cost: func(_, n int) int64 {
		if n < 0 {
			panic("cost")
		}
		return 1
	}})
	c.Put(1, 1)
	for name, call := range map[string]func(){
		"Put":      func() { c.Put(2, -1) },
		"Update":   func() { c.Update(2, func(int, bool) (int, bool) { panic("update") }) },
		"DeleteIf": func() { c.DeleteIf(func(int) bool { panic("matches") }) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not panic", name)
				}
			}()
			call()
		}()
		if got, found := c.Get(1); got != 1 || !found || c.Len() != 1 || c.Bytes() != 1 {
			t.Fatalf("after a panic in %s: Get = %d, %v, Len = %d, Bytes = %d", name, got, found, c.Len(), c.Bytes())
		}
	}
}

func TestNewWantsABound(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]cache.Options[int, int]{
		"no bound":             {},
		"negative bounds":      {MaxEntries: -1, MaxBytes: -1},
		"bytes without a cost": {MaxBytes: 1},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: New did not panic", name)
				}
			}()
			cache.New(opts)
		}()
	}
}

// TestConcurrentCallsKeepTheBounds is for the race detector too.
func TestConcurrentCallsKeepTheBounds(t *testing.T) {
	t.Parallel()
	const maxEntries, maxBytes = 16, 400
	var put, evicted atomic.Int64
	c := cache.New(cache.Options[int, int]{
		MaxEntries: maxEntries,
		MaxBytes:   maxBytes,
		Cost:       func(key, _ int) int64 { return int64(key) },
		Evicted:    func(int, int) { evicted.Add(1) },
	})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 2000 {
				key := (i*7 + g) % 64
				switch i % 5 {
				case 0:
					if v, found := c.Get(key); found && v != key {
						t.Errorf("Get(%d) = %d", key, v)
					}
				case 1, 2:
					c.Update(key, func(_ int, found bool) (int, bool) {
						if !found {
							put.Add(1)
						}
						return key, true
					})
				case 3:
					c.Delete(key)
				case 4:
					c.DeleteIf(func(k int) bool { return k%8 == g })
				}
				if n, b := c.Len(), c.Bytes(); n > maxEntries || b > maxBytes {
					t.Errorf("%d entries of %d bytes", n, b)
					return
				}
			}
		})
	}
	wg.Wait()
	c.Clear()
	if c.Len() != 0 || c.Bytes() != 0 || put.Load() != evicted.Load() {
		t.Errorf("after Clear: %d entries, %d bytes; %d were put and %d evicted", c.Len(), c.Bytes(), put.Load(), evicted.Load())
	}
}

// BenchmarkCache finds entries again, puts new ones into a full cache, and does one of
// the two in ten calls and the other in nine from all processors.
func BenchmarkCache(b *testing.B) {
	type key struct {
		tenant string
		id     uint64
	}
	const entries = 1 << 12
	full := func() *cache.Cache[key, int] {
		c := cache.New(cache.Options[key, int]{MaxEntries: entries, MaxBytes: 1 << 30, Cost: func(key, int) int64 { return 64 }})
		for i := range entries {
			c.Put(key{"tenant", uint64(i)}, i)
		}
		return c
	}
	b.Run("get", func(b *testing.B) {
		c := full()
		b.ReportAllocs()
		for i := uint64(0); b.Loop(); i++ {
			c.Get(key{"tenant", i % entries})
		}
	})
	b.Run("put", func(b *testing.B) {
		c := full()
		b.ReportAllocs()
		for i := uint64(entries); b.Loop(); i++ {
			c.Put(key{"tenant", i}, 0)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		c := full()
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for i := uint64(0); pb.Next(); i++ {
				if i%10 == 0 {
					c.Put(key{"tenant", i % (2 * entries)}, 0)
				} else {
					c.Get(key{"tenant", i % entries})
				}
			}
		})
	})
	b.Run("delete-if", func(b *testing.B) {
		c := full()
		for b.Loop() {
			c.DeleteIf(func(k key) bool { return k.tenant == "other" })
		}
		b.ReportMetric(entries, "entries")
	})
}

package plugin

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// The store in memory is held to a map that is sorted for each list.
func TestMemoryStoreIsAMap(t *testing.T) {
	ctx := t.Context()
	owner := Owner{"acme", "p"}
	rapid.Check(t, func(t *rapid.T) {
		s, model := NewMemoryStore(), map[string]string{}
		key := rapid.Custom(func(t *rapid.T) string {
			return strings.Repeat("k", 1+rapid.IntRange(0, 2).Draw(t, "length")) + fmt.Sprint(rapid.IntRange(0, 2000).Draw(t, "n"))
		})
		for i := range 1000 { // some chunks
			_, _ = s.Put(ctx, owner, fmt.Sprint("k", i), nil, PutOptions{Quota: 1 << 30})
			model[fmt.Sprint("k", i)] = ""
		}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				k, v := key.Draw(t, "key"), rapid.StringN(0, 5, 5).Draw(t, "value")
				if _, err := s.Put(ctx, owner, k, []byte(v), PutOptions{Quota: 1 << 30}); err != nil {
					t.Fatal(err)
				}
				model[k] = v
			},
			"delete": func(t *rapid.T) {
				k := key.Draw(t, "key")
				if err := s.Delete(ctx, owner, k, nil); err != nil {
					t.Fatal(err)
				}
				delete(model, k)
			},
			"delete many": func(t *rapid.T) {
				prefix := "k" + fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "digit"))
				for _, k := range slices.Sorted(maps.Keys(model)) {
					if strings.HasPrefix(k, prefix) {
						_ = s.Delete(ctx, owner, k, nil)
						delete(model, k)
					}
				}
			},
			"list": func(t *rapid.T) {
				o := ListOptions{Prefix: key.Draw(t, "prefix"), After: key.Draw(t, "after"), Limit: rapid.IntRange(1, 50).Draw(t, "limit"), MaxBytes: 1 << 20, Values: true}
				o.Prefix = o.Prefix[:rapid.IntRange(0, len(o.Prefix)).Draw(t, "cut")]
				var want []string
				for _, k := range slices.Sorted(maps.Keys(model)) {
					if strings.HasPrefix(k, o.Prefix) && k > o.After {
						want = append(want, k+"="+model[k])
					}
				}
				items, more, err := s.List(ctx, owner, o)
				var got []string
				for _, it := range items {
					got = append(got, it.Key+"="+string(it.Value))
				}
				if all := want; err != nil || more != (len(all) > o.Limit) || !slices.Equal(got, all[:min(len(all), o.Limit)]) {
					t.Fatalf("list %+v: %v, more %v, %v; want %v", o, got, more, err, all)
				}
			},
		})
	})
}

// An owner without items is forgotten, and what comes meanwhile is not lost.
func TestMemoryStoreForgetsOwners(t *testing.T) {
	s, owner := NewMemoryStore().(*memoryStore), Owner{"acme", "p"}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 200 {
				k := fmt.Sprint(i, "-", n)
				if _, err := s.Put(t.Context(), owner, k, nil, PutOptions{Quota: 1 << 20}); err != nil {
					t.Error(err)
				}
				if _, err := s.Get(t.Context(), owner, k); err != nil {
					t.Errorf("what was put is gone: %v", err)
				}
				_ = s.Delete(t.Context(), owner, k, nil)
			}
		})
	}
	all.Wait()
	if len(s.owners) != 0 {
		t.Errorf("%d owners without items are remembered", len(s.owners))
	}
}

// What has expired is passed over once, not by every list.
func TestMemoryStoreRemovesWhatHasExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, owner := NewMemoryStore().(*memoryStore), Owner{"acme", "p"}
		for i := range 2000 {
			expires := time.Time{}
			if i%2 == 0 {
				expires = time.Now().Add(time.Second)
			}
			if _, err := s.Put(t.Context(), owner, fmt.Sprintf("%04d", i), nil, PutOptions{Quota: 1 << 20, Expires: expires}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Second)
		items, more, err := s.List(t.Context(), owner, ListOptions{Limit: 2000, MaxBytes: 1 << 20})
		if err != nil || len(items) != 1000 || more {
			t.Fatalf("list: %d items, more %v, %v; want the 1000 that have not expired", len(items), more, err)
		}
		if n := len(s.owners[owner].items); n != 1000 {
			t.Errorf("%d items are kept, want 1000", n)
		}
	})
}

// BenchmarkMemoryStore is a put and a list among as many keys as the default
// quota has room for.
func BenchmarkMemoryStore(b *testing.B) {
	s, owner := NewMemoryStore(), Owner{"acme", "p"}
	const n = 200_000
	for i := range n {
		if _, err := s.Put(b.Context(), owner, fmt.Sprintf("%08d", i), nil, PutOptions{Quota: DefaultKVBytes}); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("put", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			k := fmt.Sprintf("%08dx", i*7919%n)
			_, _ = s.Put(b.Context(), owner, k, nil, PutOptions{Quota: DefaultKVBytes})
			_ = s.Delete(b.Context(), owner, k, nil)
		}
	})
	b.Run("list", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := s.List(b.Context(), owner, ListOptions{After: "00100000", Limit: 100, MaxBytes: 1 << 20}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

package plugintest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/pluginkv"
)

func memoryStore() plugin.Store { return pluginkv.New(kv.NewMemory(), nil) }

func TestMemoryStore(t *testing.T) {
	TestStore(t, func(*testing.T) plugin.Store { return memoryStore() })
}

// wrongStore is a store in memory with one thing wrong.
type wrongStore struct {
	plugin.Store
	put    func(s plugin.Store, ctx context.Context, o plugin.Owner, key string, value []byte, opts plugin.PutOptions) (int64, error)
	list   func(s plugin.Store, ctx context.Context, o plugin.Owner, opts plugin.ListOptions) ([]plugin.Item, bool, error)
	get    func(s plugin.Store, ctx context.Context, o plugin.Owner, key string) (plugin.Item, error)
	delete func(s plugin.Store, ctx context.Context, o plugin.Owner, key string, at *int64) error
	erase  func(s plugin.Store, ctx context.Context, tenant string) (plugin.Erased, error)
}

func (w *wrongStore) Erase(ctx context.Context, o plugin.Owner) (plugin.Erased, error) {
	return w.Store.(plugin.Eraser).Erase(ctx, o)
}

func (w *wrongStore) EraseTenant(ctx context.Context, tenant string) (plugin.Erased, error) {
	if w.erase != nil {
		return w.erase(w.Store, ctx, tenant)
	}
	return w.Store.(plugin.Eraser).EraseTenant(ctx, tenant)
}

func (w *wrongStore) Put(ctx context.Context, o plugin.Owner, key string, value []byte, opts plugin.PutOptions) (int64, error) {
	if w.put != nil {
		return w.put(w.Store, ctx, o, key, value, opts)
	}
	return w.Store.Put(ctx, o, key, value, opts)
}

func (w *wrongStore) List(ctx context.Context, o plugin.Owner, opts plugin.ListOptions) ([]plugin.Item, bool, error) {
	if w.list != nil {
		return w.list(w.Store, ctx, o, opts)
	}
	return w.Store.List(ctx, o, opts)
}

func (w *wrongStore) Get(ctx context.Context, o plugin.Owner, key string) (plugin.Item, error) {
	if w.get != nil {
		return w.get(w.Store, ctx, o, key)
	}
	return w.Store.Get(ctx, o, key)
}

func (w *wrongStore) Delete(ctx context.Context, o plugin.Owner, key string, at *int64) error {
	if w.delete != nil {
		return w.delete(w.Store, ctx, o, key, at)
	}
	return w.Store.Delete(ctx, o, key, at)
}

// The kit finds what is wrong with a store that is wrong on purpose.
func TestWrongStores(t *testing.T) {
	keep, found := map[string][]byte{}, map[string]bool{}
	for rule, w := range map[string]*wrongStore{
		"what was put is there, until it is deleted": {delete: func(plugin.Store, context.Context, plugin.Owner, string, *int64) error { return nil }},
		"revisions grow, over a deletion too": {get: func(s plugin.Store, ctx context.Context, o plugin.Owner, key string) (plugin.Item, error) {
			it, err := s.Get(ctx, o, key)
			it.Revision %= 5
			return it, err
		}},
		"owners are apart": {get: func(s plugin.Store, ctx context.Context, o plugin.Owner, key string) (plugin.Item, error) {
			o.Tenant = strings.ToLower(o.Tenant)
			return s.Get(ctx, o, key)
		}},
		"a write under a condition that does not hold changes nothing": {delete: func(s plugin.Store, ctx context.Context, o plugin.Owner, key string, _ *int64) error {
			return s.Delete(ctx, o, key, nil)
		}},
		"a quota holds, and what is removed makes room": {put: func(s plugin.Store, ctx context.Context, o plugin.Owner, key string, value []byte, opts plugin.PutOptions) (int64, error) {
			opts.Quota++
			return s.Put(ctx, o, key, value, opts)
		}},
		"lists are pages in the order of bytes": {list: func(s plugin.Store, ctx context.Context, o plugin.Owner, opts plugin.ListOptions) ([]plugin.Item, bool, error) {
			opts.MaxBytes = roomy
			return s.List(ctx, o, opts)
		}},
		"an item whose time has passed is not there": {put: func(s plugin.Store, ctx context.Context, o plugin.Owner, key string, value []byte, opts plugin.PutOptions) (int64, error) {
			opts.Expires = time.Time{}
			return s.Put(ctx, o, key, value, opts)
		}},
		"slices belong to the caller": {get: func(s plugin.Store, ctx context.Context, o plugin.Owner, key string) (plugin.Item, error) {
			it, err := s.Get(ctx, o, key)
			if keep[key] == nil {
				keep[key] = it.Value
			}
			it.Value = keep[key]
			return it, err
		}},
		"writes at the same time are one after another": {put: func(s plugin.Store, ctx context.Context, o plugin.Owner, key string, value []byte, opts plugin.PutOptions) (int64, error) {
			if o.Tenant == "full" { // as it is when all look at the quota before any has written
				opts.Quota = roomy
			}
			return s.Put(ctx, o, key, value, opts)
		}},
		"a write whose caller has left is not made by halves": {put: func(s plugin.Store, ctx context.Context, o plugin.Owner, key string, value []byte, opts plugin.PutOptions) (int64, error) {
			revision, err := s.Put(ctx, o, key, value, opts)
			if <-ctx.Done(); o.Tenant == "acme" {
				return revision, ctx.Err()
			}
			return revision, err
		}},
		"it is a map": {get: func(s plugin.Store, ctx context.Context, o plugin.Owner, key string) (plugin.Item, error) {
			if key == "42" {
				return plugin.Item{}, host.Errorf(host.NotFound, "lost")
			}
			return s.Get(ctx, o, key)
		}},
		"what is erased is gone, and nothing else": {erase: func(s plugin.Store, ctx context.Context, tenant string) (plugin.Erased, error) {
			n, _ := s.(plugin.Eraser).EraseTenant(ctx, tenant)
			_, err := s.(plugin.Eraser).EraseTenant(ctx, tenant+"s")
			return n, err
		}},
	} {
		i := slices.IndexFunc(storeRules(), func(r storeRule) bool { return r.name == rule })
		if i < 0 {
			t.Fatalf("there is no rule %q", rule)
		}
		w.Store = memoryStore()
		broken := storeRules()[i].check(t.Context(), w)
		if len(broken) == 0 {
			t.Errorf("a store that breaks the rule %q does not", rule)
		}
		t.Log(rule, broken)
		found[rule] = true
	}
	for _, r := range storeRules() {
		if !found[r.name] {
			t.Errorf("no store breaks the rule %q", r.name)
		}
	}
}

func TestCheckStore(t *testing.T) {
	n := 0
	for r := range CheckStore(t.Context(), memoryStore) {
		if n++; !r.OK() || r.Took <= 0 {
			t.Errorf("%+v", r)
		}
	}
	if n != len(storeRules()) {
		t.Errorf("%d results of %d rules", n, len(storeRules()))
	}
}

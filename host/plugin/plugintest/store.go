package plugintest

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
)

// TestStore checks a [plugin.Store] against the contract of the interface. Each rule is a
// subtest named after it, with a store of its own from open.
func TestStore(t *testing.T, open func(t *testing.T) plugin.Store) {
	t.Helper()
	for _, r := range storeRules() {
		t.Run(r.name, func(t *testing.T) {
			for _, err := range r.check(t.Context(), open(t)) {
				t.Error(err)
			}
		})
	}
}

// CheckStore is TestStore for programs: it yields a result for each rule. open returns an
// empty store for each rule.
func CheckStore(ctx context.Context, open func() plugin.Store) iter.Seq[*Result] {
	return func(yield func(*Result) bool) {
		for _, r := range storeRules() {
			began := time.Now()
			res := &Result{Rule: r.name}
			for _, err := range r.check(ctx, open()) {
				res.Problems = append(res.Problems, err.Error())
			}
			res.Took = time.Since(began)
			if !yield(res) {
				return
			}
		}
	}
}

type storeRule struct {
	name  string
	check func(ctx context.Context, s plugin.Store) []error
}

func storeRules() []storeRule {
	return []storeRule{
		{"what was put is there, until it is deleted", storeKeeps},
		{"revisions grow, over a deletion too", storeRevisions},
		{"owners are apart", storeOwners},
		{"a write under a condition that does not hold changes nothing", storeConditions},
		{"a quota holds, and what is removed makes room", storeQuota},
		{"lists are pages in the order of bytes", storeLists},
		{"an item whose time has passed is not there", storeExpiry},
		{"slices belong to the caller", storeSlices},
		{"writes at the same time are one after another", storeConcurrency},
		{"a write whose caller has left is not made by halves", storeCancel},
		{"it is a map", storeIsAMap},
		{"what is erased is gone, and nothing else", storeErases},
	}
}

// storeCheck collects the faults of a store.
type storeCheck struct {
	ctx   context.Context // the lifetime of the check
	s     plugin.Store
	owner plugin.Owner
	mu    sync.Mutex
	errs  []error
}

const roomy = 1 << 20

func checkStore(ctx context.Context, s plugin.Store) *storeCheck {
	return &storeCheck{ctx: ctx, s: s, owner: plugin.Owner{Tenant: "acme", Plugin: "p"}}
}

func (c *storeCheck) fail(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.errs) < 10 {
		c.errs = append(c.errs, fmt.Errorf(format, args...))
	}
}

// of is the same check for another owner.
func (c *storeCheck) of(tenant, id string) *storeCheck {
	return &storeCheck{ctx: c.ctx, s: c.s, owner: plugin.Owner{Tenant: tenant, Plugin: id}}
}

func (c *storeCheck) put(key, value string, opts plugin.PutOptions) int64 {
	if opts.Quota == 0 {
		opts.Quota = roomy
	}
	revision, err := c.s.Put(c.ctx, c.owner, key, []byte(value), opts)
	if err != nil {
		c.fail("put %q: %v", key, err)
	}
	return revision
}

// refused checks that a put fails with a code.
func (c *storeCheck) refused(key, value string, opts plugin.PutOptions, want host.Code) {
	if opts.Quota == 0 {
		opts.Quota = roomy
	}
	if _, err := c.s.Put(c.ctx, c.owner, key, []byte(value), opts); host.CodeOf(err) != want {
		c.fail("put %q with %+v: %v, want %s", key, opts, err, want)
	}
}

// has checks the value of a key, or, with a code, the error of reading it.
func (c *storeCheck) has(key, want string, code host.Code) plugin.Item {
	it, err := c.s.Get(c.ctx, c.owner, key)
	if host.CodeOf(err) != code || string(it.Value) != want || code == "" && it.Key != key {
		c.fail("get %q: %q = %.100q, %v, want %.100q, code %q", key, it.Key, it.Value, err, want, code)
	}
	return it
}

func (c *storeCheck) gone(key string) { c.has(key, "", host.NotFound) }

func (c *storeCheck) delete(key string, at *int64, want host.Code) {
	if err := c.s.Delete(c.ctx, c.owner, key, at); host.CodeOf(err) != want {
		c.fail("delete %q: %v, want code %q", key, err, want)
	}
}

// lists checks the keys of a page.
func (c *storeCheck) lists(opts plugin.ListOptions, wantMore bool, want ...string) []plugin.Item {
	if opts.MaxBytes == 0 {
		opts.MaxBytes = roomy
	}
	items, more, err := c.s.List(c.ctx, c.owner, opts)
	var got []string
	for _, it := range items {
		got = append(got, it.Key)
	}
	if err != nil || more != wantMore || !slices.Equal(got, want) {
		c.fail("list %+v: %.200q, more %v, %v; want %.200q, %v", opts, got, more, err, want, wantMore)
	}
	return items
}

func storeKeeps(ctx context.Context, s plugin.Store) []error {
	c := checkStore(ctx, s)
	long := strings.Repeat("é", 256) // the longest key
	large := strings.Repeat("x", 256<<10)
	c.gone("a")
	for key, value := range map[string]string{"a": "1", "empty": "", "\x00\x01/\x02": "odd", long: large, "ÿ": "\x00\xff"} {
		c.put(key, value, plugin.PutOptions{})
		c.has(key, value, "")
	}
	c.put("a", "2", plugin.PutOptions{})
	c.has("a", "2", "")
	c.gone("A")
	c.delete("a", nil, "")
	c.gone("a")
	c.delete("a", nil, "") // a missing key is no error
	c.has(long, large, "")
	return c.errs
}

func storeRevisions(ctx context.Context, s plugin.Store) []error {
	c := checkStore(ctx, s)
	last := int64(0)
	for range 20 {
		revision := c.put("a", "same", plugin.PutOptions{})
		if revision <= last {
			c.fail("revision %d follows %d", revision, last)
		}
		if it := c.has("a", "same", ""); it.Revision != revision {
			c.fail("put says revision %d, get %d", revision, it.Revision)
		}
		if items := c.lists(plugin.ListOptions{Limit: 1}, false, "a"); len(items) == 1 && items[0].Revision != revision {
			c.fail("put says revision %d, list %d", revision, items[0].Revision)
		}
		last = revision
		c.delete("a", &last, "")
	}
	return c.errs
}

func storeOwners(ctx context.Context, s plugin.Store) []error {
	c := checkStore(ctx, s)
	owners := []*storeCheck{c.of("a", "b"), c.of("a", "bc"), c.of("ab", "c"), c.of("a", "b/c"), c.of("a", "b\x00"), c.of("a b", "c"), c.of("a/b", "c"), c.of("default", "b"), c.of("A", "b"), c.of("item", "usage")}
	for i, o := range owners {
		o.put("k", fmt.Sprint(i), plugin.PutOptions{Quota: plugin.ItemBytes("k", []byte("0"))})
		o.refused("l", "", plugin.PutOptions{Quota: plugin.ItemBytes("k", []byte("0"))}, host.ResourceExhausted)
	}
	for i, o := range owners {
		o.has("k", fmt.Sprint(i), "")
		o.lists(plugin.ListOptions{Limit: 10}, false, "k")
	}
	for i, o := range owners {
		o.delete("k", nil, "")
		for _, other := range owners[i+1:] {
			other.lists(plugin.ListOptions{Limit: 10}, false, "k")
		}
		c.errs = append(c.errs, o.errs...)
	}
	for _, nobody := range []string{"", "a\x00b", "\xff", "agenthost/queue", strings.Repeat("x", host.MaxTenantBytes+1)} {
		o := c.of(nobody, "b")
		o.refused("k", "x", plugin.PutOptions{}, host.InvalidArgument)
		c.errs = append(c.errs, o.errs...)
	}
	return c.errs
}

func storeConditions(ctx context.Context, s plugin.Store) []error {
	c := checkStore(ctx, s)
	at := func(revision int64) plugin.PutOptions { return plugin.PutOptions{At: &revision} }
	c.refused("a", "x", at(7), host.Conflict)
	c.gone("a")
	first := c.put("a", "1", at(0))
	c.refused("a", "x", at(0), host.Conflict)
	second := c.put("a", "2", at(first))
	c.refused("a", "x", at(first), host.Conflict)
	c.delete("a", &first, host.Conflict)
	c.has("a", "2", "")
	c.delete("a", &second, "")
	c.delete("a", &second, host.Conflict)
	c.delete("a", new(int64), "")
	c.refused("a", "x", at(second), host.Conflict)
	c.gone("a")
	c.put("a", "3", at(0))
	return c.errs
}

func storeQuota(ctx context.Context, s plugin.Store) []error {
	c := checkStore(ctx, s)
	quota := 2 * plugin.ItemBytes("a", []byte("four"))
	in := plugin.PutOptions{Quota: quota}
	c.put("a", "four", in)
	c.put("b", "four", in)
	c.refused("c", "", in, host.ResourceExhausted)
	c.refused("a", "fives", in, host.ResourceExhausted)
	c.has("a", "four", "")
	c.put("a", "six", in) // a smaller value always fits
	c.put("b", "fives", in)
	c.refused("c", "", in, host.ResourceExhausted)
	c.delete("a", nil, "")
	c.put("c", "six", in)
	c.put("c", "four", plugin.PutOptions{Quota: quota + 1})
	return c.errs
}

func storeLists(ctx context.Context, s plugin.Store) []error {
	c := checkStore(ctx, s)
	keys := []string{"a", "a\x00", "a/", "a/1", "a/10", "a/2", "ab", "b", "é", "\U0010ffff"}
	for _, i := range rand.Perm(len(keys)) {
		c.put(keys[i], "v"+keys[i], plugin.PutOptions{})
	}
	c.lists(plugin.ListOptions{Limit: 100}, false, keys...)
	c.lists(plugin.ListOptions{Limit: len(keys)}, false, keys...)
	c.lists(plugin.ListOptions{Limit: 3}, true, keys[:3]...)
	c.lists(plugin.ListOptions{Limit: 3, After: "a/1"}, true, keys[4:7]...)
	c.lists(plugin.ListOptions{Limit: 100, After: "a/15"}, false, keys[5:]...) // a missing key
	c.lists(plugin.ListOptions{Limit: 100, Prefix: "a/"}, false, keys[2:6]...)
	c.lists(plugin.ListOptions{Limit: 2, Prefix: "a/", After: "a/1"}, false, keys[4:6]...)
	c.lists(plugin.ListOptions{Limit: 100, Prefix: "a/", After: "Z"}, false, keys[2:6]...)
	c.lists(plugin.ListOptions{Limit: 100, Prefix: "a/", After: "b"}, false)
	c.lists(plugin.ListOptions{Limit: 100, Prefix: "nothing"}, false)
	size := int(plugin.ItemBytes("a", nil))
	c.lists(plugin.ListOptions{Limit: 100, MaxBytes: 1}, true, "a")
	c.lists(plugin.ListOptions{Limit: 100, MaxBytes: 2*size + 1}, true, "a", "a\x00")
	for _, it := range c.lists(plugin.ListOptions{Limit: 100, Values: true}, false, keys...) {
		if string(it.Value) != "v"+it.Key {
			c.fail("the list has %q = %q", it.Key, it.Value)
		}
	}
	for _, it := range c.lists(plugin.ListOptions{Limit: 100}, false, keys...) {
		if it.Value != nil {
			c.fail("a list without values has %q = %q", it.Key, it.Value)
		}
	}
	return c.errs
}

// manyItems is more than a store reads or removes in one step.
const manyItems = 300

func storeExpiry(ctx context.Context, s plugin.Store) []error {
	c := checkStore(ctx, s)
	past, future := time.Now().Add(-time.Second), time.Now().Add(time.Hour)
	quota := manyItems * plugin.ItemBytes("000", nil)
	for i := range manyItems - 1 {
		c.put(fmt.Sprintf("%03d", i), "", plugin.PutOptions{Expires: past, Quota: quota})
	}
	c.put("later", "v", plugin.PutOptions{Expires: future})
	c.gone("000")
	c.lists(plugin.ListOptions{Limit: 10}, false, "later")
	zero := int64(0)
	c.put("001", "anew", plugin.PutOptions{At: &zero, Quota: roomy})
	c.has("001", "anew", "")
	for i := range manyItems - 2 { // these have room again
		c.put(fmt.Sprintf("new%d", i), "", plugin.PutOptions{Quota: quota + 1000})
	}
	c.has("later", "v", "")
	c.put("later", "for ever", plugin.PutOptions{})
	c.put("001", "", plugin.PutOptions{Expires: past})
	c.put("001", "again", plugin.PutOptions{Expires: future})
	c.has("001", "again", "")
	c.lists(plugin.ListOptions{Limit: 1, Prefix: "later"}, false, "later")
	return c.errs
}

// storeErases checks stores that are a [plugin.Eraser].
func storeErases(ctx context.Context, s plugin.Store) []error {
	e, ok := s.(plugin.Eraser)
	if !ok {
		return nil
	}
	c := checkStore(ctx, s)
	quota := plugin.PutOptions{Quota: manyItems * plugin.ItemBytes("000", nil)}
	fill := func(c *storeCheck) {
		for i := range manyItems {
			opts := quota
			if i%2 == 0 {
				opts.Expires = time.Now().Add(time.Hour)
			}
			c.put(fmt.Sprintf("%03d", i), "", opts)
		}
	}
	erase := func(c *storeCheck, want int) {
		n, err := e.Erase(ctx, c.owner)
		if err != nil || n.Items != want || n.Bytes != int64(want)*plugin.ItemBytes("000", nil) {
			c.fail("erase %+v: %+v, %v, want %d items", c.owner, n, err, want)
		}
		c.lists(plugin.ListOptions{Limit: 10}, false)
	}
	others := []*storeCheck{c.of("acme", "q"), c.of("acme", "p/"), c.of("acme", "p\x00"), c.of("acm", "p"), c.of("acmes", "p"), c.of("acme/p", "item")}
	for _, o := range others {
		o.put("k", "v", plugin.PutOptions{})
	}
	erase(c, 0)
	last := c.put("000", "", plugin.PutOptions{})
	fill(c)
	erase(c, manyItems)
	erase(c, 0)
	if revision := c.put("000", "", plugin.PutOptions{}); revision <= last {
		c.fail("revision %d follows %d, which was erased", revision, last)
	}
	fill(c) // the whole quota is free again
	for _, o := range others {
		o.has("k", "v", "")
	}
	n, err := e.EraseTenant(ctx, "acme")
	if want := manyItems + 3; err != nil || n.Items != want {
		c.fail("erase tenant: %+v, %v, want %d items", n, err, want)
	}
	for i, o := range others {
		if i < 3 {
			o.gone("k")
		} else {
			o.has("k", "v", "")
		}
		c.errs = append(c.errs, o.errs...)
	}
	erase(c, 0)
	return c.errs
}

func storeSlices(ctx context.Context, s plugin.Store) []error {
	c := checkStore(ctx, s)
	value := []byte("value")
	if _, err := s.Put(ctx, c.owner, "a", value, plugin.PutOptions{Quota: roomy}); err != nil {
		c.fail("put: %v", err)
	}
	copy(value, "xxxxx")
	got := c.has("a", "value", "").Value
	copy(got, "yyyyy")
	for _, it := range c.lists(plugin.ListOptions{Limit: 1, Values: true}, false, "a") {
		if !bytes.Equal(it.Value, []byte("value")) {
			c.fail("the list has %q", it.Value)
		}
		copy(it.Value, "zzzzz")
	}
	c.has("a", "value", "")
	return c.errs
}

// storeConcurrency lets many goroutines count in one key, compete for the last room in
// the quota, and read entries while they are written.
func storeConcurrency(ctx context.Context, s plugin.Store) []error {
	const goroutines, rounds = 8, 25
	c := checkStore(ctx, s)
	full, quota := c.of("full", "p"), 3*plugin.ItemBytes("0", nil)
	var fitted atomic.Int64
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for range rounds {
				c.increment("counter")
			}
			if _, err := s.Put(ctx, full.owner, fmt.Sprint(g), nil, plugin.PutOptions{Quota: quota}); err == nil {
				fitted.Add(1)
			} else if host.CodeOf(err) != host.ResourceExhausted {
				c.fail("put beyond the quota: %v", err)
			}
			mine := c.of("acme", fmt.Sprint(g))
			mine.put("k", fmt.Sprint(g), plugin.PutOptions{})
			mine.has("k", fmt.Sprint(g), "")
			for _, err := range mine.errs {
				c.fail("%w", err)
			}
		})
	}
	wg.Wait()
	c.has("counter", strings.Repeat("1", goroutines*rounds), "")
	if n := fitted.Load(); n != 3 {
		c.fail("%d items fit into the quota of 3", n)
	}
	return append(c.errs, full.errs...)
}

// increment adds a digit to the value of a key under the condition that no other
// goroutine has changed it.
func (c *storeCheck) increment(key string) {
	for {
		it, err := c.s.Get(c.ctx, c.owner, key)
		if err != nil && host.CodeOf(err) != host.NotFound {
			c.fail("get %q: %v", key, err)
			return
		}
		_, err = c.s.Put(c.ctx, c.owner, key, append(it.Value, '1'), plugin.PutOptions{At: &it.Revision, Quota: roomy})
		if err == nil {
			return
		}
		if host.CodeOf(err) != host.Conflict {
			c.fail("put %q: %v", key, err)
			return
		}
	}
}

// storeCancel cancels callers while they write.
func storeCancel(ctx context.Context, s plugin.Store) []error {
	c := checkStore(ctx, s)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 20 {
				key := fmt.Sprintf("%d-%d", g, i)
				leaving, cancel := context.WithCancel(ctx)
				wg.Go(cancel)
				_, err := s.Put(leaving, c.owner, key, []byte("v"), plugin.PutOptions{Quota: roomy})
				switch code := host.CodeOf(err); {
				case err == nil:
					c.has(key, "v", "")
				case code == host.Canceled:
					c.gone(key)
				default:
					c.fail("put while its caller leaves: %v", err)
				}
			}
		})
	}
	wg.Wait()
	return c.errs
}

// storeIsAMap makes many random changes and compares with a map.
func storeIsAMap(ctx context.Context, s plugin.Store) []error {
	c, model := checkStore(ctx, s), map[string]string{}
	random := rand.New(rand.NewPCG(5, 6))
	for range 600 {
		key := fmt.Sprint(random.IntN(60))
		switch random.IntN(4) {
		case 0:
			c.delete(key, nil, "")
			delete(model, key)
		case 1:
			o := plugin.ListOptions{Prefix: fmt.Sprint(random.IntN(6)), After: key, Limit: 1 + random.IntN(8)}
			var want []string
			for k := range model {
				if strings.HasPrefix(k, o.Prefix) && k > o.After {
					want = append(want, k)
				}
			}
			slices.Sort(want)
			c.lists(o, len(want) > o.Limit, want[:min(len(want), o.Limit)]...)
		default:
			model[key] = fmt.Sprint(random.IntN(1000))
			c.put(key, model[key], plugin.PutOptions{})
		}
	}
	for key, value := range model {
		c.has(key, value, "")
	}
	return c.errs
}

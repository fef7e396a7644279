package kvtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/agenthost/agenthost/host/kv"
)

// Store is a store to be tested.
type Store struct {
	// Open opens the store. When the driver it returned is closed, Open may be
	// called again, and a durable store then has its entries.
	Open func() (kv.Driver, error)
	// Durable says that commits survive Close and Open.
	Durable bool
	// Compact makes an engine that compacts later drop deleted and replaced
	// entries now. It may be nil.
	Compact func(kv.Driver) error
}

// rule is one promise of a driver.
type rule struct {
	name  string
	check func(t *testing.T, s Store)
}

// Run checks a driver against every rule, and one that is a [kv.Eraser] against those of
// erasures. newStore returns an empty store without other users; Run calls it once for each
// rule, and once before to find out what the store is.
func Run(t *testing.T, newStore func(t *testing.T) Store) {
	rules := slices.Concat(readWriteRules, revisionRules, condRules, commitRules, scanRules,
		partitionRules, limitRules, lifeRules, concurrencyRules, modelRules)
	durable, erases := traits(t, newStore(t))
	if durable {
		rules = append(rules, durableRules...)
	}
	if erases {
		rules = append(rules, eraserRules...)
	}
	if durable && erases {
		rules = append(rules, durableEraserRules...)
	}
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) { r.check(t, newStore(t)) })
	}
}

// traits says which rules a store has beside those of every store.
func traits(t *testing.T, s Store) (durable, erases bool) {
	t.Helper()
	d, err := s.Open()
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	defer d.Close()
	_, erases = d.(kv.Eraser)
	return s.Durable, erases
}

// tenant is the partition of rules that need no other.
const tenant = "acme"

// open opens the store until the test ends.
func open(t *testing.T, s Store) kv.Driver {
	t.Helper()
	d, err := s.Open()
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return d
}

// reopen closes d and opens the store again, compacted on the way.
func reopen(t *testing.T, s Store, d kv.Driver) kv.Driver {
	t.Helper()
	closeDriver(t, d)
	d = open(t, s)
	if s.Compact == nil {
		return d
	}
	if err := s.Compact(d); err != nil {
		t.Fatalf("Compact: %v", err)
	}
	closeDriver(t, d)
	return open(t, s)
}

func closeDriver(t *testing.T, d kv.Driver) {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
}

// apply commits a Tx that must succeed.
func apply(t testing.TB, d kv.Driver, tx kv.Tx) uint64 {
	t.Helper()
	rev, err := kv.Apply(t.Context(), d, tx)
	if err != nil {
		t.Fatalf("Commit(%v): %v", outline(tx), err)
	}
	return rev
}

// put stores one value in the partition of tenant.
func put(t testing.TB, d kv.Driver, key kv.Key, value string) uint64 {
	t.Helper()
	return apply(t, d, kv.Tx{Partition: tenant, Writes: []kv.Write{kv.Put(key, []byte(value))}})
}

// del deletes one key in the partition of tenant.
func del(t testing.TB, d kv.Driver, key kv.Key) {
	t.Helper()
	apply(t, d, kv.Tx{Partition: tenant, Writes: []kv.Write{kv.Delete(key)}})
}

// wantValue checks the value that tenant has at key and returns its revision.
func wantValue(t testing.TB, d kv.Driver, key kv.Key, want string) uint64 {
	t.Helper()
	e, err := d.Get(t.Context(), tenant, key)
	if err != nil {
		t.Fatalf("Get(%s): %v, want value %q", key, err, want)
	}
	if e.Key != key || string(e.Value) != want || e.Revision == 0 || e.Revision >= 1<<63 {
		t.Fatalf("Get(%s) = {%s %q revision %d}, want value %q and a positive revision", key, e.Key, e.Value, e.Revision, want)
	}
	return e.Revision
}

// wantAbsent checks that tenant has nothing at key.
func wantAbsent(t testing.TB, d kv.Driver, key kv.Key) {
	t.Helper()
	e, err := d.Get(t.Context(), tenant, key)
	if !errors.Is(err, kv.ErrNotFound) {
		t.Fatalf("Get(%s) = %q, %v, want kv.ErrNotFound", key, e.Value, err)
	}
}

// wantIs checks that the operation named by what failed with target.
func wantIs(t testing.TB, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: error %v, want one that is %q", what, err, target)
	}
}

// scan reads one page that must be readable.
func scan(t testing.TB, d kv.Driver, partition string, r kv.Range) kv.Page {
	t.Helper()
	page, err := d.Scan(t.Context(), partition, r)
	if err != nil {
		t.Fatalf("Scan(%+v): %v", r, err)
	}
	return page
}

// keys returns the keys of a page, for comparing.
func keys(p kv.Page) []kv.Key {
	ks := make([]kv.Key, len(p.Entries))
	for i, e := range p.Entries {
		ks[i] = e.Key
	}
	return ks
}

// everything reads a whole partition.
func everything(t testing.TB, d kv.Driver, partition string) []kv.Entry {
	t.Helper()
	var all []kv.Entry
	for e, err := range kv.All(t.Context(), d, partition, kv.Range{}) {
		if err != nil {
			t.Fatalf("All(%q): %v", partition, err)
		}
		all = append(all, e)
	}
	return all
}

// outline shows a Tx without its values.
func outline(tx kv.Tx) string {
	s := fmt.Sprintf("partition %.20q", tx.Partition)
	for _, c := range tx.Conds {
		s += fmt.Sprintf(" if[%d %.40s %d]", c.Kind, c.Key, c.Revision)
	}
	for i, w := range tx.Writes {
		if i == 8 {
			return s + fmt.Sprintf(" and %d more", len(tx.Writes)-i)
		}
		s += fmt.Sprintf(" write[%.40s %d bytes delete=%v]", w.Key, len(w.Value), w.Delete)
	}
	return s
}

// canceled returns a context that has ended.
func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

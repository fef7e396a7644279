package pgkv_test

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/kvtest"
	"github.com/agenthost/agenthost/host/kv/pgkv"
	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/internal/pgkvtest"
)

func encrypted(b byte) *pgkv.Options { return &pgkv.Options{Key: bytes.Repeat([]byte{b}, 32)} }

func TestEncryptedStore(t *testing.T) {
	longtest.Need(t, "the rules of TestStore again")
	kvtest.Run(t, func(t *testing.T) kvtest.Store {
		address := pgkvtest.Address(t)
		return kvtest.Store{
			Open:    func() (kv.Driver, error) { return pgkvtest.OpenAt(t.Context(), address, encrypted('k')) },
			Durable: true,
		}
	})
}

// schemaOf returns the name of a store's schema as statements have it.
func schemaOf(t *testing.T, address string) string {
	t.Helper()
	config, err := pgx.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	return pgx.Identifier{config.RuntimeParams["schema"]}.Sanitize()
}

// count returns the result of a query for one number, in which {schema} is the store's.
func count(t *testing.T, address, query string, args ...any) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), pgkvtest.Server(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	config, err := pgx.ParseConfig(address)
	if err == nil {
		query = string(bytes.ReplaceAll([]byte(query), []byte("{schema}"), []byte(config.RuntimeParams["schema"])))
		err = conn.QueryRow(t.Context(), query, args...).Scan(&n)
	}
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func TestValuesOfAnEncryptedStoreAreSealed(t *testing.T) {
	address := pgkvtest.Address(t)
	s := mustOpen(t, address, encrypted('k'))
	mustPut(t, s, "acme", "a", "the text")
	mustPut(t, s, "acme", "b", "the text")
	if n := count(t, address, `select count(*) from {schema}.entries where position('text'::bytea in value) > 0`); n != 0 {
		t.Errorf("%d values are in clear", n)
	}
	if n := count(t, address, `select count(distinct value) + count(distinct mark) from {schema}.entries`); n != 4 {
		t.Errorf("equal values of two keys have %d different columns, want 4", n)
	}
	other := mustOpen(t, address, encrypted('k'))
	if e, err := other.Get(t.Context(), "acme", "a"); err != nil || string(e.Value) != "the text" {
		t.Errorf("Get by another store = %q, %v", e.Value, err)
	}
}

func TestASealedValueThatWasMovedIsDamaged(t *testing.T) {
	address := pgkvtest.Address(t)
	s := mustOpen(t, address, encrypted('k'))
	mustPut(t, s, "acme", "a", "1")
	mustPut(t, s, "acme", "b", "2")
	count(t, address, `with moved as (update {schema}.entries e set value = f.value from {schema}.entries f where e.key = 'b' and f.key = 'a' returning 1) select count(*) from moved`)
	if _, err := s.Get(t.Context(), "acme", "b"); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("Get = %v, want kv.ErrCorrupt", err)
	}
	damaged := (*kv.EntryError)(nil)
	if _, err := s.Scan(t.Context(), "acme", kv.Range{}); !errors.As(err, &damaged) || damaged.Key != "b" {
		t.Errorf("Scan = %v, want a *kv.EntryError of b", err)
	}
}

func TestAStoreOpensWithItsKeyAlone(t *testing.T) {
	sealed, plain := pgkvtest.Address(t), pgkvtest.Address(t)
	mustOpen(t, sealed, encrypted('k'))
	mustOpen(t, plain, nil)
	for name, c := range map[string]struct {
		address string
		opts    *pgkv.Options
		is      error
	}{
		"another key":             {sealed, encrypted('x'), kv.ErrKey},
		"no key":                  {sealed, nil, kv.ErrKey},
		"a key for plain tables":  {plain, encrypted('k'), kv.ErrKey},
		"a key of the wrong size": {plain, &pgkv.Options{Key: []byte("short")}, kv.ErrInvalid},
	} {
		if s, err := pgkv.Open(t.Context(), c.address, c.opts); !errors.Is(err, c.is) {
			if err == nil {
				_ = s.Close()
			}
			t.Errorf("%s: Open = %v, want %v", name, err, c.is)
		}
	}
}

func TestEraseDestroysTheDataKeyForAllStores(t *testing.T) {
	address := pgkvtest.Address(t)
	s, other := mustOpen(t, address, encrypted('k')), mustOpen(t, address, encrypted('k'))
	mustPut(t, s, "leaves", "k", "v")
	mustPut(t, other, "leaves", "l", "v")
	if p, err := s.Prove(t.Context(), "leaves"); err != nil || !p.DataKey {
		t.Fatalf("Prove before = %+v, %v, want a data key", p, err)
	}
	if err := s.BeginErase(t.Context(), "leaves"); err != nil {
		t.Fatal(err)
	}
	if n := count(t, address, `select count(*) from {schema}.data_keys`); n != 0 {
		t.Errorf("%d data keys are left after BeginErase", n)
	}
	for _, d := range []kv.Driver{s, other, mustOpen(t, address, encrypted('k'))} {
		if _, err := kv.Apply(t.Context(), d, kv.Tx{Partition: "leaves", Writes: []kv.Write{kv.Put("k", []byte("w"))}}); !errors.Is(err, kv.ErrErasing) {
			t.Errorf("Commit = %v, want ErrErasing", err)
		}
		if _, err := d.Get(t.Context(), "leaves", "k"); !errors.Is(err, kv.ErrNotFound) {
			t.Errorf("Get = %v, want ErrNotFound", err)
		}
	}
	if err := s.Erase(t.Context(), "leaves"); err != nil {
		t.Fatal(err)
	}
	// The other store has the old key in memory, and must not seal with it.
	mustPut(t, other, "leaves", "k", "again")
	for _, d := range []kv.Driver{s, other, mustOpen(t, address, encrypted('k'))} {
		if e, err := d.Get(t.Context(), "leaves", "k"); err != nil || string(e.Value) != "again" {
			t.Errorf("Get after the erasure = %q, %v", e.Value, err)
		}
	}
}

// before is the options of an encrypted store that calls fn once before it sends a
// statement with a text.
func before(text string, fn func()) *pgkv.Options {
	var once sync.Once
	opts := encrypted('k')
	opts.OnStatement = func(sql string) {
		if strings.Contains(sql, text) {
			once.Do(fn)
		}
	}
	return opts
}

// A commit that found its partition marked writes what it has, or is refused, if the
// erasure ends and another store writes to the partition before the commit is sent.
func TestACommitBesideTheEndOfAnErasureWritesItsValue(t *testing.T) {
	address := pgkvtest.Address(t)
	other := mustOpen(t, address, encrypted('k'))
	mustPut(t, other, "leaves", "k", "old")
	if err := other.BeginErase(t.Context(), "leaves"); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, address, before("insert into "+schemaOf(t, address)+".lanes", func() {
		if err := other.Erase(t.Context(), "leaves"); err != nil {
			t.Error(err)
		}
		mustPut(t, other, "leaves", "l", "of the next")
	}))
	mustPut(t, s, "leaves", "k", "new")
	for key, want := range map[kv.Key]string{"k": "new", "l": "of the next"} {
		if e, err := s.Get(t.Context(), "leaves", key); err != nil || string(e.Value) != want {
			t.Errorf("Get(%s) = %q, %v, want %q", key, e.Value, err, want)
		}
	}
}

// A store that knows the key of a partition that was erased and made again compares the
// conditions of a commit with the entries of the present partition.
func TestConditionsAreOfThePartitionThatIsThere(t *testing.T) {
	address := pgkvtest.Address(t)
	s, other := mustOpen(t, address, encrypted('k')), mustOpen(t, address, encrypted('k'))
	mustPut(t, s, "leaves", "k", "old")
	if err := other.Erase(t.Context(), "leaves"); err != nil {
		t.Fatal(err)
	}
	revision := mustPut(t, other, "leaves", "k", "new")
	for name, cond := range map[string]kv.Cond{"revision": kv.AtRevision("k", revision), "value": kv.Fence("k", []byte("new"))} {
		tx := kv.Tx{Partition: "leaves", Conds: []kv.Cond{cond}, Writes: []kv.Write{kv.Put(kv.Key(name), nil)}}
		if _, err := kv.Apply(t.Context(), s, tx); err != nil {
			t.Errorf("a commit under the %s: %v", name, err)
		}
	}
}

// A partition may be erased and made again more than once while a value in it is read.
func TestAValueWhosePartitionIsErasedAgainIsNotDamaged(t *testing.T) {
	address := pgkvtest.Address(t)
	other := mustOpen(t, address, encrypted('k'))
	mustPut(t, other, "leaves", "k", "old")
	const most = 3
	erasures := 0
	opts := encrypted('k')
	opts.OnStatement = func(sql string) {
		switch {
		case erasures == most:
		case strings.Contains(sql, "k.wrapped"): // of the key of a value that was read
			erasures++
			if err := other.Erase(t.Context(), "leaves"); err != nil {
				t.Error(err)
			}
		case erasures > 0 && strings.HasPrefix(sql, "\nselect e.revision, e.value"):
			mustPut(t, other, "leaves", "k", "again")
		}
	}
	s := mustOpen(t, address, opts)
	if _, err := s.Get(t.Context(), "leaves", "k"); !errors.Is(err, kv.ErrNotFound) || erasures != most {
		t.Errorf("Get beside %d erasures = %v, want ErrNotFound after %d", erasures, err, most)
	}
}

// A sealed value is longer than its text: a page that ends for its bytes still says that
// more follow.
func TestPagesOfAnEncryptedStoreHaveEveryEntry(t *testing.T) {
	s := mustOpen(t, pgkvtest.Address(t), encrypted('k'))
	const n, size = 1200, 5000
	keys := kv.NewKey("many")
	for first := uint64(0); first < n; first += 100 {
		var writes []kv.Write
		for i := range uint64(100) {
			writes = append(writes, kv.Put(keys.WithUint(first+i), make([]byte, size)))
		}
		if _, err := kv.Apply(t.Context(), s, kv.Tx{Partition: "acme", Writes: writes}); err != nil {
			t.Fatal(err)
		}
	}
	for _, reverse := range []bool{false, true} {
		found := 0
		for _, err := range kv.All(t.Context(), s, "acme", kv.Range{Prefix: keys, Limit: kv.MaxScanLimit, Reverse: reverse}) {
			if err != nil {
				t.Fatal(err)
			}
			found++
		}
		if found != n {
			t.Errorf("with Reverse %v a scan of all pages has %d entries, want %d", reverse, found, n)
		}
	}
}

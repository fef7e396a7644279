package badgerkv_test

// Scenario: files of a store are damaged. Badger ends the process when it meets some
// damages, so damaged stores are opened in a process of their own, see package
// filedamage, which AGENTHOST_TEST_DAMAGES configures.

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/agenthost/agenthost/host/internal/filedamage"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/internal/longtest"
)

const (
	damageDefault = 80
	damageEntries = 600
	damageBytes   = 40_000 // of the shortest value
)

// TestDamageIsFound damages one file of a store and opens it: the store opens with
// everything in it, or an error names the file and nothing has changed.
func TestDamageIsFound(t *testing.T) {
	filedamage.Run(t, &filedamage.Test{Fill: fillStore, Open: openDamaged, Default: damageDefault})
}

// fillStore makes a store with tables and, if it is killed, with commits that no table
// has yet.
func fillStore(t *testing.T, dir string, c filedamage.Case) (closeStore func() error) {
	d, err := badgerkv.Open(dir, &badgerkv.Options{Key: damageKey(c)})
	if err != nil {
		t.Fatal(err)
	}
	for i := range damageEntries {
		mustPut(t, d, damageEntryKey(i), damageValue(i))
	}
	return d.Close
}

func damageKey(c filedamage.Case) []byte {
	if !c.Encrypted {
		return nil
	}
	return bytes.Repeat([]byte("k"), 32)
}

func damageEntryKey(i int) kv.Key { return kv.NewKey("k").WithUint(uint64(i)) }

// damageValue compresses badly, so that tables are as large as what is in them.
func damageValue(i int) string { return damageText()[i*damageStep:][:damageBytes+i] }

// damageStep is how far the values of two entries are apart in damageText.
const damageStep = 64

// damageText has random bytes, made once: each process of a test reads all values.
var damageText = sync.OnceValue(func() string {
	b := make([]byte, damageBytes+damageEntries*(damageStep+1))
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // never fails
	return string(b)
})

func openDamaged(t *testing.T, dir string, c filedamage.Case) (outcome, reason string) {
	d, err := badgerkv.Open(dir, &badgerkv.Options{Key: damageKey(c)})
	if err != nil {
		for _, typed := range []error{kv.ErrCorrupt, kv.ErrFormat, kv.ErrKey} {
			if errors.Is(err, typed) {
				return "refused", err.Error()
			}
		}
		return "untyped", err.Error()
	}
	defer d.Close()
	for i := range damageEntries {
		e, err := d.Get(t.Context(), "acme", damageEntryKey(i))
		if i == damageEntries-1 && errors.Is(err, kv.ErrNotFound) && c.Killed {
			// A last commit that is damaged looks like one of which the end did not
			// reach the disk, and Badger drops it: see Damage in the package's page.
			continue
		}
		if err != nil {
			return "lost", fmt.Sprintf("entry %d: %v", i, err)
		}
		if string(e.Value) != damageValue(i) {
			return "changed", fmt.Sprintf("entry %d", i)
		}
	}
	return "whole", ""
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// A MANIFEST that was cut opens as an empty store in Badger, which then deletes
// the tables.
func TestManifestCutAnywhereIsDamage(t *testing.T) {
	for _, clean := range []bool{true, false} {
		base := t.TempDir()
		filedamage.Fill(t, "TestDamageIsFound", base, filedamage.Case{Killed: !clean})
		whole := must(os.ReadFile(filepath.Join(base, "MANIFEST")))(t)
		dir := filepath.Join(t.TempDir(), "store") // a refused store is not changed: one copy is enough for all cuts
		filedamage.CopySparse(t, base, dir)
		for n := range len(whole) {
			if !longtest.Enabled() && n%8 != 5 {
				continue
			}
			mustWrite(t, filepath.Join(dir, "MANIFEST"), string(whole[:n]))
			before := filedamage.Digests(t, dir)
			wantOpenError(t, dir, kv.ErrCorrupt, "MANIFEST", "restore a backup")
			if err := badgerkv.Check(dir, nil); !errors.Is(err, kv.ErrCorrupt) {
				t.Errorf("clean=%t, cut to %d: Check: %v, want kv.ErrCorrupt", clean, n, err)
			}
			if !maps.Equal(filedamage.Digests(t, dir), before) {
				t.Fatalf("clean=%t, cut to %d: the files have changed", clean, n)
			}
		}
	}
}

// A log of a memtable that was exchanged with the value log looks like one that has
// no record yet.
func TestExchangedLogsAreDamage(t *testing.T) {
	base := t.TempDir()
	filedamage.Fill(t, "TestDamageIsFound", base, filedamage.Case{Killed: true})
	dir := filepath.Join(t.TempDir(), "store")
	filedamage.CopySparse(t, base, dir)
	logs := glob(t, filepath.Join(dir, "*.mem"))
	newest, values := logs[len(logs)-1], filepath.Join(dir, "000001.vlog")
	for _, move := range [][2]string{{newest, newest + ".x"}, {values, newest}, {newest + ".x", values}} {
		if err := os.Rename(move[0], move[1]); err != nil {
			t.Fatal(err)
		}
	}
	wantOpenError(t, dir, kv.ErrCorrupt, "vlog", "restore a backup")
}

// Tables that no MANIFEST names are what a killed process leaves, or all that there
// is of some entries.
func TestUnnamedTableIsMovedAndKept(t *testing.T) {
	dir := filledStore(t)
	table := must(os.ReadFile(glob(t, filepath.Join(dir, "*.sst"))[0]))(t)
	for range 2 {
		mustWrite(t, filepath.Join(dir, "000077.sst"), string(table))
		s := mustOpen(t, dir, nil)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	lost := glob(t, filepath.Join(dir, badgerkv.LostDir, "*"))
	if len(lost) != 2 || !slices.Equal(must(os.ReadFile(lost[1]))(t), table) {
		t.Errorf("moved: %q, want the table twice", lost)
	}
}

func TestCheckOfAGoodStore(t *testing.T) {
	dir := filledStore(t)
	if err := badgerkv.Check(dir, nil); err != nil {
		t.Errorf("closed: %v", err)
	}
	if err := badgerkv.Check(dir, &badgerkv.Options{Key: make([]byte, 32)}); !errors.Is(err, kv.ErrKey) {
		t.Errorf("with a key: %v, want kv.ErrKey", err)
	}
	s := mustOpen(t, dir, &badgerkv.Options{Verify: true})
	if err := badgerkv.Check(dir, nil); !errors.Is(err, kv.ErrLocked) {
		t.Errorf("open: %v, want kv.ErrLocked", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := badgerkv.Check(t.TempDir(), nil); !errors.Is(err, kv.ErrInvalid) {
		t.Errorf("an empty directory: %v, want kv.ErrInvalid", err)
	}
}

// A store of an earlier version has no inventory: it opens, and has one then.
func TestStoreWithoutInventoryOpens(t *testing.T) {
	dir := filledStore(t)
	removeAll(t, filepath.Join(dir, "INVENTORY"))
	mustPut(t, mustOpen(t, dir, nil), "more", "v")
	glob(t, filepath.Join(dir, "INVENTORY"))
}

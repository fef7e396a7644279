package badgerkv_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
)

// words returns size bytes that no compression makes much smaller.
func words(size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = 'a' + byte(rand.IntN(26))
	}
	return b
}

const (
	markers     = 60
	markerText  = "MARKER-%04d-OF-THE-TENANT-THAT-LEAVES"
	entriesEach = 10 // entries for each with a marker
)

// fillTenants writes the same into each partition; the first one's values hold the
// markers.
func fillTenants(t *testing.T, s kv.Driver, size int, partitions ...string) {
	t.Helper()
	for i := range markers {
		var txs []kv.Tx
		for n, partition := range partitions {
			tx := kv.Tx{Partition: partition}
			for j := range entriesEach {
				value := words(size)
				if n == 0 && j == 0 {
					value = append(value, fmt.Sprintf(markerText, i)...)
				}
				tx.Writes = append(tx.Writes, kv.Put(kv.NewKey("k").WithUint(uint64(i*entriesEach+j)), value))
			}
			txs = append(txs, tx)
		}
		for _, r := range s.Commit(t.Context(), txs...) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
}

// countMarkers counts the markers that are in files below dir, in clear.
func countMarkers(t *testing.T, dir string) int {
	t.Helper()
	marker := regexp.MustCompile("MARKER-[0-9]{4}-OF-THE-TENANT-THAT-LEAVES")
	const longest = len("MARKER-0000-OF-THE-TENANT-THAT-LEAVES")
	seen := map[string]bool{}
	piece := make([]byte, 1<<20)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // merged meanwhile
		}
		if err != nil {
			return err
		}
		defer f.Close()
		for kept := 0; ; { // the end of the last piece, in which a marker may begin
			n, err := f.Read(piece[kept:])
			b := piece[:kept+n]
			for _, m := range marker.FindAll(b, -1) {
				seen[string(m)] = true
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			kept = copy(piece, b[max(0, len(b)-longest):])
		}
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return len(seen)
}

func TestEraseRemovesAPartitionFromTheFiles(t *testing.T) {
	for name, opts := range map[string]*badgerkv.Options{"without a key": nil, "with a key": encrypted('k')} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := mustOpen(t, dir, opts)
			fillTenants(t, s, 4000, "leaves", "stays")
			if opts == nil && countMarkers(t, dir) != markers {
				t.Fatalf("the files hold %d markers before, want %d: this test sees nothing", countMarkers(t, dir), markers)
			}
			var failed atomic.Int64
			stop, writers := make(chan struct{}), sync.WaitGroup{}
			writers.Go(func() {
				for i := uint64(0); ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					if _, err := kv.Apply(context.Background(), s, kv.Tx{Partition: "stays", Writes: []kv.Write{kv.Put(kv.NewKey("w").WithUint(i), words(500))}}); err != nil {
						failed.Add(1)
					}
				}
			})
			if err := s.Erase(t.Context(), "leaves"); err != nil {
				t.Fatalf("Erase = %v", err)
			}
			if n := countMarkers(t, dir); n != 0 {
				t.Errorf("the files hold %d markers after Erase, others writing", n)
			}
			proof, err := s.Prove(t.Context(), "leaves")
			if err != nil || !proof.Gone() || proof.Scanned == 0 || proof.ErasedAt == nil {
				t.Errorf("Prove = %+v, %v, want that it is gone", proof, err)
			}
			close(stop)
			writers.Wait()
			if n := failed.Load(); n != 0 {
				t.Errorf("%d commits of another partition failed", n)
			}
			if proof, err := s.Prove(t.Context(), "stays"); err != nil || proof.Readable < markers*entriesEach || proof.DataKey != (opts != nil) {
				t.Errorf("Prove of another partition = %+v, %v", proof, err)
			}
			// The name can be used again.
			mustPutIn(t, s, "leaves", "new", "v")
			if e, err := s.Get(t.Context(), "leaves", "new"); err != nil || string(e.Value) != "v" {
				t.Errorf("Get = %q, %v in the partition of an erased one's name", e.Value, err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if n := countMarkers(t, dir); n != 0 {
				t.Errorf("the files hold %d markers after Close", n)
			}
		})
	}
}

func mustPutIn(t *testing.T, d kv.Driver, partition string, key kv.Key, value string) {
	t.Helper()
	if _, err := kv.Apply(t.Context(), d, kv.Tx{Partition: partition, Writes: []kv.Write{kv.Put(key, []byte(value))}}); err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
}

func TestAPartitionThatIsBeingErasedIsEmptyAtOnce(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, encrypted('k'))
	mustPutIn(t, s, "leaves", "k", "v")
	// A guarded write is kept in memory, too.
	e, _ := s.Get(t.Context(), "leaves", "k")
	if _, err := kv.Apply(t.Context(), s, kv.Tx{Partition: "leaves", Conds: []kv.Cond{kv.AtRevision("k", e.Revision)}, Writes: []kv.Write{kv.Put("k", []byte("w"))}}); err != nil {
		t.Fatal(err)
	}
	if err := s.BeginErase(t.Context(), "leaves"); err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		t.Helper()
		if _, err := s.Get(t.Context(), "leaves", "k"); !errors.Is(err, kv.ErrNotFound) {
			t.Errorf("%s, Get = %v, want ErrNotFound", when, err)
		}
		if page, err := s.Scan(t.Context(), "leaves", kv.Range{}); err != nil || len(page.Entries) != 0 {
			t.Errorf("%s, Scan = %v, %v, want an empty page", when, page, err)
		}
		if _, err := kv.Apply(t.Context(), s, kv.Tx{Partition: "leaves", Writes: []kv.Write{kv.Put("k", nil)}}); !errors.Is(err, kv.ErrErasing) {
			t.Errorf("%s, Commit = %v, want ErrErasing", when, err)
		}
		for part := range s.Partitions(t.Context()) {
			t.Errorf("%s, Partitions has %q", when, part)
		}
		if got, err := s.Erasing(t.Context()); err != nil || len(got) != 1 || got[0] != "leaves" {
			t.Errorf("%s, Erasing = %q, %v", when, got, err)
		}
		if p, err := s.Prove(t.Context(), "leaves"); err != nil || p.DataKey || p.Gone() || p.Readable != 0 {
			t.Errorf("%s, Prove = %+v, %v, want entries without a key", when, p, err)
		}
	}
	check("after BeginErase")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, dir, encrypted('k'))
	check("after a restart")
	if err := s.Erase(t.Context(), "leaves"); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Erasing(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("after Erase, Erasing = %q, %v", got, err)
	}
}

func TestABackupOfBeforeHasNothingOfAnErasedPartition(t *testing.T) {
	for name, opts := range map[string]*badgerkv.Options{"without a key": nil, "with a key": encrypted('k')} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := mustOpen(t, dir, opts)
			mustPutIn(t, s, "leaves", "k", "v")
			mustPutIn(t, s, "stays", "k", "v")
			before := backup(t, s)
			if err := s.Erase(t.Context(), "leaves"); err != nil {
				t.Fatal(err)
			}
			mustPutIn(t, s, "leaves", "k2", "another tenant of that name")
			after := backup(t, s)
			for which, want := range map[*[]byte]string{&before: `"stays" "k"=v`, &after: `"leaves" "k2"=another tenant of that name "stays" "k"=v`} {
				to := filepath.Join(t.TempDir(), "new")
				ro := &badgerkv.RestoreOptions{KeyFile: filepath.Join(dir, badgerkv.KeyFile)}
				if opts != nil {
					ro.Store = *opts
				}
				if _, err := badgerkv.Restore(t.Context(), to, bytes.NewReader(*which), ro); err != nil {
					t.Fatal(err)
				}
				restored := mustOpen(t, to, &ro.Store)
				var got []string
				for k, v := range contents(t, restored) {
					got = append(got, k+"="+v)
				}
				slices.Sort(got)
				if strings.Join(got, " ") != want {
					t.Errorf("restored %q, want %q", got, want)
				}
				if which == &before {
					if p, err := restored.Prove(t.Context(), "leaves"); err != nil || !p.Gone() || p.ErasedAt == nil {
						t.Errorf("Prove of the restored store = %+v, %v", p, err)
					}
				}
			}
		})
	}
}

func TestPurgeRemovesDeletedEntriesFromTheFiles(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, nil)
	fillTenants(t, s, 2000, "acme", "stays")
	if err := kv.Remove(t.Context(), s, "acme", kv.NewKey("k")); err != nil {
		t.Fatal(err)
	}
	if n := countMarkers(t, dir); n != markers {
		t.Fatalf("the files hold %d markers before a purge, want %d: this test sees nothing", n, markers)
	}
	if err := s.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := countMarkers(t, dir); n != 0 {
		t.Errorf("the files hold %d markers after a purge", n)
	}
}

func TestAStorePurgesItself(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, &badgerkv.Options{PurgeInterval: 100 * time.Millisecond})
	fillTenants(t, s, 500, "acme")
	if err := kv.Remove(t.Context(), s, "acme", kv.NewKey("k")); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(2 * time.Minute); countMarkers(t, dir) > 0; time.Sleep(50 * time.Millisecond) { // files have no channel
		if time.Now().After(deadline) {
			t.Fatalf("the files still hold %d markers", countMarkers(t, dir))
		}
	}
}

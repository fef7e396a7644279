package badgerkv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/agenthost/agenthost/host/kv"
)

func openBlobs(t *testing.T, dir string, opts *Options) *Store {
	t.Helper()
	s, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func apply(t *testing.T, s *Store, partition string, writes ...kv.Write) {
	t.Helper()
	if _, err := kv.Apply(t.Context(), s, kv.Tx{Partition: partition, Writes: writes}); err != nil {
		t.Fatal(err)
	}
}

// large is a value of a file of its own.
func large(content byte) []byte { return bytes.Repeat([]byte{content}, blobBytes) }

func countFiles(t *testing.T, s *Store, partition string) int {
	t.Helper()
	n, err := s.blobs.countBlobs(partition)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A store in which nothing is deleted removes the large values that others took the
// place of.
func TestReplacedLargeValuesAreCollected(t *testing.T) {
	dir := t.TempDir()
	if err := openBlobs(t, dir, nil).Close(); err != nil { // nothing is left to collect
		t.Fatal(err)
	}
	s := openBlobs(t, dir, &Options{PurgeInterval: 100 * time.Millisecond})
	for i := range byte(5) {
		apply(t, s, "acme", kv.Put("k", large(i)))
	}
	for deadline := time.Now().Add(2 * time.Minute); countFiles(t, s, "acme") > 1; time.Sleep(time.Millisecond) { // files have no channel
		if time.Now().After(deadline) {
			t.Fatalf("%d files are there of one value", countFiles(t, s, "acme"))
		}
	}
	if e, err := s.Get(t.Context(), "acme", "k"); err != nil || !bytes.Equal(e.Value, large(4)) {
		t.Errorf("Get = %d bytes, %v", len(e.Value), err)
	}
}

// What is deleted while a purge runs is the next one's, also if nothing else is deleted.
func TestADeletionDuringAPurgeIsOfTheNext(t *testing.T) {
	s := openBlobs(t, t.TempDir(), &Options{PurgeInterval: -1})
	apply(t, s, "acme", kv.Put("a", nil), kv.Put("b", nil))
	apply(t, s, "acme", kv.Delete("a"))
	var once sync.Once
	var deleting sync.WaitGroup
	s.engine.commit = func(txn *badger.Txn) error {
		once.Do(func() { deleting.Go(func() { apply(t, s, "acme", kv.Delete("b")) }) })
		return txn.Commit()
	}
	if err := s.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	deleting.Wait()
	if _, due, err := s.engine.purgeDue(time.Hour); err != nil || !due {
		t.Errorf("the next purge is due: %v, %v", due, err)
	}
	if err := s.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, due, err := s.engine.purgeDue(time.Hour); err != nil || due {
		t.Errorf("with nothing deleted since, a purge is due: %v, %v", due, err)
	}
}

// A purge rests after each of its commits, and not for minutes if a commit took long.
func TestAPurgeOfASlowDeviceRestsForSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openBlobs(t, t.TempDir(), &Options{PurgeInterval: -1})
		apply(t, s, "acme", kv.Put("a", nil))
		apply(t, s, "acme", kv.Delete("a"))
		const slow = 10 * time.Second
		commits := time.Duration(0)
		s.engine.commit = func(txn *badger.Txn) error {
			commits++
			time.Sleep(slow)
			return txn.Commit()
		}
		began := time.Now()
		if err := s.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took, most := time.Since(began), commits*(slow+maxRest)+time.Minute; took > most {
			t.Errorf("a purge of %d commits of %s took %s, more than %s", commits, slow, took, most)
		}
	})
}

// A deletion that the store could not sync may be undone by the next start.
func TestACommitInDoubtLeavesLargeValues(t *testing.T) {
	s := openBlobs(t, t.TempDir(), &Options{PurgeInterval: -1})
	apply(t, s, "acme", kv.Put("k", large('v')))
	s.engine.commit = func(txn *badger.Txn) error { return errors.Join(txn.Commit(), errors.New("sync failed")) }
	_, err := kv.Apply(t.Context(), s, kv.Tx{Partition: "acme", Writes: []kv.Write{kv.Delete("k")}})
	if !errors.Is(err, kv.ErrInDoubt) {
		t.Fatal(err)
	}
	if err := s.collectUncollected(t.Context()); !errors.Is(err, kv.ErrReadOnly) {
		t.Errorf("collect = %v, want ErrReadOnly", err)
	}
	if n := countFiles(t, s, "acme"); n != 1 {
		t.Errorf("%d files are left of 1", n)
	}
}

// A reference that cannot be read holds up neither another tenant's erasure nor a purge,
// and what it may have referred to stays.
func TestAnEntryThatCannotBeReadHoldsUpNoErasure(t *testing.T) {
	s := openBlobs(t, t.TempDir(), &Options{PurgeInterval: -1})
	apply(t, s, "acme", kv.Put("k", large('v')))
	apply(t, s, "globex", kv.Put("k", large('w')))
	apply(t, s, "initech", kv.Put("k", large('x')))
	apply(t, s, "initech", kv.Delete("k"))
	err := s.engine.commitOwn(t.Context(), func(txn *badger.Txn) error {
		return txn.SetEntry(badger.NewEntry(engineKey("acme", "k"), []byte("no reference")).WithMeta(blobMeta))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Erase(t.Context(), "globex"); err != nil {
		t.Errorf("Erase = %v", err)
	}
	if err := s.Purge(t.Context()); err != nil {
		t.Errorf("Purge = %v", err)
	}
	for partition, want := range map[string]int{"acme": 1, "globex": 0, "initech": 0} {
		if n := countFiles(t, s, partition); n != want {
			t.Errorf("%s has %d files, want %d", partition, n, want)
		}
	}
}

// A partition that begins to be erased while it is read is empty to the reader, and not
// in a backup.
func TestAPartitionIsErasedWhileItIsRead(t *testing.T) {
	for _, opts := range []*Options{{PurgeInterval: -1}, {PurgeInterval: -1, Key: bytes.Repeat([]byte{'k'}, 32)}} {
		s := openBlobs(t, t.TempDir(), opts)
		const partitions = 30
		for i := range partitions {
			name := fmt.Sprintf("t%02d", i)
			apply(t, s, name, kv.Put("a", large(1)), kv.Put("b", large(2)), kv.Put("c", []byte("small")))
		}
		ctx, stop := context.WithCancel(context.Background())
		var work sync.WaitGroup
		repeat := func(read func(name string) error) {
			work.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					if err := read(fmt.Sprintf("t%02d", i%partitions)); err != nil && ctx.Err() == nil {
						t.Error(err)
						return
					}
				}
			})
		}
		for _, key := range []kv.Key{"a", "c"} {
			repeat(func(name string) error {
				if _, err := s.Get(ctx, name, key); err != nil && !errors.Is(err, kv.ErrNotFound) {
					return err
				}
				return nil
			})
		}
		repeat(func(name string) error { _, err := s.Scan(ctx, name, kv.Range{}); return err })
		repeat(func(string) error { _, err := s.Backup(ctx, io.Discard, nil); return err })
		for i := range partitions {
			name := fmt.Sprintf("t%02d", i)
			if err := errors.Join(s.BeginErase(t.Context(), name), s.blobs.eraseBlobs(t.Context(), name)); err != nil {
				t.Error(err)
			}
		}
		stop()
		work.Wait()
	}
}

// An entry that others remove or replace between the read of its reference and that of its
// value, or its key, is gone and not damaged, however often that happens.
func TestAnEntryThatGoesWhileItIsReadIsNotDamaged(t *testing.T) {
	collect := func(t *testing.T, s *Store, write kv.Write) {
		apply(t, s, "acme", write)
		if err := s.collectUncollected(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for name, remove := range map[string]func(*testing.T, *Store){
		"replaced": func(t *testing.T, s *Store) { collect(t, s, kv.Put("k", large('w'))) },
		"deleted":  func(t *testing.T, s *Store) { collect(t, s, kv.Delete("k")) },
		"erased": func(t *testing.T, s *Store) {
			if err := s.Erase(t.Context(), "acme"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for _, key := range [][]byte{nil, bytes.Repeat([]byte{'k'}, 32)} {
			t.Run(fmt.Sprintf("%s, key of %d bytes", name, len(key)), func(t *testing.T) {
				s := openBlobs(t, t.TempDir(), &Options{PurgeInterval: -1, Key: key})
				apply(t, s, "acme", kv.Put("k", large('v')))
				txn := s.engine.db.NewTransaction(false)
				defer txn.Discard()
				item, err := txn.Get(engineKey("acme", "k"))
				if err != nil {
					t.Fatal(err)
				}
				remove(t, s)
				if _, err := s.entry("k", item); !errors.Is(err, errEntryGone) {
					t.Errorf("the entry that was read = %v, want that it is gone", err)
				}
			})
		}
	}
	reads := 0
	n, err := again(func() (int, error) {
		if reads++; reads < 20 {
			return 0, &kv.EntryError{Key: "k", Err: errEntryGone}
		}
		return reads, nil
	})
	if n != 20 || err != nil {
		t.Errorf("reading again and again = %d, %v, want 20 reads", n, err)
	}
}

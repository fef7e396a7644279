package badgerkv_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/kv/kvtest"
	"github.com/agenthost/agenthost/internal/longtest"
)

// largeValue is the size of the values that these tests have in files of their own.
const largeValue = 256 << 10

// blobFiles returns the files of large values in a store's directory.
func blobFiles(t *testing.T, dir string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(dir, badgerkv.BlobDir), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			paths = append(paths, path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func putLarge(t *testing.T, d kv.Driver, partition, key string, value []byte) {
	t.Helper()
	if _, err := kv.Apply(t.Context(), d, kv.Tx{Partition: partition, Writes: []kv.Write{kv.Put(kv.NewKey(key), value)}}); err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
}

func wantValue(t *testing.T, d kv.Driver, partition, key string, value []byte) {
	t.Helper()
	e, err := d.Get(t.Context(), partition, kv.NewKey(key))
	if err != nil || !bytes.Equal(e.Value, value) {
		t.Errorf("Get(%s, %s) = %d bytes, %v, want the %d that were put", partition, key, len(e.Value), err, len(value))
	}
}

// keyed runs a test on a store without a key and on one with.
func keyed(t *testing.T, test func(t *testing.T, opts *badgerkv.Options)) {
	t.Helper()
	for name, opts := range map[string]*badgerkv.Options{"without a key": nil, "with a key": encrypted('k')} {
		t.Run(name, func(t *testing.T) { test(t, opts) })
	}
}

func TestLargeValuesAreFilesOfTheirOwn(t *testing.T) {
	keyed(t, func(t *testing.T, opts *badgerkv.Options) {
		dir := t.TempDir()
		s := mustOpen(t, dir, opts)
		value := append(words(largeValue), "MARKER-0001-OF-THE-TENANT-THAT-LEAVES"...)
		putLarge(t, s, "acme", "a", value)
		putLarge(t, s, "acme", "b", value)
		if n := len(blobFiles(t, dir)); n != 1 {
			t.Errorf("two equal values of a partition are %d files, want 1", n)
		}
		putLarge(t, s, "globex", "a", value)
		files := blobFiles(t, dir)
		if len(files) != 2 || filepath.Base(files[0]) == filepath.Base(files[1]) {
			t.Errorf("the same value in another partition: %q, want two files with two names", files)
		}
		for _, f := range files {
			for _, name := range []string{"acme", "globex"} {
				if strings.Contains(f, name) {
					t.Errorf("the path %s names a partition", f)
				}
			}
		}
		if n := countMarkers(t, dir); (n == 0) != (opts != nil) {
			t.Errorf("%d markers can be read in the files, with options %v", n, opts)
		}
		page, err := s.Scan(t.Context(), "acme", kv.Range{})
		if err != nil || len(page.Entries) != 2 || !bytes.Equal(page.Entries[0].Value, value) {
			t.Errorf("Scan = %d entries, %v, want the two values", len(page.Entries), err)
		}
		s = reopen(t, s, dir, opts)
		wantValue(t, s, "acme", "b", value)
		wantValue(t, s, "globex", "a", value)
		if err := s.Verify(); err != nil {
			t.Errorf("Verify = %v", err)
		}
	})
}

func reopen(t *testing.T, s *badgerkv.Store, dir string, opts *badgerkv.Options) *badgerkv.Store {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return mustOpen(t, dir, opts)
}

func TestACommitThatFailsLeavesNoLargeValue(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, nil)
	kept, refused := words(largeValue), words(largeValue)
	putLarge(t, s, "acme", "a", kept)
	for _, value := range [][]byte{kept, refused} {
		tx := kv.Tx{Partition: "acme", Conds: []kv.Cond{kv.Absent(kv.NewKey("a"))}, Writes: []kv.Write{kv.Put(kv.NewKey("b"), value)}}
		if _, err := kv.Apply(t.Context(), s, tx); !errors.Is(err, kv.ErrPrecondition) {
			t.Errorf("a commit whose condition does not hold = %v", err)
		}
	}
	if n := len(blobFiles(t, dir)); n != 1 {
		t.Errorf("there are %d files, want that of the value which was stored", n)
	}
	wantValue(t, s, "acme", "a", kept)
}

func TestAPurgeCollectsLargeValues(t *testing.T) {
	keyed(t, func(t *testing.T, opts *badgerkv.Options) {
		dir := t.TempDir()
		s := mustOpen(t, dir, opts)
		shared, alone, old, replaced := words(largeValue), words(largeValue), words(largeValue), words(largeValue)
		for key, value := range map[string][]byte{"a": shared, "b": shared, "c": alone, "d": old} {
			putLarge(t, s, "acme", key, value)
		}
		putLarge(t, s, "globex", "only", alone)
		putLarge(t, s, "acme", "d", replaced)
		for partition, keys := range map[string][]string{"acme": {"b", "c"}, "globex": {"only"}} {
			for _, key := range keys {
				if _, err := kv.Apply(t.Context(), s, kv.Tx{Partition: partition, Writes: []kv.Write{kv.Delete(kv.NewKey(key))}}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := s.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := len(blobFiles(t, dir)); n != 2 {
			t.Errorf("after Purge there are %d files, want those of the two values that entries have", n)
		}
		wantValue(t, s, "acme", "a", shared)
		wantValue(t, s, "acme", "d", replaced)
	})
}

func TestADamagedLargeValueIsFound(t *testing.T) {
	keyed(t, func(t *testing.T, opts *badgerkv.Options) {
		dir := t.TempDir()
		s := mustOpen(t, dir, opts)
		value := words(largeValue)
		putLarge(t, s, "acme", "a", value)
		path := blobFiles(t, dir)[0]
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(path)
		for what, damage := range map[string]func() error{
			"changed": func() error {
				b := bytes.Clone(content)
				b[rand.IntN(len(b))] ^= 1
				return os.WriteFile(path, b, 0o600)
			},
			"cut":     func() error { return os.WriteFile(path, content[:len(content)-1], 0o600) },
			"empty":   func() error { return os.WriteFile(path, nil, 0o600) },
			"longer":  func() error { return os.WriteFile(path, append(bytes.Clone(content), 'x'), 0o600) },
			"missing": func() error { return os.Remove(path) },
		} {
			if err := damage(); err != nil {
				t.Fatal(err)
			}
			_, getErr := s.Get(t.Context(), "acme", kv.NewKey("a"))
			_, scanErr := s.Scan(t.Context(), "acme", kv.Range{})
			_, backupErr := s.Backup(t.Context(), &bytes.Buffer{}, nil)
			for op, err := range map[string]error{"Get": getErr, "Scan": scanErr, "Verify": s.Verify(), "Backup": backupErr} {
				if !errors.Is(err, kv.ErrCorrupt) || !strings.Contains(err.Error(), name) {
					t.Errorf("%s of a file that is %s = %v, want ErrCorrupt and the file's name", op, what, err)
				}
			}
			// Storing the value again mends it: the file is not taken as it is.
			putLarge(t, s, "acme", "b", value)
			wantValue(t, s, "acme", "a", value)
		}
	})
}

func TestALargeValueIsBoundToItsPlace(t *testing.T) {
	keyed(t, func(t *testing.T, opts *badgerkv.Options) {
		dir := t.TempDir()
		s := mustOpen(t, dir, opts)
		putLarge(t, s, "acme", "a", words(largeValue))
		putLarge(t, s, "acme", "b", words(largeValue))
		putLarge(t, s, "globex", "a", words(largeValue))
		files := blobFiles(t, dir)
		first, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files[1:] {
			if err := os.WriteFile(f, first, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		damaged := 0
		for _, at := range [][2]string{{"acme", "a"}, {"acme", "b"}, {"globex", "a"}} {
			if _, err := s.Get(t.Context(), at[0], kv.NewKey(at[1])); errors.Is(err, kv.ErrCorrupt) {
				damaged++
			}
		}
		if damaged != 2 {
			t.Errorf("%d of two values with the file of another are found", damaged)
		}
	})
}

func TestBackupsHaveLargeValues(t *testing.T) {
	keyed(t, func(t *testing.T, opts *badgerkv.Options) {
		dir := t.TempDir()
		s := mustOpen(t, dir, opts)
		value := words(largeValue)
		for i := range 5 {
			putLarge(t, s, "acme", fmt.Sprint("k", i), value)
		}
		putLarge(t, s, "globex", "k", value)
		var backup bytes.Buffer
		if _, err := s.Backup(t.Context(), &backup, nil); err != nil {
			t.Fatal(err)
		}
		var key []byte
		restore := &badgerkv.RestoreOptions{}
		if opts != nil {
			key, restore.Store, restore.KeyFile = opts.Key, *opts, badgerkv.KeyFileOf(s)
		}
		if _, err := badgerkv.VerifyBackup(t.Context(), bytes.NewReader(backup.Bytes()), key, nil); err != nil {
			t.Errorf("VerifyBackup = %v", err)
		}
		restored := filepath.Join(t.TempDir(), "restored")
		if _, err := badgerkv.Restore(t.Context(), restored, bytes.NewReader(backup.Bytes()), restore); err != nil {
			t.Fatal(err)
		}
		r := mustOpen(t, restored, opts)
		for i := range 5 {
			wantValue(t, r, "acme", fmt.Sprint("k", i), value)
		}
		wantValue(t, r, "globex", "k", value)
		if n := len(blobFiles(t, restored)); n != 2 {
			t.Errorf("the restored store has %d files, want one for each partition", n)
		}
		if err := r.Verify(); err != nil {
			t.Errorf("Verify = %v", err)
		}
		// Collecting knows the directories that the restore has made.
		if err := r.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantValue(t, r, "acme", "k0", value)
	})
}

func TestEraseRemovesLargeValues(t *testing.T) {
	keyed(t, func(t *testing.T, opts *badgerkv.Options) {
		dir := t.TempDir()
		s := mustOpen(t, dir, opts)
		for i := range markers {
			putLarge(t, s, "leaves", fmt.Sprint("k", i), append(words(largeValue), fmt.Sprintf(markerText, i)...))
		}
		stays := words(largeValue)
		putLarge(t, s, "stays", "k", stays)
		if p, err := s.Prove(t.Context(), "leaves"); err != nil || p.Blobs != markers || p.Gone() {
			t.Errorf("Prove before = %+v, %v, want %d large values", p, err, markers)
		}
		s = reopen(t, s, dir, opts)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if n, err := badgerkv.ScanFiles(dir, opts, "MARKER-[0-9]{4}-OF"); err != nil || n != markers {
			t.Fatalf("the scan finds %d markers before, %v, want %d", n, err, markers)
		}
		s = mustOpen(t, dir, opts)
		late := append(words(largeValue), fmt.Sprintf(markerText, 0)...)
		refused := make(chan error, 1)
		begun := make(chan struct{})
		go func() { // a tenant that is being erased still writes, until its partition refuses
			for i := uint64(0); ; i++ {
				_, err := kv.Apply(context.Background(), s, kv.Tx{Partition: "leaves", Writes: []kv.Write{kv.Put(kv.NewKey("late").WithUint(i), late)}})
				if i == 0 {
					close(begun)
				}
				if err != nil {
					refused <- err
					return
				}
			}
		}()
		<-begun
		if err := s.BeginErase(t.Context(), "leaves"); err != nil {
			t.Fatal(err)
		}
		// Once the partition is erased it takes writes again: the writer ends before.
		if err := <-refused; !errors.Is(err, kv.ErrErasing) {
			t.Fatalf("a late write = %v, want ErrErasing", err)
		}
		if err := s.Erase(t.Context(), "leaves"); err != nil {
			t.Fatal(err)
		}
		if p, err := s.Prove(t.Context(), "leaves"); err != nil || !p.Gone() || p.Blobs != 0 {
			t.Errorf("Prove after = %+v, %v", p, err)
		}
		wantValue(t, s, "stays", "k", stays)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if n, err := badgerkv.ScanFiles(dir, opts, "MARKER-[0-9]{4}-OF"); err != nil || n != 0 {
			t.Errorf("the scan finds %d markers after, %v", n, err)
		}
	})
}

// Writers store, replace and delete values of which many are equal, readers read them,
// and collections run: no value that an entry has is ever missing.
func TestCollectionsRunBesideWriters(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, &badgerkv.Options{PurgeInterval: -1})
	values := make([][]byte, 6)
	for i := range values {
		values[i] = words(largeValue / 2)
	}
	ctx, stop := context.WithCancel(context.Background())
	var work sync.WaitGroup
	for w := range 3 {
		work.Go(func() {
			for range 120 {
				key := kv.NewKey("k").WithUint(uint64(rand.IntN(8)))
				write := kv.Put(key, values[rand.IntN(len(values))])
				if rand.IntN(2) == 0 {
					write = kv.Delete(key)
				}
				if _, err := kv.Apply(ctx, s, kv.Tx{Partition: "acme", Writes: []kv.Write{write}}); err != nil {
					t.Errorf("writer %d: %v", w, err)
					return
				}
				if _, err := s.Scan(ctx, "acme", kv.Range{}); err != nil {
					t.Errorf("reader %d: %v", w, err)
					return
				}
			}
		})
	}
	var collector sync.WaitGroup
	collector.Go(func() {
		for ctx.Err() == nil {
			if err := badgerkv.Collect(ctx, s); err != nil && ctx.Err() == nil {
				t.Errorf("collect: %v", err)
				return
			}
		}
	})
	work.Wait()
	stop()
	collector.Wait()
	if err := badgerkv.Collect(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	page, err := s.Scan(t.Context(), "acme", kv.Range{})
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, e := range page.Entries {
		have[string(e.Value)] = true
	}
	if n := len(blobFiles(t, dir)); n != len(have) {
		t.Errorf("%d files for %d values", n, len(have))
	}
}

// An entry whose large value is missing can be removed, and hides no other damage.
func TestAMissingLargeValueCanBeRemoved(t *testing.T) {
	keyed(t, func(t *testing.T, opts *badgerkv.Options) {
		dir := t.TempDir()
		s := mustOpen(t, dir, opts)
		for _, key := range []string{"b", "d"} {
			putLarge(t, s, "acme", key, words(largeValue))
		}
		lost := blobFiles(t, dir)
		d := kv.Checked(s)
		for _, key := range []string{"a", "c", "e"} {
			putLarge(t, d, "acme", key, []byte("small"))
		}
		putLarge(t, s, "acme", "e", []byte("\x02\xc5\x9e\x17\x01 not what was stored"))
		for _, path := range lost {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		var damaged []string
		for e, err := range kv.Damaged(t.Context(), d, "acme") {
			if !errors.Is(err, kv.ErrCorrupt) {
				t.Errorf("Damaged yields %v", err)
			}
			damaged = append(damaged, e.Key.String())
		}
		if want := []string{kv.NewKey("b").String(), kv.NewKey("d").String(), kv.NewKey("e").String()}; !slices.Equal(damaged, want) {
			t.Errorf("Damaged yields %q, want %q", damaged, want)
		}
		if err := kv.Remove(t.Context(), d, "acme", ""); err != nil {
			t.Errorf("Remove = %v", err)
		}
		if page, err := d.Scan(t.Context(), "acme", kv.Range{}); err != nil || len(page.Entries) > 0 {
			t.Errorf("%d entries are left, %v", len(page.Entries), err)
		}
	})
}

// What a killed process leaves is collected by the next, which was not asked to.
func TestWhatAKilledProcessLeftIsCollected(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, nil)
	value := words(largeValue)
	putLarge(t, s, "acme", "a", value)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	path := blobFiles(t, dir)[0]
	orphan := filepath.Join(filepath.Dir(path), strings.Repeat("ab", 32))
	nobody := filepath.Join(dir, badgerkv.BlobDir, strings.Repeat("0", 32), "cd", strings.Repeat("cd", 32))
	temp := filepath.Join(dir, badgerkv.BlobDir, "tmp", "123")
	for _, f := range []string{orphan, nobody, temp} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(f), 0o700), os.WriteFile(f, value, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "INVENTORY")); err != nil { // as if it had not been closed
		t.Fatal(err)
	}
	s = mustOpen(t, dir, &badgerkv.Options{PurgeInterval: 100 * time.Millisecond})
	for deadline := time.Now().Add(2 * time.Minute); len(blobFiles(t, dir)) > 1; time.Sleep(time.Millisecond) { // files have no channel
		if time.Now().After(deadline) {
			t.Fatal("what a killed process left is still there")
		}
	}
	if got := blobFiles(t, dir); !slices.Equal(got, []string{path}) {
		t.Errorf("left are %q, want the value that is stored", got)
	}
	wantValue(t, s, "acme", "a", value)
}

// openSmallBlobs opens a store in which most values of the kit have files of their
// own.
func openSmallBlobs(dir string, opts *badgerkv.Options) (kv.Driver, error) {
	s, err := badgerkv.Open(dir, opts)
	if err == nil {
		badgerkv.SetBlobBytes(s, 512)
	}
	return s, err
}

func TestStoreWithLargeValues(t *testing.T) {
	longtest.Need(t, "every rule of TestStore again, twice")
	keyed(t, func(t *testing.T, opts *badgerkv.Options) {
		kvtest.Run(t, func(t *testing.T) kvtest.Store {
			dir := t.TempDir()
			return kvtest.Store{
				Open:    func() (kv.Driver, error) { return openSmallBlobs(dir, opts) },
				Durable: true,
				Compact: func(d kv.Driver) error { return badgerkv.Compact(d.(*badgerkv.Store)) },
			}
		})
	})
}

// openCollecting opens a store that collects all the time.
func openCollecting(dir string, opts *badgerkv.Options) (kv.Driver, error) {
	d, err := openSmallBlobs(dir, opts)
	if err != nil {
		return nil, err
	}
	go func() { // ends with the store
		for !errors.Is(badgerkv.Collect(context.Background(), d.(*badgerkv.Store)), kv.ErrClosed) {
			time.Sleep(time.Millisecond)
		}
	}()
	return d, nil
}

func TestCrashWithLargeValues(t *testing.T) {
	var dir string
	kvtest.Crash(t, func(at string) (kv.Driver, error) {
		dir = at
		return openCollecting(at, nil)
	})
	s := mustOpen(t, dir, nil)
	if err := badgerkv.Collect(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	want := 0
	for partition, err := range s.Partitions(t.Context()) {
		n, countErr := badgerkv.CountReferences(t.Context(), s, partition)
		if err := errors.Join(err, countErr); err != nil {
			t.Fatal(err)
		}
		want += n
	}
	if n := len(blobFiles(t, dir)); n != want || n == 0 {
		t.Errorf("%d files for %d values", n, want)
	}
	if err := s.Verify(); err != nil {
		t.Errorf("Verify = %v", err)
	}
}

func TestCrashWithLargeSealedValues(t *testing.T) {
	longtest.Need(t, "TestCrashWithLargeValues is the same without a key")
	kvtest.Crash(t, func(dir string) (kv.Driver, error) { return openCollecting(dir, encrypted('k')) })
}

// Stores of earlier versions have large values in Badger.
func TestLargeValuesOfEarlierVersionsAreRead(t *testing.T) {
	keyed(t, func(t *testing.T, opts *badgerkv.Options) {
		dir := t.TempDir()
		s := mustOpen(t, dir, opts)
		badgerkv.SetBlobBytes(s, kv.MaxValueBytes+1)
		old := words(largeValue)
		putLarge(t, s, "acme", "old", old)
		if n := len(blobFiles(t, dir)); n != 0 {
			t.Fatalf("there are %d files: this test shows nothing", n)
		}
		s = reopen(t, s, dir, opts)
		putLarge(t, s, "acme", "new", words(largeValue))
		wantValue(t, s, "acme", "old", old)
		if err := s.Verify(); err != nil {
			t.Errorf("Verify = %v", err)
		}
	})
}

package badgerkv_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
)

func wantError(t *testing.T, err, want error, texts ...string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error is %v, want %v", err, want)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error is %q, want %q in it", err, text)
		}
	}
}

func wantValueOf(t *testing.T, d kv.Driver, key kv.Key, want string) {
	t.Helper()
	if e, err := d.Get(t.Context(), "acme", key); err != nil || string(e.Value) != want {
		t.Errorf("Get(%s) = %.40q, %v, want %.40q", key, e.Value, err, want)
	}
}

func backup(t *testing.T, s *badgerkv.Store) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := s.Backup(t.Context(), &b, nil); err != nil {
		t.Fatalf("Backup = %v", err)
	}
	return b.Bytes()
}

// contents is everything in a store, by partition and key.
func contents(t *testing.T, s *badgerkv.Store) map[string]string {
	t.Helper()
	out := map[string]string{}
	for part, err := range s.Partitions(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range kv.All(t.Context(), s, part, kv.Range{}) {
			if err != nil {
				t.Fatal(err)
			}
			out[fmt.Sprintf("%q %s", part, e.Key)] = string(e.Value)
		}
	}
	return out
}

// partitions are names that are prefixes of each other, and the longest.
func partitions() []string {
	return []string{"a", "ab", "b", "\x00", "\xff\xff", strings.Repeat("z", kv.MaxPartitionBytes)}
}

func variedStore(t *testing.T, opts *badgerkv.Options) *badgerkv.Store {
	t.Helper()
	s := mustOpen(t, t.TempDir(), opts)
	for _, part := range partitions() {
		tx := kv.Tx{Partition: part, Writes: []kv.Write{
			kv.Put("empty", nil), kv.Put("deleted", []byte("x")), kv.Put(kv.Key(strings.Repeat("\xff", kv.MaxKeyBytes)), []byte("last")),
			kv.Put("large", bytes.Repeat([]byte(part[:1]), kv.MaxValueBytes)), kv.Put("\x00", []byte(part)),
		}}
		gone := kv.Tx{Partition: part, Writes: []kv.Write{kv.Delete("deleted")}}
		if results := s.Commit(t.Context(), tx, gone); results[0].Err != nil || results[1].Err != nil {
			t.Fatal(results)
		}
	}
	return s
}

func TestPartitions(t *testing.T) {
	s := variedStore(t, nil)
	var got []string
	for part, err := range s.Partitions(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, part)
	}
	want := partitions()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("Partitions = %q, want %q", got, want)
	}
	for part := range mustOpen(t, t.TempDir(), nil).Partitions(t.Context()) {
		t.Errorf("an empty store has the partition %q", part)
	}
}

func TestRestoreGivesWhatWasBackedUp(t *testing.T) {
	for name, c := range map[string]struct {
		from *badgerkv.Options
		to   badgerkv.RestoreOptions
	}{
		"without a key": {nil, badgerkv.RestoreOptions{}},
		"with a key":    {encrypted('k'), badgerkv.RestoreOptions{Store: *encrypted('k')}},
		"to a key":      {nil, badgerkv.RestoreOptions{Store: *encrypted('k')}},
		"to no key":     {encrypted('k'), badgerkv.RestoreOptions{BackupKey: keyOf('k')}},
		"to another":    {encrypted('k'), badgerkv.RestoreOptions{BackupKey: keyOf('k'), Store: *encrypted('n')}},
	} {
		t.Run(name, func(t *testing.T) {
			s := variedStore(t, c.from)
			want := contents(t, s)
			raw := backup(t, s)
			if c.from != nil && bytes.Contains(raw, bytes.Repeat([]byte("z"), 20)) {
				t.Error("the backup of an encrypted store shows what it holds")
			}
			told := 0
			if c.from != nil {
				c.to.KeyFile = badgerkv.KeyFileOf(s)
			}
			c.to.Progress = func(entries int, _ int64) { told = entries }
			dir := filepath.Join(t.TempDir(), "new", "store")
			info, err := badgerkv.Restore(t.Context(), dir, bytes.NewReader(raw), &c.to)
			if err != nil || info.Entries != len(want) || told != len(want) || info.Encrypted != (c.from != nil) {
				t.Fatalf("Restore = %+v, %v, progress %d, want %d entries", info, err, told, len(want))
			}
			restored := mustOpen(t, dir, &c.to.Store)
			got := contents(t, restored)
			if len(got) != len(want) {
				t.Errorf("%d entries were restored, want %d", len(got), len(want))
			}
			for key, value := range want {
				if got[key] != value {
					t.Errorf("%.60s is %.40q, want %.40q", key, got[key], value)
				}
			}
			mustPut(t, restored, "k", "v") // it is a store like others
			wantValueOf(t, restored, "k", "v")
			if left := list(t, filepath.Dir(dir)); len(left) != 1 {
				t.Errorf("beside the store there is %q", left)
			}
		})
	}
}

// A backup is of one moment: no commit is in it by half, however many are made
// while it is written.
func TestABackupIsOfOneMoment(t *testing.T) {
	s := mustOpen(t, t.TempDir(), nil)
	const keys = 40
	write := func(n int) {
		tx := kv.Tx{Partition: "acme"}
		for i := range keys {
			tx.Writes = append(tx.Writes, kv.Put(kv.NewKey("k").WithUint(uint64(i)), fmt.Appendf(nil, "%d %s", n, strings.Repeat("x", 4000))))
		}
		if _, err := kv.Apply(t.Context(), s, tx); err != nil {
			t.Error(err)
		}
	}
	write(0)
	ctx, stop := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	writer.Go(func() {
		for n := 1; ctx.Err() == nil; n++ {
			write(n)
		}
	})
	for range 10 {
		raw := backup(t, s)
		dir := filepath.Join(t.TempDir(), "copy")
		if _, err := badgerkv.Restore(t.Context(), dir, bytes.NewReader(raw), nil); err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		for _, value := range contents(t, mustOpen(t, dir, nil)) {
			n, _, _ := strings.Cut(value, " ")
			seen[n]++
		}
		if len(seen) != 1 {
			t.Errorf("the backup has parts of the commits %v", seen)
		}
	}
	stop()
	writer.Wait()
}

func TestRestoreRefusesADirectoryWithData(t *testing.T) {
	raw := backup(t, variedStore(t, nil))
	used := filledStore(t)
	other := t.TempDir()
	mustWrite(t, filepath.Join(other, "letter.txt"), "mine")
	for _, dir := range []string{used, other} {
		before := digestDir(t, dir)
		_, err := badgerkv.Restore(t.Context(), dir, bytes.NewReader(raw), nil)
		wantError(t, err, kv.ErrInvalid, "files in it", "new or empty")
		if digestDir(t, dir) != before {
			t.Errorf("%s was changed", dir)
		}
	}
	empty := t.TempDir()
	if _, err := badgerkv.Restore(t.Context(), empty, bytes.NewReader(raw), nil); err != nil {
		t.Errorf("Restore into an empty directory = %v", err)
	}
}

// Whatever happens to a backup is found, and then there is no store.
func TestDamagedBackupsAreRefused(t *testing.T) {
	s := mustOpen(t, t.TempDir(), encrypted('k'))
	for i := range 40 {
		mustPut(t, s, kv.NewKey("k").WithUint(uint64(i)), strings.Repeat("value ", 1000))
	}
	whole := backup(t, s)
	line := bytes.IndexByte(whole, '\n') + 1
	check := func(name string, raw []byte, want ...error) {
		t.Helper()
		_, err := badgerkv.VerifyBackup(t.Context(), bytes.NewReader(raw), keyOf('k'), nil)
		if !slices.ContainsFunc(want, func(w error) bool { return errors.Is(err, w) }) {
			t.Errorf("%s: VerifyBackup = %v, want one of %v", name, err, want)
		}
	}
	if info, err := badgerkv.VerifyBackup(t.Context(), bytes.NewReader(whole), keyOf('k'), nil); err != nil || info.Entries != 40 {
		t.Fatalf("VerifyBackup = %+v, %v", info, err)
	}
	for n := 0; n < len(whole); n += 1 + len(whole)/97 {
		check(fmt.Sprintf("cut at %d", n), whole[:n], kv.ErrCorrupt, kv.ErrFormat)
	}
	for n := 0; n < len(whole); n += 1 + n/5 {
		bad := bytes.Clone(whole)
		bad[n] ^= 0x10
		check(fmt.Sprintf("byte %d is another", n), bad, kv.ErrCorrupt, kv.ErrFormat, kv.ErrKey)
	}
	const piece = 4 + 64<<10 + 16
	first, second := whole[line:line+piece], whole[line+piece:line+2*piece]
	check("pieces change places", slices.Concat(whole[:line], second, first, whole[line+2*piece:]), kv.ErrKey, kv.ErrCorrupt)
	check("a piece is left out", slices.Concat(whole[:line+piece], whole[line+2*piece:]), kv.ErrCorrupt)
	check("it comes twice", slices.Concat(whole, whole), kv.ErrCorrupt)
	check("a newer version", bytes.Replace(whole, []byte(`"version":2`), []byte(`"version":3`), 1), kv.ErrFormat)
	check("something else", []byte(strings.Repeat("letter ", 1000)), kv.ErrFormat)
	for name, key := range map[string][]byte{"another key": keyOf('x'), "no key": nil} {
		_, err := badgerkv.VerifyBackup(t.Context(), bytes.NewReader(whole), key, nil)
		wantError(t, err, kv.ErrKey)
		_ = name
	}
	parent := t.TempDir()
	dir := filepath.Join(parent, "store")
	_, err := badgerkv.Restore(t.Context(), dir, bytes.NewReader(whole[:len(whole)-1]), &badgerkv.RestoreOptions{Store: *encrypted('k'), KeyFile: badgerkv.KeyFileOf(s)})
	wantError(t, err, kv.ErrCorrupt, "cut off")
	if left := list(t, parent); len(left) != 0 {
		t.Errorf("a restore that failed leaves %q", left)
	}
}

func TestBackupEndsWhenItIsTold(t *testing.T) {
	s := variedStore(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Backup(ctx, &bytes.Buffer{}, nil)
	wantError(t, err, context.Canceled)
	full := errors.New("pipe is broken")
	_, err = s.Backup(t.Context(), failingWriter{full}, nil)
	wantError(t, err, full)
	raw := backup(t, s)
	_, err = badgerkv.Restore(ctx, filepath.Join(t.TempDir(), "s"), bytes.NewReader(raw), nil)
	wantError(t, err, context.Canceled)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = s.Backup(t.Context(), &bytes.Buffer{}, nil)
	wantError(t, err, kv.ErrClosed)
	for _, err := range s.Partitions(t.Context()) {
		wantError(t, err, kv.ErrClosed)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestRestoreOntoAFullDevice(t *testing.T) {
	raw := backup(t, variedStore(t, nil))
	parent := t.TempDir()
	_, err := badgerkv.Restore(t.Context(), filepath.Join(parent, "s"), bytes.NewReader(raw),
		&badgerkv.RestoreOptions{Store: badgerkv.Options{MinFree: 1 << 62}})
	wantError(t, err, kv.ErrNoSpace)
	if left := list(t, parent); len(left) != 0 {
		t.Errorf("a restore that failed leaves %q", left)
	}
}

// FuzzVerifyBackup: whatever is read as a backup is refused or is one.
func FuzzVerifyBackup(f *testing.F) {
	dir, err := os.MkdirTemp("", "fuzz")
	if err != nil {
		f.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s, err := badgerkv.Open(dir, nil)
	if err != nil {
		f.Fatal(err)
	}
	if _, err := kv.Apply(f.Context(), s, kv.Tx{Partition: "a", Writes: []kv.Write{kv.Put("k", []byte("v"))}}); err != nil {
		f.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := s.Backup(f.Context(), &b, nil); err != nil {
		f.Fatal(err)
	}
	if err := s.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		info, err := badgerkv.VerifyBackup(t.Context(), bytes.NewReader(raw), nil, nil)
		switch {
		case err == nil && info.Bytes > int64(len(raw)):
			t.Errorf("%d bytes are a backup of %d", len(raw), info.Bytes)
		case err != nil && !errors.Is(err, kv.ErrCorrupt) && !errors.Is(err, kv.ErrFormat) && !errors.Is(err, kv.ErrKey):
			t.Errorf("VerifyBackup = %v", err)
		}
	})
}

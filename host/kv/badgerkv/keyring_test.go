package badgerkv_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
)

// oldStore is a copy of a store with the key 'k' that a version without data keys
// has made.
func oldStore(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "format1"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestAStoreOfAnEarlierVersionIsRead(t *testing.T) {
	dir := oldStore(t)
	s := mustOpen(t, dir, encrypted('k'))
	wantValueOf(t, s, "old", "value of acme")
	mustPut(t, s, "new", "sealed")
	raw := backup(t, s)
	if err := s.Erase(t.Context(), "globex"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, dir, encrypted('k'))
	wantValueOf(t, s, "old", "value of acme")
	wantValueOf(t, s, "new", "sealed")
	// Its backup is sealed with data keys, whatever it was made of.
	to := filepath.Join(t.TempDir(), "new")
	info, err := badgerkv.Restore(t.Context(), to, bytes.NewReader(raw), &badgerkv.RestoreOptions{Store: *encrypted('k'), KeyFile: badgerkv.KeyFileOf(s)})
	if err != nil || info.Entries != 2 || info.Erased != 1 {
		t.Fatalf("Restore = %+v, %v, want 2 entries and 1 erased", info, err)
	}
	wantValueOf(t, mustOpen(t, to, encrypted('k')), "old", "value of acme")
}

func TestABackupOfAnEarlierVersionIsRestored(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "format1.backup"))
	if err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, t.TempDir(), encrypted('k'))
	mustPutIn(t, s, "globex", "k", "v")
	if err := s.Erase(t.Context(), "globex"); err != nil {
		t.Fatal(err)
	}
	for keyFile, want := range map[string]int{"": 2, badgerkv.KeyFileOf(s): 1} {
		dir := filepath.Join(t.TempDir(), "new")
		info, err := badgerkv.Restore(t.Context(), dir, bytes.NewReader(raw), &badgerkv.RestoreOptions{Store: *encrypted('k'), KeyFile: keyFile})
		if err != nil || info.Entries != want {
			t.Fatalf("Restore with key file %q = %+v, %v, want %d entries", keyFile, info, err, want)
		}
		wantValueOf(t, mustOpen(t, dir, encrypted('k')), "old", "value of acme")
	}
}

func TestRestoringASealedBackupAsksForTheKeyFile(t *testing.T) {
	s := mustOpen(t, t.TempDir(), encrypted('k'))
	early := filepath.Join(t.TempDir(), "early")
	mustPut(t, s, "k", "v")
	copyFile(t, badgerkv.KeyFileOf(s), early)
	mustPutIn(t, s, "late", "k", "v")
	raw := backup(t, s)
	for name, c := range map[string]struct{ keyFile, says string }{
		"no key file":            {"", "name the key file"},
		"one that is older":      {early, "not older than the backup"},
		"one of another store":   {badgerkv.KeyFileOf(mustOpen(t, oldStore(t), encrypted('k'))), "not older than the backup"},
		"one with another key":   {badgerkv.KeyFileOf(mustOpen(t, t.TempDir(), encrypted('x'))), "another key"},
		"one that is not sealed": {plainKeyFile(t), "no key for"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "new")
			_, err := badgerkv.Restore(t.Context(), dir, bytes.NewReader(raw), &badgerkv.RestoreOptions{Store: *encrypted('k'), KeyFile: c.keyFile})
			wantError(t, err, kv.ErrKey, c.says)
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("the refused restore left a directory: %v", err)
			}
		})
	}
}

// plainKeyFile is the key file of a store without a key that has erased a partition.
func plainKeyFile(t *testing.T) string {
	t.Helper()
	s := mustOpen(t, t.TempDir(), nil)
	if err := s.BeginErase(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	return badgerkv.KeyFileOf(s)
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	mustWrite(t, to, string(b))
}

func TestAMissingOrDamagedKeyFileIsSaid(t *testing.T) {
	made := func(t *testing.T) (dir, file string) {
		s := mustOpen(t, t.TempDir(), encrypted('k'))
		mustPut(t, s, "k", "v")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		file = badgerkv.KeyFileOf(s)
		return filepath.Dir(file), file
	}
	t.Run("missing", func(t *testing.T) {
		dir, file := made(t)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		_, err := badgerkv.Open(dir, encrypted('k'))
		wantError(t, err, kv.ErrKey, "KEYS is missing")
	})
	t.Run("damaged", func(t *testing.T) {
		dir, file := made(t)
		whole, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for n := 0; n < len(whole); n += 1 + len(whole)/31 {
			bad := bytes.Clone(whole)
			bad[n] ^= 0x04
			mustWrite(t, file, string(bad))
			if s, err := badgerkv.Open(dir, encrypted('k')); err == nil {
				t.Errorf("a store opens with byte %d of its key file changed", n)
				_ = s.Close()
			}
		}
		mustWrite(t, file, string(whole))
		wantValueOf(t, mustOpen(t, dir, encrypted('k')), "k", "v")
	})
	t.Run("of before a partition was made", func(t *testing.T) {
		dir, file := made(t)
		early := filepath.Join(t.TempDir(), "early")
		copyFile(t, file, early)
		s := mustOpen(t, dir, encrypted('k'))
		mustPutIn(t, s, "late", "k", "v")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		copyFile(t, early, file)
		_, err := mustOpen(t, dir, encrypted('k')).Get(t.Context(), "late", "k")
		wantError(t, err, kv.ErrCorrupt, "put back the key file")
	})
}

func TestEveryWriteOfASealedStoreHasItsOwnBytes(t *testing.T) {
	s := mustOpen(t, t.TempDir(), encrypted('k'))
	first, second := badgerkv.Sealed(t, s, "acme", "k", 7, "text"), badgerkv.Sealed(t, s, "acme", "k", 7, "text")
	if bytes.Equal(first, second) {
		t.Error("the same value is sealed to the same bytes twice")
	}
	for name, open := range map[string]func() error{
		"another partition": func() error { return badgerkv.Unsealed(s, "globex", "k", 7, first) },
		"another key":       func() error { return badgerkv.Unsealed(s, "acme", "l", 7, first) },
		"another revision":  func() error { return badgerkv.Unsealed(s, "acme", "k", 8, first) },
		"other bytes": func() error {
			return badgerkv.Unsealed(s, "acme", "k", 7, append(first[:len(first)-1:len(first)-1], 'x'))
		},
		"cut off": func() error { return badgerkv.Unsealed(s, "acme", "k", 7, first[:20]) },
	} {
		if err := open(); err == nil {
			t.Errorf("a value opens with %s", name)
		}
	}
	if err := badgerkv.Unsealed(s, "acme", "k", 7, first); err != nil {
		t.Errorf("a sealed value does not open: %v", err)
	}
}

// A process may be killed between any two files that a change of the key writes.
func TestAChangeOfTheKeyThatIsInterruptedLeavesOneThatOpens(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, encrypted('a'))
	mustPut(t, s, "k", "v")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	registry, file := filepath.Join(dir, "KEYREGISTRY"), filepath.Join(dir, badgerkv.KeyFile)
	oldRegistry := filepath.Join(t.TempDir(), "registry")
	copyFile(t, registry, oldRegistry)
	if err := badgerkv.WrapBoth(dir, keyOf('a'), keyOf('b')); err != nil { // what Rekey does first
		t.Fatal(err)
	}
	both := filepath.Join(t.TempDir(), "both")
	copyFile(t, file, both)
	s = mustOpen(t, dir, encrypted('a')) // killed before the list of keys was written
	wantValueOf(t, s, "k", "v")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := badgerkv.Rekey(dir, keyOf('a'), keyOf('b')); err != nil {
		t.Fatal(err)
	}
	copyFile(t, both, file) // killed after it was
	s = mustOpen(t, dir, encrypted('b'))
	wantValueOf(t, s, "k", "v")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if badgerkv.Opens(file, keyOf('a')) {
		t.Error("the old key opens the key file of a store that was opened with the new one")
	}
}

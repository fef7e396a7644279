package badgerkv_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/kv/kvtest"
	"github.com/agenthost/agenthost/internal/longtest"
)

func keyOf(letter byte) []byte { return bytes.Repeat([]byte{letter}, 32) }

func encrypted(letter byte) *badgerkv.Options { return &badgerkv.Options{Key: keyOf(letter)} }

func TestEncryptedStore(t *testing.T) {
	longtest.Need(t, "TestStore is the same without a key")
	kvtest.Run(t, func(t *testing.T) kvtest.Store {
		dir := t.TempDir()
		return kvtest.Store{
			Open:    func() (kv.Driver, error) { return badgerkv.Open(dir, encrypted('k')) },
			Durable: true,
			Compact: func(d kv.Driver) error { return badgerkv.Compact(d.(*badgerkv.Store)) },
		}
	})
}

// secretStore is the directory of a closed store that holds secret in its log and
// in a table.
func secretStore(t *testing.T, opts *badgerkv.Options, secret string) string {
	t.Helper()
	dir := t.TempDir()
	for round := range 2 {
		s := mustOpen(t, dir, opts)
		mustPut(t, s, kv.NewKey(secret, "k").WithUint(uint64(round)), secret)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// grep counts the files below dir that hold text.
func grep(t *testing.T, dir, text string) (files int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(text)) {
			files++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestNothingIsReadableWithoutTheKey(t *testing.T) {
	const secret = "the launch code is 00000000"
	if grep(t, secretStore(t, nil, secret), secret) == 0 {
		t.Fatal("a store without a key does not show what it holds: this test sees nothing")
	}
	if n := grep(t, secretStore(t, encrypted('k'), secret), secret); n != 0 {
		t.Errorf("%d files of an encrypted store hold the text", n)
	}
	// Also while it is in use.
	dir := t.TempDir()
	s := mustOpen(t, dir, encrypted('k'))
	mustPut(t, s, kv.NewKey(secret), secret)
	if n := grep(t, dir, secret); n != 0 {
		t.Errorf("%d files of an encrypted store in use hold the text", n)
	}
}

// digestDir is a digest of every file below dir.
func digestDir(t *testing.T, dir string) string {
	t.Helper()
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		fmt.Fprintf(sum, "%s %d %x\n", path, len(b), sha256.Sum256(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

func TestAWrongKeyChangesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		made, opened *badgerkv.Options
		says         string
	}{
		"another key":         {encrypted('k'), encrypted('x'), "another one"},
		"no key":              {encrypted('k'), nil, "no key was given"},
		"a key that it lacks": {nil, encrypted('k'), "not encrypted"},
		"a shorter key":       {encrypted('k'), &badgerkv.Options{Key: keyOf('k')[:16]}, "another one"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := secretStore(t, c.made, "v")
			before := digestDir(t, dir)
			_, err := badgerkv.Open(dir, c.opened)
			wantError(t, err, kv.ErrKey, c.says)
			if digestDir(t, dir) != before {
				t.Error("the files have changed")
			}
			s := mustOpen(t, dir, c.made)
			wantValueOf(t, s, kv.NewKey("v", "k").WithUint(1), "v")
		})
	}
	dir := t.TempDir()
	_, err := badgerkv.Open(dir, &badgerkv.Options{Key: []byte("short")})
	wantError(t, err, kv.ErrInvalid, "5 bytes", "openssl rand -hex 32")
}

func TestTheKeyCanBeChanged(t *testing.T) {
	dir := secretStore(t, encrypted('a'), "v")
	wantError(t, badgerkv.Rekey(dir, keyOf('x'), keyOf('b')), kv.ErrKey, "another one")
	wantError(t, badgerkv.Rekey(dir, nil, keyOf('b')), kv.ErrInvalid, "restore a backup")
	wantError(t, badgerkv.Rekey(dir, keyOf('a'), []byte("x")), kv.ErrInvalid, "1 bytes")
	s := mustOpen(t, dir, encrypted('a'))
	wantError(t, badgerkv.Rekey(dir, keyOf('a'), keyOf('b')), kv.ErrLocked)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := badgerkv.Rekey(dir, keyOf('a'), keyOf('b')); err != nil {
		t.Fatalf("Rekey = %v", err)
	}
	_, err := badgerkv.Open(dir, encrypted('a'))
	wantError(t, err, kv.ErrKey, "another one")
	s = mustOpen(t, dir, encrypted('b'))
	wantValueOf(t, s, kv.NewKey("v", "k").WithUint(0), "v")
	mustPut(t, s, "after", "w")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantValueOf(t, mustOpen(t, dir, encrypted('b')), "after", "w")
}

func TestADamagedListOfKeysIsFound(t *testing.T) {
	dir := secretStore(t, encrypted('k'), "v")
	if err := os.Truncate(filepath.Join(dir, "KEYREGISTRY"), 10); err != nil {
		t.Fatal(err)
	}
	_, err := badgerkv.Open(dir, encrypted('k'))
	wantError(t, err, kv.ErrCorrupt, "backup")
}

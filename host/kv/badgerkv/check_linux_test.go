package badgerkv_test

// Badger ends the process when it meets some damages, so the stores of these tests
// are opened in a process of their own.

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
)

const (
	damageChild = "BADGERKV_DAMAGE_CHILD" // what the process does: fill or open
	damageDir   = "BADGERKV_DAMAGE_DIR"
	damageKey   = "BADGERKV_DAMAGE_KEY"
	// damageKilled says that the process of the stores was killed.
	damageKilled = "BADGERKV_DAMAGE_KILLED"
	// damageRuns is how many damages are tried of each store.
	damageRuns    = "AGENTHOST_TEST_DAMAGES"
	damageDefault = 20
	damageEntries = 600
)

// TestDamageIsFound damages one file of a store and opens it: the store opens with
// everything in it, or an error names the file and nothing has changed.
func TestDamageIsFound(t *testing.T) {
	switch os.Getenv(damageChild) {
	case "fill":
		fillAndWait(t)
		return
	case "open":
		openDamaged(t)
		return
	}
	runs := damageDefault
	if testing.Short() {
		runs /= 4
	}
	if text := os.Getenv(damageRuns); text != "" {
		var err error
		if runs, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s: %v", damageRuns, err)
		}
	}
	for _, key := range []string{"", strings.Repeat("k", 32)} {
		for _, killed := range []bool{false, true} {
			name := fmt.Sprintf("encrypted=%t/killed=%t", key != "", killed)
			t.Run(name, func(t *testing.T) {
				base := t.TempDir()
				fill(t, base, key, killed)
				tryDamages(t, base, key, killed, runs)
			})
		}
	}
}

// fill makes a store with tables and, if it is killed, with commits that no table
// has yet.
func fill(t *testing.T, dir, key string, killed bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestDamageIsFound$")
	cmd.Env = append(os.Environ(), damageChild+"=fill", damageDir+"="+dir, damageKey+"="+key)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "filled" {
	}
	if killed {
		_ = cmd.Process.Kill()
	} else {
		_ = in.Close()
	}
	_, _ = io.Copy(io.Discard, out)
	if err := cmd.Wait(); (err != nil) != killed {
		t.Fatalf("the process that fills the store: %v", err)
	}
}

func fillAndWait(t *testing.T) {
	d, err := badgerkv.Open(os.Getenv(damageDir), &badgerkv.Options{Key: []byte(os.Getenv(damageKey))})
	if err != nil {
		t.Fatal(err)
	}
	for i := range damageEntries {
		mustPut(t, d, damageEntryKey(i), damageValue(i))
	}
	fmt.Println("filled")
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

func damageEntryKey(i int) kv.Key { return kv.NewKey("k").WithUint(uint64(i)) }

// damageValue compresses badly, so that tables are as large as what is in them.
func damageValue(i int) string {
	b := make([]byte, 40_000+i)
	seed := [32]byte{byte(i), byte(i >> 8)}
	_, _ = rand.NewChaCha8(seed).Read(b) // never fails
	return string(b)
}

// tryDamages damages copies of a store, each in one way, and lets one process open
// them in a row.
func tryDamages(t *testing.T, base, key string, killed bool, runs int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestDamageIsFound$")
	cmd.Env = append(os.Environ(), damageChild+"=open", damageKey+"="+key)
	if killed {
		cmd.Env = append(cmd.Env, damageKilled+"=1")
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewScanner(out)
	random, dir := rand.New(rand.NewPCG(2, 3)), filepath.Join(t.TempDir(), "store")
	outcomes := make(map[string]int)
	for n := range runs {
		copySparse(t, base, dir)
		what := damageOne(t, random, dir)
		before := digests(t, dir)
		fmt.Fprintln(in, dir)
		answer := ""
		for answers.Scan() {
			if after, ok := strings.CutPrefix(answers.Text(), "answer "); ok {
				answer = after
				break
			}
		}
		outcome, text, _ := strings.Cut(answer, " ")
		outcomes[outcome]++
		switch outcome {
		case "whole":
		case "refused":
			if after := digests(t, dir); !maps.Equal(after, before) {
				t.Errorf("damage %d, %s: refused with %s, and the files have changed", n, what, text)
			}
		case "":
			t.Fatalf("damage %d, %s: the process ended: %s", n, what, last(stderr.String(), 2000))
		default:
			t.Errorf("damage %d, %s: %s", n, what, answer)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	_ = in.Close()
	_, _ = io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil {
		t.Errorf("the process that opens stores: %v", err)
	}
	t.Logf("%v", outcomes)
	if outcomes["refused"] == 0 {
		t.Error("no damage was found")
	}
}

// openDamaged opens the stores whose directories it reads, and says of each what
// became of it.
func openDamaged(t *testing.T) {
	for dirs := bufio.NewScanner(os.Stdin); dirs.Scan(); {
		fmt.Println("answer", strings.ReplaceAll(outcomeOf(t, dirs.Text()), "\n", " "))
	}
}

func outcomeOf(t *testing.T, dir string) string {
	d, err := badgerkv.Open(dir, &badgerkv.Options{Key: []byte(os.Getenv(damageKey))})
	if err != nil {
		for _, typed := range []error{kv.ErrCorrupt, kv.ErrFormat, kv.ErrKey} {
			if errors.Is(err, typed) {
				return "refused " + err.Error()
			}
		}
		return "untyped " + err.Error()
	}
	defer d.Close()
	for i := range damageEntries {
		e, err := d.Get(t.Context(), "acme", damageEntryKey(i))
		if i == damageEntries-1 && errors.Is(err, kv.ErrNotFound) && os.Getenv(damageKilled) != "" {
			// A last commit that is damaged looks like one of which the end did not
			// reach the disk, and Badger drops it: see Damage in the package's page.
			continue
		}
		if err != nil {
			return fmt.Sprintf("lost entry %d: %v", i, err)
		}
		if string(e.Value) != damageValue(i) {
			return fmt.Sprintf("changed entry %d", i)
		}
	}
	return "whole"
}

// damageOne damages one file, or exchanges two.
func damageOne(t *testing.T, r *rand.Rand, dir string) string {
	t.Helper()
	var names []string
	for _, e := range must(os.ReadDir(dir))(t) {
		if e.Type().IsRegular() && e.Name() != "LOCK" {
			names = append(names, e.Name())
		}
	}
	name := names[r.IntN(len(names))]
	path := filepath.Join(dir, name)
	size := must(os.Stat(path))(t).Size()
	switch kind := r.IntN(5); kind {
	case 0:
		to := r.Int64N(size)
		if r.IntN(2) == 0 {
			to = r.Int64N(min(size, 64))
		}
		if err := os.Truncate(path, to); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%s cut to %d of %d", name, to, size)
	case 1, 2:
		f := must(os.OpenFile(path, os.O_RDWR, 0))(t)
		defer f.Close()
		at := r.Int64N(size)
		if kind == 2 {
			at = r.Int64N(min(size, 4096))
		}
		var b [1]byte
		if _, err := f.ReadAt(b[:], at); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 1 << r.IntN(8)
		if _, err := f.WriteAt(b[:], at); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%s flipped at %d of %d", name, at, size)
	case 3:
		other := filepath.Join(dir, names[r.IntN(len(names))])
		for _, move := range [][2]string{{path, path + ".x"}, {other, path}, {path + ".x", other}} {
			if err := os.Rename(move[0], move[1]); err != nil && other != path {
				t.Fatal(err)
			}
		}
		if other == path {
			_ = os.Rename(path+".x", path)
		}
		return fmt.Sprintf("%s exchanged with %s", name, filepath.Base(other))
	default:
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		return name + " missing"
	}
}

// digests returns what is in the files of dir, but for the lock.
func digests(t *testing.T, dir string) map[string]string {
	t.Helper()
	sums := make(map[string]string)
	for _, e := range must(os.ReadDir(dir))(t) {
		if !e.Type().IsRegular() || e.Name() == "LOCK" {
			continue
		}
		h := sha256.New()
		eachData(t, filepath.Join(dir, e.Name()), func(at int64, b []byte) {
			fmt.Fprintln(h, at)
			h.Write(b)
		})
		sums[e.Name()] = fmt.Sprintf("%x %d", h.Sum(nil), must(e.Info())(t).Size())
	}
	return sums
}

// copySparse copies the files of a directory without their holes, which are most
// of what Badger allocates.
func copySparse(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Mkdir(to, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, e := range must(os.ReadDir(from))(t) {
		f := must(os.Create(filepath.Join(to, e.Name())))(t)
		eachData(t, filepath.Join(from, e.Name()), func(at int64, b []byte) {
			if _, err := f.WriteAt(b, at); err != nil {
				t.Fatal(err)
			}
		})
		info := must(e.Info())(t)
		if err := errors.Join(f.Truncate(info.Size()), f.Close(), os.Chtimes(f.Name(), info.ModTime(), info.ModTime())); err != nil {
			t.Fatal(err)
		}
	}
}

// eachData calls fn with the parts of a file that are no holes.
func eachData(t *testing.T, path string, fn func(at int64, b []byte)) {
	t.Helper()
	const seekData, seekHole = 3, 4
	f := must(os.Open(path))(t)
	defer f.Close()
	for end := int64(0); ; {
		at, err := f.Seek(end, seekData)
		if err != nil {
			return // no data behind end
		}
		if end, err = f.Seek(at, seekHole); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, end-at)
		if _, err := f.ReadAt(b, at); err != nil {
			t.Fatal(err)
		}
		fn(at, b)
	}
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

func last(s string, n int) string { return s[max(0, len(s)-n):] }

// A MANIFEST that was cut opens as an empty store in Badger, which then deletes
// the tables.
func TestManifestCutAnywhereIsDamage(t *testing.T) {
	for _, clean := range []bool{true, false} {
		base := t.TempDir()
		fill(t, base, "", !clean)
		whole := must(os.ReadFile(filepath.Join(base, "MANIFEST")))(t)
		for n := range len(whole) {
			if testing.Short() && n%8 != 5 {
				continue
			}
			dir := filepath.Join(t.TempDir(), "store")
			copySparse(t, base, dir)
			mustWrite(t, filepath.Join(dir, "MANIFEST"), string(whole[:n]))
			before := digests(t, dir)
			wantOpenError(t, dir, kv.ErrCorrupt, "MANIFEST", "restore a backup")
			if err := badgerkv.Check(dir, nil); !errors.Is(err, kv.ErrCorrupt) {
				t.Errorf("clean=%t, cut to %d: Check: %v, want kv.ErrCorrupt", clean, n, err)
			}
			if !maps.Equal(digests(t, dir), before) {
				t.Errorf("clean=%t, cut to %d: the files have changed", clean, n)
			}
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A log of a memtable that was exchanged with the value log looks like one that has
// no record yet.
func TestExchangedLogsAreDamage(t *testing.T) {
	base := t.TempDir()
	fill(t, base, "", true)
	dir := filepath.Join(t.TempDir(), "store")
	copySparse(t, base, dir)
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

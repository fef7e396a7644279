package badgerkv_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/kv/kvtest"
	"github.com/agenthost/agenthost/internal/testchild"
	"github.com/agenthost/agenthost/internal/testdir"
	"github.com/agenthost/agenthost/internal/testuser"
)

// Badger leaves two goroutines behind when it cannot open damaged files. Any
// other that remains is ours.
func TestMain(m *testing.M) {
	testdir.InMemory()
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("github.com/dgraph-io/badger/v4.(*DB).monitorCache"),
		goleak.IgnoreTopFunction("github.com/dgraph-io/ristretto/v2/z.(*AllocatorPool).freeupAllocators"))
}

func openDir(dir string) (kv.Driver, error) { return badgerkv.Open(dir, nil) }

func TestStore(t *testing.T) {
	kvtest.Run(t, func(t *testing.T) kvtest.Store {
		dir := t.TempDir()
		return kvtest.Store{
			Open:    func() (kv.Driver, error) { return openDir(dir) },
			Durable: true,
			Compact: func(d kv.Driver) error { return badgerkv.Compact(d.(*badgerkv.Store)) },
		}
	})
}

func TestCrash(t *testing.T) { kvtest.Crash(t, openDir) }

func BenchmarkStore(b *testing.B) {
	kvtest.Benchmark(b, func(b *testing.B) kv.Driver { return mustOpen(b, b.TempDir(), nil) })
}

// mustOpen opens a store until the test ends.
func mustOpen(t testing.TB, dir string, opts *badgerkv.Options) *badgerkv.Store {
	t.Helper()
	s, err := badgerkv.Open(dir, opts)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func mustPut(t testing.TB, d kv.Driver, key kv.Key, value string) {
	t.Helper()
	tx := kv.Tx{Partition: "acme", Writes: []kv.Write{kv.Put(key, []byte(value))}}
	if _, err := kv.Apply(t.Context(), d, tx); err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
}

func mustWrite(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// wantOpenError opens dir and checks which error it is, that it names the
// directory, and that it says what the words say.
func wantOpenError(t *testing.T, dir string, target error, words ...string) {
	t.Helper()
	s, err := badgerkv.Open(dir, nil)
	if err == nil {
		s.Close()
		t.Fatalf("Open(%q) succeeds, want an error that is %q", dir, target)
	}
	if !errors.Is(err, target) {
		t.Errorf("Open(%q): error %v, want one that is %q", dir, err, target)
	}
	for _, w := range append(words, fmt.Sprintf("%q", dir)) {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("Open(%q): error %q does not say %q", dir, err, w)
		}
	}
}

func TestOpenMakesTheDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	mustPut(t, mustOpen(t, dir, nil), "k", "v")
	b, err := os.ReadFile(filepath.Join(dir, "FORMAT"))
	if err != nil || string(b) != "agenthost-badgerkv 3\n" {
		t.Errorf("FORMAT holds %q, %v", b, err)
	}
}

// A directory that this version has opened is none that an earlier one takes for its
// own: it would read digests and references as values, and leave an inventory that is
// wrong. When the store was made is known as before.
func TestOpenChangesTheFormatOfEarlierVersions(t *testing.T) {
	for formats, opts := range map[[2]string]*badgerkv.Options{{"1", "3"}: nil, {"2", "4"}: encrypted('k')} {
		dir := t.TempDir()
		if err := mustOpen(t, dir, opts).Close(); err != nil {
			t.Fatal(err)
		}
		path, made := filepath.Join(dir, "FORMAT"), time.Now().Add(-time.Hour).Truncate(time.Second)
		err := errors.Join(os.WriteFile(path, []byte("agenthost-badgerkv "+formats[0]+"\n"), 0o600), os.Chtimes(path, made, made))
		if err != nil {
			t.Fatal(err)
		}
		mustOpen(t, dir, opts)
		b, err := os.ReadFile(path)
		if err != nil || string(b) != "agenthost-badgerkv "+formats[1]+"\n" {
			t.Errorf("FORMAT of %s holds %q, %v", formats[0], b, err)
		}
		if info, err := os.Stat(path); err != nil || !info.ModTime().Equal(made) {
			t.Errorf("FORMAT is of %v, %v, want %v", info.ModTime(), err, made)
		}
	}
}

func TestOpenTakesARelativeDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	s := mustOpen(t, "data", nil)
	t.Chdir(t.TempDir())
	mustPut(t, s, "k", "v")
}

func TestOpenRefuses(t *testing.T) {
	t.Run("no directory", func(t *testing.T) {
		wantOpenError(t, "", kv.ErrInvalid, "no directory")
	})
	t.Run("a file", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "file")
		mustWrite(t, path, "mine")
		wantOpenError(t, path, kv.ErrInvalid, "not a directory")
		wantOpenError(t, filepath.Join(path, "below"), kv.ErrInvalid, "not a directory", "name a directory")
	})
	t.Run("a directory of somebody else", func(t *testing.T) {
		dir := t.TempDir()
		mustWrite(t, filepath.Join(dir, "letter.txt"), "mine")
		wantOpenError(t, dir, kv.ErrFormat, "letter.txt", "empty directory")
		if names := list(t, dir); len(names) != 1 {
			t.Errorf("the directory has %q now, want it left alone", names)
		}
	})
	t.Run("a newer format", func(t *testing.T) {
		dir := t.TempDir()
		mustWrite(t, filepath.Join(dir, "FORMAT"), "agenthost-badgerkv 5\n")
		wantOpenError(t, dir, kv.ErrFormat, "format 5", "newer")
	})
	for _, content := range []string{"", "agenthost-badgerkv", "agenthost-badgerkv 0", "agenthost-badgerkv x", "agenthost-otherkv 1", strings.Repeat("x", 4096)} {
		t.Run(fmt.Sprintf("unknown format %.30q", content), func(t *testing.T) {
			dir := t.TempDir()
			mustWrite(t, filepath.Join(dir, "FORMAT"), content)
			wantOpenError(t, dir, kv.ErrFormat, "FORMAT")
		})
	}
	t.Run("a damaged manifest", func(t *testing.T) {
		dir := t.TempDir()
		s := mustOpen(t, dir, nil)
		mustPut(t, s, "k", "v")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		mustWrite(t, filepath.Join(dir, "MANIFEST"), "this was a manifest once")
		wantOpenError(t, dir, kv.ErrCorrupt, "backup")
	})
	t.Run("a missing table", func(t *testing.T) {
		dir := filledStore(t)
		removeAll(t, filepath.Join(dir, "*.sst"))
		wantOpenError(t, dir, kv.ErrCorrupt, "backup")
	})
}

func list(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// filledStore is the directory of a closed store with a table in it.
func filledStore(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s := mustOpen(t, dir, nil)
	for i := range 20 {
		mustPut(t, s, kv.NewKey("k").WithUint(uint64(i)), strings.Repeat("value ", 1000))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func removeAll(t *testing.T, pattern string) {
	t.Helper()
	for _, path := range glob(t, pattern) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no file is like %s (%v)", pattern, err)
	}
	return paths
}

// What a crash in the first moments of a store leaves is no reason to refuse.
func TestOpenGoesOnAfterACrashAtTheStart(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, filepath.Join(dir, "FORMAT.tmp123"), "agenthost-b")
	if err := os.Mkdir(filepath.Join(dir, "lost+found"), 0o700); err != nil {
		t.Fatal(err)
	}
	mustPut(t, mustOpen(t, dir, nil), "k", "v")
}

// A process may be killed between making a file and giving it a size.
func TestOpenGoesOnAfterACrashThatLeftFilesWithoutASize(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, nil)
	mustPut(t, s, "k", "v")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, filepath.Join(dir, "00070.mem"), "")
	mustWrite(t, filepath.Join(dir, "000070.vlog"), "")
	wantValueOf(t, mustOpen(t, dir, nil), "k", "v")
}

func TestOpenRefusesADirectoryThatCannotBeWritten(t *testing.T) {
	empty, filled := filepath.Join(publicTempDir(t), "empty"), filepath.Join(publicTempDir(t), "filled")
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := mustOpen(t, filled, nil).Close(); err != nil {
		t.Fatal(err)
	}
	mustChmod(t, empty, 0o555)
	mustChmod(t, filled, 0o555)
	t.Cleanup(func() { mustChmod(t, filled, 0o700) })
	testuser.Unprivileged(t)
	wantOpenError(t, empty, kv.ErrReadOnly, "permission denied", "writable")
	wantOpenError(t, filled, kv.ErrReadOnly, "permission denied", "writable")
	wantOpenError(t, filepath.Join(empty, "new"), kv.ErrReadOnly, "permission denied", "writable")
}

func TestOpenRefusesFilesThatCannotBeWritten(t *testing.T) {
	dir := filepath.Join(publicTempDir(t), "store")
	if err := mustOpen(t, dir, nil).Close(); err != nil {
		t.Fatal(err)
	}
	mustChmod(t, dir, 0o777)
	for _, path := range glob(t, filepath.Join(dir, "*")) {
		mustChmod(t, path, 0o444)
	}
	testuser.Unprivileged(t)
	wantOpenError(t, dir, kv.ErrReadOnly, "permission denied", "writable")
}

// publicTempDir is a directory in which any user may create files.
func publicTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "badgerkv")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	mustChmod(t, dir, 0o777)
	return dir
}

func mustChmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRefusesAStoreThatIsOpen(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, nil)
	mustPut(t, s, "k", "v")
	wantOpenError(t, dir, kv.ErrLocked, "this process", "close it first")
	mustPut(t, s, "k", "v2")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	mustPut(t, mustOpen(t, dir, nil), "k", "v3")
}

// holdEnv makes TestHold open that directory until its input ends.
const holdEnv = "BADGERKV_HOLD_DIR"

func TestHold(t *testing.T) {
	dir := os.Getenv(holdEnv)
	if dir == "" {
		t.Skip("runs only as a child of TestOpenNamesTheProcess, which sets " + holdEnv)
	}
	mustOpen(t, dir, nil)
	fmt.Println("holding")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func TestOpenNamesTheProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	child := testchild.Start(t, "TestHold", holdEnv+"="+dir)
	if line := child.Line(); line != "holding" {
		t.Fatalf("child says %q", line)
	}
	id := child.Cmd.Process.Pid
	wantOpenError(t, dir, kv.ErrLocked, fmt.Sprintf("process %d", id), "stop it", "another directory")
	var locked *kv.LockedError
	if _, err := badgerkv.Open(dir, nil); !errors.As(err, &locked) || locked.Process != id {
		t.Errorf("Open = %v, want a *kv.LockedError of process %d", err, id)
	}
	child.Hangup()
	for range child.Lines() {
	}
	if err := child.Cmd.Wait(); err != nil {
		t.Fatalf("child: %v", err)
	}
	mustOpen(t, dir, nil)
}

func TestFullDevice(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skip("free space is not known on " + runtime.GOOS + "; wants Linux or macOS")
	}
	dir := t.TempDir()
	s := mustOpen(t, dir, nil)
	mustPut(t, s, "k", "v")
	badgerkv.SetMinFree(s, 1<<62)
	_, err := kv.Apply(t.Context(), s, kv.Tx{Partition: "acme", Writes: []kv.Write{kv.Put("k", nil)}})
	if !errors.Is(err, kv.ErrNoSpace) || !strings.Contains(err.Error(), "MiB") {
		t.Errorf("Commit: error %v, want kv.ErrNoSpace with numbers", err)
	}
	if e, err := s.Get(t.Context(), "acme", "k"); err != nil || string(e.Value) != "v" {
		t.Errorf("Get = %q, %v, want what was there", e.Value, err)
	}
	badgerkv.SetMinFree(s, 1)
	mustPut(t, s, "k", "v2")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = badgerkv.Open(dir, &badgerkv.Options{MinFree: 1 << 62})
	if !errors.Is(err, kv.ErrNoSpace) {
		t.Errorf("Open: error %v, want kv.ErrNoSpace", err)
	}
}

func TestAFailedWriteIsInDoubtAndTheLast(t *testing.T) {
	s := mustOpen(t, t.TempDir(), nil)
	mustPut(t, s, "k", "v")
	badgerkv.FailCommits(s, errors.New("input/output error"))
	tx := kv.Tx{Partition: "acme", Writes: []kv.Write{kv.Put("k", []byte("v2"))}}
	cond := kv.Tx{Partition: "acme", Conds: []kv.Cond{kv.Absent("k")}, Writes: []kv.Write{kv.Put("l", nil)}}
	res := s.Commit(t.Context(), cond, tx)
	if !errors.Is(res[0].Err, kv.ErrPrecondition) {
		t.Errorf("result 0: error %v, want kv.ErrPrecondition: it had nothing to write", res[0].Err)
	}
	if !errors.Is(res[1].Err, kv.ErrInDoubt) || res[1].Revision != 0 || !strings.Contains(res[1].Err.Error(), "input/output") {
		t.Errorf("result 1 = %+v, want kv.ErrInDoubt with the cause", res[1])
	}
	badgerkv.FailCommits(s, nil)
	if _, err := kv.Apply(t.Context(), s, tx); !errors.Is(err, kv.ErrReadOnly) || !strings.Contains(err.Error(), "restart") {
		t.Errorf("next Commit: error %v, want kv.ErrReadOnly that says what to do", err)
	}
	if _, err := s.Get(t.Context(), "acme", "k"); err != nil {
		t.Errorf("Get: %v, want reads to go on", err)
	}
}

func TestVerify(t *testing.T) {
	dir := filledStore(t)
	s := mustOpen(t, dir, nil)
	if err := s.Verify(); err != nil {
		t.Fatalf("Verify of a good store: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Verify(); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("Verify after Close: %v, want kv.ErrClosed", err)
	}
	s = mustOpen(t, dir, nil)
	f, err := os.OpenFile(glob(t, filepath.Join(dir, "*.sst"))[0], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("damage"), 1000); err != nil { // while it is open: a closed store is read by Open
		t.Fatal(err)
	}
	if err := s.Verify(); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("Verify of a damaged table: %v, want kv.ErrCorrupt", err)
	}
}

func TestLogger(t *testing.T) {
	var out bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := mustOpen(t, t.TempDir(), &badgerkv.Options{Logger: logger})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "level=DEBUG") || !strings.Contains(got, "component=badger") || strings.Contains(got, "level=INFO") {
		t.Errorf("log is %q, want Badger's routine at level debug", got)
	}
}

func TestGroup(t *testing.T) {
	kvtest.Run(t, func(t *testing.T) kvtest.Store {
		dir := t.TempDir()
		var store kv.Driver
		return kvtest.Store{
			Open: func() (d kv.Driver, err error) {
				if store, err = openDir(dir); err != nil {
					return nil, err
				}
				return kv.Group(store), nil
			},
			Durable: true,
			Compact: func(kv.Driver) error { return badgerkv.Compact(store.(*badgerkv.Store)) },
		}
	})
}

func TestGroupCrash(t *testing.T) {
	kvtest.Crash(t, func(dir string) (kv.Driver, error) {
		d, err := openDir(dir)
		if err != nil {
			return nil, err
		}
		return kv.Group(d), nil
	})
}

// BenchmarkWriters has 64 goroutines append 1 kB each, synced, by themselves and
// through a group, in the same run.
func BenchmarkWriters(b *testing.B) {
	for _, c := range []struct {
		name  string
		group func(kv.Driver) kv.Driver
	}{{"each by itself", func(d kv.Driver) kv.Driver { return d }}, {"in groups", kv.Group}} {
		b.Run(c.name, func(b *testing.B) {
			d := c.group(mustOpen(b, b.TempDir(), nil))
			value := bytes.Repeat([]byte("x"), 1024)
			var writer atomic.Uint64
			b.SetParallelism(64 / runtime.GOMAXPROCS(0))
			b.RunParallel(func(pb *testing.PB) {
				log := kv.NewKey("log").WithUint(writer.Add(1))
				for n := uint64(0); pb.Next(); n++ {
					if _, err := kv.Apply(b.Context(), d, kv.Tx{Partition: "acme", Writes: []kv.Write{kv.Put(log.WithUint(n), value)}}); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
		})
	}
}

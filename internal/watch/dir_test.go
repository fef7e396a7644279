package watch

// These tests are inside the package to look at a directory at chosen times.

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host/fault"
)

func modules(name string) bool { return filepath.Ext(name) == ".wasm" }

// directory is a watched directory and what was reported of it.
type directory struct {
	t       *testing.T
	path    string
	stamps  int
	mu      sync.Mutex
	changes []string // names; with - before those removed
}

func watched(t *testing.T, opts DirOptions) *directory {
	t.Helper()
	d := &directory{t: t, path: t.TempDir()}
	opts.Match = modules
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- Dir(ctx, d.path, &opts, func(_ context.Context, c Change) {
			d.mu.Lock()
			defer d.mu.Unlock()
			if c.Removed {
				d.changes = append(d.changes, "-"+c.Name)
			} else {
				d.changes = append(d.changes, c.Name)
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Dir: %v", err)
		}
	})
	return d
}

// write writes a file, with a time of its own: two writes of a test may happen
// within what the file system tells apart.
func (d *directory) write(name, text string) {
	d.t.Helper()
	if err := os.WriteFile(filepath.Join(d.path, name), []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
	d.touch(name)
}

func (d *directory) touch(name string) {
	d.t.Helper()
	d.stamps++
	at := time.Unix(1_700_000_000+int64(d.stamps), 0)
	if err := os.Chtimes(filepath.Join(d.path, name), at, at); err != nil {
		d.t.Fatal(err)
	}
}

// want waits for a time and compares what was reported in it.
func (d *directory) want(wait time.Duration, changes ...string) {
	d.t.Helper()
	time.Sleep(wait)
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	if got, want := strings.Join(d.changes, " "), strings.Join(changes, " "); got != want {
		d.t.Errorf("reported: %q, want %q", got, want)
	}
	d.changes = nil
}

const enough = 3 * time.Second

func TestDirReportsWhatHasSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := watched(t, DirOptions{})
		d.write("a.wasm", "one")
		d.write("b.wasm", "one")
		d.write("notes.txt", "one")
		d.want(enough, "a.wasm", "b.wasm")
		d.want(enough)
		d.write("a.wasm", "two") // of the same length
		d.want(enough, "a.wasm")
		if err := os.Mkdir(filepath.Join(d.path, "dir.wasm"), 0o700); err != nil {
			t.Fatal(err)
		}
		d.want(enough)
	})
}

func TestDirLeavesAloneWhatIsBeingWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := watched(t, DirOptions{Interval: 10 * time.Millisecond})
		for i := range 50 { // something every half of the time to settle
			d.write("a.wasm", strings.Repeat("x", i))
			d.want(defaultSettle / 2)
		}
		d.want(enough, "a.wasm")
	})
}

func TestDirSeesARenameAsOneChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := watched(t, DirOptions{Interval: time.Millisecond})
		d.write("a.wasm", "one")
		d.want(enough, "a.wasm")
		for i := range 3 {
			d.write("a.wasm.tmp", fmt.Sprint("new ", i))
			if err := os.Rename(filepath.Join(d.path, "a.wasm.tmp"), filepath.Join(d.path, "a.wasm")); err != nil {
				t.Fatal(err)
			}
			d.want(enough, "a.wasm")
		}
		// Removed and there again before that counts, as some editors save.
		if err := os.Remove(filepath.Join(d.path, "a.wasm")); err != nil {
			t.Fatal(err)
		}
		d.want(defaultSettle / 2)
		d.write("a.wasm", "saved")
		d.want(enough, "a.wasm")
	})
}

func TestDirReportsWhatIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := watched(t, DirOptions{})
		d.write("a.wasm", "one")
		d.want(enough, "a.wasm")
		if err := os.Remove(filepath.Join(d.path, "a.wasm")); err != nil {
			t.Fatal(err)
		}
		d.want(enough, "-a.wasm")
		d.want(enough)
		d.write("a.wasm", "one")
		d.want(enough, "a.wasm")
	})
}

func TestDirDoesNotFollowLinksOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outside := filepath.Join(t.TempDir(), "secret.wasm")
		if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		d := watched(t, DirOptions{})
		d.write("real.bin", "inside")
		for name, target := range map[string]string{"out.wasm": outside, "in.wasm": "real.bin", "up.wasm": "../secret.wasm", "none.wasm": "nothing"} {
			if err := os.Symlink(target, filepath.Join(d.path, name)); err != nil {
				t.Skip("this file system has no symbolic links: ", err)
			}
		}
		d.want(enough, "in.wasm")
		c := Change{Dir: d.path, Name: "out.wasm"}
		if b, err := c.Read(100); err == nil {
			t.Errorf("Read through a link out of the directory gives %q", b)
		}
	})
}

func TestDirIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := watched(t, DirOptions{MaxFiles: 2})
		for _, name := range []string{"c.wasm", "a.wasm", "b.wasm"} {
			d.write(name, "x")
		}
		d.want(enough, "a.wasm", "b.wasm")
	})
}

func TestDirOutlivesItsDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := watched(t, DirOptions{})
		d.write("a.wasm", "one")
		d.want(enough, "a.wasm")
		if err := os.Rename(d.path, d.path+".old"); err != nil {
			t.Fatal(err)
		}
		d.want(enough) // nothing is known, so nothing is reported
		if err := os.Mkdir(d.path, 0o700); err != nil {
			t.Fatal(err)
		}
		d.write("b.wasm", "one")
		d.want(enough, "-a.wasm", "b.wasm")
	})
}

func TestDirRefuses(t *testing.T) {
	never := func(context.Context, Change) { t.Error("something is reported") }
	for _, row := range []struct {
		name string
		dir  string
		opts *DirOptions
	}{
		{"no directory", filepath.Join(t.TempDir(), "none"), nil},
		{"a negative time", t.TempDir(), &DirOptions{Settle: -1}},
		{"a negative bound", t.TempDir(), &DirOptions{MaxFiles: -1}},
	} {
		if err := Dir(t.Context(), row.dir, row.opts, never); fault.CodeOf(err) != fault.InvalidArgument {
			t.Errorf("%s: %v, want invalid_argument", row.name, err)
		}
	}
}

func TestChangeReadsAtMost(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := Change{Dir: dir, Name: "a"}
	if b, err := c.Read(5); string(b) != "12345" || err != nil {
		t.Errorf("Read(5) = %q, %v", b, err)
	}
	if _, err := c.Read(4); fault.CodeOf(err) != fault.InvalidArgument {
		t.Errorf("Read(4): %v, want invalid_argument", err)
	}
	c.Name = "b"
	if _, err := c.Read(4); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("Read of nothing: %v, want not_found", err)
	}
	c.Name = "../a"
	if _, err := c.Read(5); fault.CodeOf(err) != fault.FailedPrecondition {
		t.Errorf("Read outside: %v, want failed_precondition", err)
	}
}

// A file that is written to once more after it has settled is not read half: it is
// reported when it has settled again.
func TestChangeReadsWhatHasSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &directory{t: t, path: t.TempDir()}
		d.write("a.wasm", "one")
		ctx, cancel := context.WithCancel(t.Context())
		var read []string
		err := Dir(ctx, d.path, &DirOptions{Match: modules}, func(_ context.Context, c Change) {
			if len(read) == 0 {
				d.write("a.wasm", "half")
			}
			b, err := c.Read(100)
			read = append(read, fmt.Sprint(string(b), fault.CodeOf(err)))
			if len(read) == 1 {
				d.write("a.wasm", "whole")
				return
			}
			cancel()
		})
		if got, want := fmt.Sprint(read), "[conflict whole]"; got != want || err != nil {
			t.Errorf("read %s, %v, want %s", got, err, want)
		}
	})
}

// TestWhatIsReportedIsWhatIsThere holds any sequence of changes to one rule: when
// all has settled, what was reported last of each file is how it is.
func TestWhatIsReportedIsWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	stamps := 0
	rapid.Check(t, func(t *rapid.T) {
		o, err := (&DirOptions{Match: modules}).withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		w := &watcher{dir: dir, opts: o, known: map[string]stamp{}, pending: map[string]sighting{}}
		now, reported, actual := time.Unix(0, 0), map[string]int{}, map[string]int{}
		look := func() {
			for _, c := range w.look(now) {
				reported[c.Name] = actual[c.Name]
				if c.Removed {
					delete(reported, c.Name)
				}
			}
		}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"a.wasm", "b.wasm"}).Draw(t, "name")
			path := filepath.Join(dir, name)
			if rapid.Bool().Draw(t, "remove") {
				_ = os.Remove(path) // which may not be there
				delete(actual, name)
			} else {
				stamps++
				at := time.Unix(int64(stamps), 0)
				if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Chtimes(path, at, at); err != nil {
					t.Fatal(err)
				}
				actual[name] = stamps
			}
			now = now.Add(time.Duration(rapid.IntRange(0, 150).Draw(t, "ms")) * time.Millisecond)
			look()
		}
		for range 2 {
			now = now.Add(defaultSettle)
			look()
		}
		if fmt.Sprint(reported) != fmt.Sprint(actual) {
			t.Fatalf("reported: %v, there is %v", reported, actual)
		}
		for name := range actual {
			_ = os.Remove(filepath.Join(dir, name))
		}
	})
}

// looking is a watcher that looks when a test says so.
func looking(t *testing.T, opts *DirOptions) (w *watcher, look func() []string) {
	t.Helper()
	o, err := opts.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	w = &watcher{dir: t.TempDir(), opts: o, known: map[string]stamp{}, pending: map[string]sighting{}}
	now := time.Unix(0, 0)
	return w, func() (seen []string) {
		for range 2 {
			for _, c := range w.look(now) {
				seen = append(seen, fmt.Sprint(c.Name, map[bool]string{true: " gone"}[c.Removed]))
			}
			now = now.Add(o.Settle)
		}
		return seen
	}
}

// Builds that are reproducible to the last give every file the same time: another
// file of the same size in the same place is a change.
func TestAnotherFileOfTheSameTimeAndSize(t *testing.T) {
	w, look := looking(t, &DirOptions{Match: modules})
	epoch := time.Unix(1, 0)
	for _, text := range []string{"one", "two"} {
		tmp := filepath.Join(w.dir, "new")
		if err := os.WriteFile(tmp, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(tmp, epoch, epoch); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tmp, filepath.Join(w.dir, "a.wasm")); err != nil {
			t.Fatal(err)
		}
		if got := look(); !slices.Equal(got, []string{"a.wasm"}) {
			t.Errorf("after %s was put there: %q", text, got)
		}
	}
	if got := look(); len(got) > 0 {
		t.Errorf("nothing has changed: %q", got)
	}
}

// A new file in a full directory takes no other's place: what is there does not
// count as removed.
func TestAFullDirectoryLosesNothing(t *testing.T) {
	w, look := looking(t, &DirOptions{Match: modules, MaxFiles: 2})
	put := func(name string) {
		if err := os.WriteFile(filepath.Join(w.dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("m.wasm")
	put("n.wasm")
	if got := look(); !slices.Equal(got, []string{"m.wasm", "n.wasm"}) {
		t.Fatalf("seen: %q", got)
	}
	put("a.wasm")
	if got := look(); len(got) > 0 {
		t.Errorf("after one too many: %q", got)
	}
	if err := os.Remove(filepath.Join(w.dir, "m.wasm")); err != nil {
		t.Fatal(err)
	}
	if got := look(); !slices.Equal(got, []string{"a.wasm", "m.wasm gone"}) {
		t.Errorf("after there is room: %q", got)
	}
}

package watch_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/agenthost/agenthost/internal/watch"
)

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestATreeChangesWithItsFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "main.go"), "package main")
	tree := watch.NewTree(dir)
	steps := []struct {
		name string
		do   func()
		want bool
	}{
		{"nothing", func() {}, false},
		{"a longer file", func() { write(t, filepath.Join(dir, "main.go"), "package main // more") }, true},
		{"nothing again", func() {}, false},
		{"a new file", func() { write(t, filepath.Join(dir, "b.go"), "package main") }, true},
		{"a hidden file", func() { write(t, filepath.Join(dir, ".b.go.swp"), "x") }, false},
		{"an editor's copy", func() { write(t, filepath.Join(dir, "b.go~"), "x") }, false},
		{"a built module", func() { write(t, filepath.Join(dir, "b.wasm"), "x") }, false},
		{"a file put in the place of another", func() {
			write(t, filepath.Join(dir, ".new"), "package other")
			if err := os.Rename(filepath.Join(dir, ".new"), filepath.Join(dir, "b.go")); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"a file of the same size and another time", func() {
			if err := os.Chtimes(filepath.Join(dir, "b.go"), time.Time{}, time.Unix(1, 1)); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"a package of npm", func() { write(t, filepath.Join(mkdir(t, dir, "node_modules"), "a.js"), "x") }, false},
		{"a manifest of cargo", func() { write(t, filepath.Join(dir, "Cargo.toml"), "[package]") }, true},
		{"what cargo has built", func() { write(t, filepath.Join(mkdir(t, dir, "target"), "a.o"), "x") }, false},
		{"a directory of that name elsewhere", func() { write(t, filepath.Join(mkdir(t, dir, "sub/target"), "a.go"), "x") }, true},
		{"a file less", func() { os.Remove(filepath.Join(dir, "b.go")) }, true},
		{"a file in a new directory", func() {
			write(t, filepath.Join(mkdir(t, dir, "sub"), "c.go"), "package sub")
		}, true},
	}
	for _, s := range steps {
		s.do()
		if got := tree.Changed(); got != s.want {
			t.Errorf("after %s, Changed = %v, want %v", s.name, got, s.want)
		}
	}
}

func TestNewestIsTheYoungestFile(t *testing.T) {
	dir := t.TempDir()
	for i, name := range []string{"old.c", "young.c", "younger.wasm", ".youngest"} {
		write(t, filepath.Join(dir, name), "x")
		at := time.Unix(int64(i), 0)
		if err := os.Chtimes(filepath.Join(dir, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := watch.Newest(dir); err != nil || !got.Equal(time.Unix(1, 0)) {
		t.Errorf("Newest = %v, %v, want the time of young.c", got, err)
	}
}

func mkdir(t *testing.T, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAFileThatIsGoneHasNotChanged(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.wasm")
	write(t, file, "one")
	tree := watch.NewTree(file)
	os.Remove(file)
	if tree.Changed() {
		t.Error("a file that is gone has changed")
	}
	write(t, file, "another")
	if !tree.Changed() {
		t.Error("a file that has come back with something else has not changed")
	}
}

func TestAStateTellsWhichOfItsFilesHaveChanged(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"saved.c", "gone.c", "kept.c"} {
		write(t, filepath.Join(dir, name), "x")
	}
	tree := watch.NewTree(dir)
	before, err := watch.Look(dir)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "saved.c"), "longer")
	write(t, filepath.Join(dir, "made.h"), "x")
	os.Remove(filepath.Join(dir, "gone.c"))
	after, err := watch.Look(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Join(dir, "gone.c"), filepath.Join(dir, "saved.c")}
	if got := before.ChangedIn(after); !slices.Equal(got, want) {
		t.Errorf("ChangedIn = %q, want %q", got, want)
	}
	tree.Saw(after)
	if tree.Changed() {
		t.Error("a state that was seen is a change")
	}
	write(t, filepath.Join(dir, "saved.c"), "longer still")
	if !tree.Changed() {
		t.Error("what was saved after the state is no change")
	}
}

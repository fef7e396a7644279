package gobuild_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin/internal/gobuild"
)

// sourceDir returns a directory with these files.
func sourceDir(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func needsGo(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command")
	}
}

const (
	goMod   = "module guest\n\ngo 1.24\n"
	program = "package main\n\nfunc main() {}\n"
)

func TestAModuleIsBuiltOnceForEachSource(t *testing.T) {
	needsGo(t)
	dir, cache := sourceDir(t, map[string]string{"go.mod": goMod, "main.go": program}), t.TempDir()
	finished := 0
	opts := &gobuild.Options{CacheDir: cache, Finish: func(_ context.Context, wasm []byte) ([]byte, error) {
		finished++
		return append(slices.Clone(wasm), "finished"...), nil
	}}
	build := func() []byte {
		t.Helper()
		wasm, err := gobuild.Build(t.Context(), dir, opts)
		if err != nil {
			t.Fatal(err)
		}
		return wasm
	}
	first := build()
	if !bytes.HasPrefix(first, []byte("\x00asm")) || !bytes.HasSuffix(first, []byte("finished")) {
		t.Fatalf("built %d bytes that are no finished module", len(first))
	}
	if second := build(); finished != 1 || !bytes.Equal(second, first) {
		t.Errorf("an unchanged source was finished %d times, want once, and gave %d bytes, want the same %d", finished, len(second), len(first))
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program+"\nvar _ = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if build(); finished != 2 {
		t.Errorf("a changed source was finished %d times, want twice", finished)
	}
}

func TestAnErrorOfFinishKeepsItsCodeAndNoModule(t *testing.T) {
	needsGo(t)
	dir, cache := sourceDir(t, map[string]string{"go.mod": goMod, "main.go": program}), t.TempDir()
	_, err := gobuild.Build(t.Context(), dir, &gobuild.Options{CacheDir: cache, Finish: func(context.Context, []byte) ([]byte, error) {
		return nil, fault.Errorf(fault.DataLoss, "it has no manifest")
	}})
	if fault.CodeOf(err) != fault.DataLoss || !strings.Contains(err.Error(), dir) {
		t.Errorf("Build: %v, want an error of code data_loss that names %s", err, dir)
	}
	if kept, err := os.ReadDir(cache); err != nil || len(kept) > 0 {
		t.Errorf("the cache has %v (%v), want nothing", kept, err)
	}
}

func TestACacheThatCannotBeWrittenCostsNoBuild(t *testing.T) {
	needsGo(t)
	dir := sourceDir(t, map[string]string{"go.mod": goMod, "main.go": program})
	wasm, err := gobuild.Build(t.Context(), dir, &gobuild.Options{CacheDir: filepath.Join(dir, "main.go")})
	if err != nil || len(wasm) == 0 {
		t.Errorf("Build with a file as its cache: %d bytes, %v; want a module", len(wasm), err)
	}
}

func TestErrorsSayHowToMendTheSource(t *testing.T) {
	needsGo(t)
	empty := sourceDir(t, nil)
	for _, c := range []struct {
		name, dir string
		code      fault.Code
		text      string
	}{
		{"names a missing directory", filepath.Join(empty, "absent"), fault.NotFound, "no directory"},
		{"names a file", filepath.Join(sourceDir(t, map[string]string{"a": ""}), "a"), fault.InvalidArgument, "not a directory"},
		{"sends another language to its kit", empty, fault.InvalidArgument, "build script of its kit"},
		{"sends a source without a module to a project", sourceDir(t, map[string]string{"main.go": program}), fault.InvalidArgument, "agenthost init"},
		{"shows the words of the compiler", sourceDir(t, map[string]string{"go.mod": goMod, "main.go": "package main\n\nfunc main() { nonsense() }\n"}), fault.InvalidArgument, "undefined: nonsense"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := gobuild.Build(t.Context(), c.dir, nil)
			e := fault.AsError(err)
			if e == nil || e.Code != c.code || !strings.Contains(e.Message+e.Hint, c.text) {
				t.Errorf("Build: %v (%+v), want code %s and %q", err, e, c.code, c.text)
			}
		})
	}
}

func TestABuildNeedsTheToolchain(t *testing.T) {
	dir := sourceDir(t, map[string]string{"go.mod": goMod, "main.go": program})
	t.Setenv("PATH", t.TempDir())
	if _, err := gobuild.Build(t.Context(), dir, nil); fault.CodeOf(err) != fault.FailedPrecondition {
		t.Errorf("Build without a go command: %v, want code failed_precondition", err)
	}
}

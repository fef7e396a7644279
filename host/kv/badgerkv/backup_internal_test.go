package badgerkv

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func namesIn(t *testing.T, dir string) (names []string) {
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

// A restore whose last renaming fails leaves the empty directory as it was.
func TestARenamingThatFailsLeavesTheEmptyDirectory(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "store")
	if err := os.Mkdir(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := moveIntoPlace(filepath.Join(parent, "missing"), dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("moveIntoPlace of nothing: %v", err)
	}
	after, err := os.Stat(dir)
	if err != nil || !os.SameFile(before, after) || after.Mode() != before.Mode() {
		t.Errorf("the directory is %v, %v, want the one that was there", after, err)
	}
	if got := namesIn(t, parent); !slices.Equal(got, []string{"store"}) {
		t.Errorf("beside it are %q", got)
	}
}

// The directory is moved back with the files that another program has put into it.
func TestADirectoryThatIsNotEmptyAnyMoreStays(t *testing.T) {
	parent := t.TempDir()
	dir, aside := filepath.Join(parent, "store"), filepath.Join(parent, "aside")
	for path, file := range map[string]string{dir: "letter", aside: "MANIFEST"} {
		if err := errors.Join(os.Mkdir(path, 0o700), os.WriteFile(filepath.Join(path, file), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := moveIntoPlace(aside, dir); err == nil {
		t.Error("a directory with a file was replaced")
	}
	if got, restored := namesIn(t, dir), namesIn(t, aside); !slices.Equal(got, []string{"letter"}) || !slices.Equal(restored, []string{"MANIFEST"}) {
		t.Errorf("the directory has %q, the restored one %q", got, restored)
	}
}

func TestAnEmptyOrMissingDirectoryIsReplaced(t *testing.T) {
	for _, made := range []bool{false, true} {
		parent := t.TempDir()
		dir, aside := filepath.Join(parent, "store"), filepath.Join(parent, "aside")
		if made {
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(os.Mkdir(aside, 0o700), os.WriteFile(filepath.Join(aside, "MANIFEST"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		if err := moveIntoPlace(aside, dir); err != nil {
			t.Errorf("made=%t: %v", made, err)
		}
		if got, beside := namesIn(t, dir), namesIn(t, parent); !slices.Equal(got, []string{"MANIFEST"}) || len(beside) != 1 {
			t.Errorf("made=%t: it has %q, beside %q", made, got, beside)
		}
	}
}

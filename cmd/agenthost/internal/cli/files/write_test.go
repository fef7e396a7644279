package files

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/agenthost/agenthost/host"
)

func TestStreamReplacesAFileWholeOrNotAtAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	write := func(text string, fault error) error {
		return Stream(path, func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return errors.Join(err, fault)
		})
	}
	if err := write("first", nil); err != nil {
		t.Fatal(err)
	}
	own := host.Errorf(host.NotFound, "there is no thread")
	for _, c := range []struct {
		fault error
		code  host.Code
	}{{errors.New("no room"), host.FailedPrecondition}, {own, host.NotFound}} {
		if err := write("half of the sec", c.fault); host.CodeOf(err) != c.code || !errors.Is(err, c.fault) {
			t.Errorf("Stream = %v, want code %s because of %v", err, c.code, c.fault)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != "first" {
			t.Errorf("after a fault the file has %q, %v; want the one before", b, err)
		}
	}
	if err := write("second", nil); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "second" {
		t.Errorf("the file has %q, %v", b, err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("%d files are left, %v; want one", len(left), err)
	}
	if err := Stream(filepath.Join(path, "below"), nil); host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("Stream below a file = %v, want code failed_precondition", err)
	}
}

func TestWriteModeKeepsTheMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	for _, mode := range []os.FileMode{0o600, 0o644} {
		if err := WriteMode(path, []byte("text"), mode); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("the mode is %v, %v; want %v", info.Mode(), err, mode)
		}
	}
}

package watch

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/agenthost/agenthost/host/fault"
)

// Change is a file that is new or different, or gone.
type Change struct {
	Dir     string
	Name    string // in the directory
	Removed bool

	is stamp // of the file; absent: unknown
}

// Path returns the file's path.
func (c *Change) Path() string { return filepath.Join(c.Dir, c.Name) }

// Read returns the content of the file, at most max bytes. Errors: not_found if
// the file is gone, conflict if it has changed since, which is reported when it
// has settled, invalid_argument if it is larger, failed_precondition if it
// cannot be read or leads out of the directory.
func (c *Change) Read(max int) ([]byte, error) {
	root, err := os.OpenRoot(c.Dir)
	if err != nil {
		return nil, readError(c, err)
	}
	defer root.Close()
	// A pipe may stand in the file's place by now: opening it waits for no writer.
	f, err := root.OpenFile(c.Name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, readError(c, err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, readError(c, cmp.Or(err, errNotRegular))
	}
	b, err := io.ReadAll(io.LimitReader(f, int64(max)+1))
	if err != nil {
		return nil, readError(c, err)
	}
	info, err := f.Stat() // after reading: a change before or meanwhile shows in the time
	switch {
	case err != nil:
		return nil, readError(c, err)
	case !c.is.absent() && !c.is.equal(stampOf(info)):
		return nil, fault.Errorf(fault.Conflict, "%s has changed again", c.Path()).WithHint("wait for the next change that is told")
	case len(b) > max:
		return nil, fault.Errorf(fault.InvalidArgument, "%s is more than %d bytes", c.Path(), max)
	}
	return b, nil
}

var errNotRegular = errors.New("it is not a regular file")

func readError(c *Change, err error) error {
	code := fault.FailedPrecondition
	if errors.Is(err, fs.ErrNotExist) {
		code = fault.NotFound
	}
	return fault.Errorf(code, "read %s: %w", c.Path(), err)
}

// stamp detects a change of a file; the zero stamp is no file. The file's identity
// counts, because some builds give all their files the same time.
type stamp struct {
	size int64
	time time.Time
	file fs.FileInfo
}

func stampOf(info fs.FileInfo) stamp { return stamp{info.Size(), info.ModTime(), info} }

func (s stamp) absent() bool { return s.file == nil }

func (s stamp) equal(o stamp) bool {
	if s.absent() || o.absent() {
		return s.absent() && o.absent()
	}
	return s.size == o.size && s.time.Equal(o.time) && os.SameFile(s.file, o.file)
}

package files

import (
	"errors"
	"io"
	"os"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/datadir"
)

// Read reads a file of at most max bytes.
func Read(name string, max int) ([]byte, error) {
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, host.Errorf(host.NotFound, "there is no file %s", name).WithHint("check the path")
	}
	if err != nil {
		return nil, host.Errorf(host.FailedPrecondition, "%w", err)
	}
	defer f.Close()
	return datadir.ReadBounded(f, max, name)
}

// Open opens a file to read, or stdin for "-". The function closes the file.
func Open(stdin io.Reader, file string) (io.Reader, func(), error) {
	if file == "-" {
		return stdin, func() {}, nil
	}
	in, err := os.Open(file)
	if err != nil {
		code := host.FailedPrecondition
		if errors.Is(err, os.ErrNotExist) {
			code = host.NotFound
		}
		return nil, nil, host.Errorf(code, "read %s: %w", file, err)
	}
	return in, func() { _ = in.Close() }, nil
}

package files

import (
	"errors"
	"io"
	"os"

	"github.com/agenthost/agenthost/host"
)

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

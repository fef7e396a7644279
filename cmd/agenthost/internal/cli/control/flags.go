package control

import (
	"errors"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/internal/termtext"
)

// Flags name a running host on a command line, and have --json.
type Flags struct {
	Data, Socket string
	JSON         bool
}

// AddTo adds the flags to a command.
func (f *Flags) AddTo(c *cobra.Command) {
	c.Flags().StringVar(&f.Data, "data", "", "the data directory of the running host")
	c.Flags().StringVar(&f.Socket, "socket", "", "the control socket of the running host, if it is elsewhere")
	c.Flags().BoolVar(&f.JSON, "json", false, "print JSON")
	c.MarkFlagsMutuallyExclusive("data", "socket")
}

// Ask has the host do an operation, and decodes its answer into result.
func (f *Flags) Ask(c *cobra.Command, op string, args, result any) error {
	path, err := f.Path()
	if err != nil {
		return cli.UsageError(err, c.CommandPath())
	}
	return Call(c.Context(), path, op, args, result)
}

// Path returns the control socket that the flags name.
func (f *Flags) Path() (string, error) {
	switch {
	case f.Socket != "":
		return f.Socket, nil
	case f.Data != "":
		return SocketPath(f.Data), nil
	}
	return "", errNoSocket
}

var errNoSocket = errors.New("name the running host: --data DIR, or --socket PATH")

// SocketName is the control socket in a data directory.
const SocketName = "control.sock"

// SocketPath returns where the control socket of a data directory is.
func SocketPath(data string) string { return filepath.Join(data, SocketName) }

// HostWords names a running host on a command line.
func HostWords(data, socket string) string {
	if data != "" && socket == SocketPath(data) {
		return "--data " + termtext.ShellWord(data)
	}
	return "--socket " + termtext.ShellWord(socket)
}

package control

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/internal/termtext"
)

// Flags name a running host on a command line, and have --json.
type Flags struct {
	Data   cli.DataFlag
	Socket string
	JSON   bool
}

// AddTo adds the flags to a command.
func (f *Flags) AddTo(c *cobra.Command) {
	c.Flags().Var(&f.Data, "data", cli.DataUsage("the running host's data"))
	c.Flags().StringVar(&f.Socket, "socket", "", SocketUsage("the control socket of the running host, if it is elsewhere"))
	c.Flags().BoolVar(&f.JSON, "json", false, cli.JSONUsage)
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

// Words are the flags that name the same host on another command line, after a space.
func (f *Flags) Words() string {
	if f.Socket == "" {
		return f.Data.Words()
	}
	return HostWords(&f.Data, f.Socket)
}

// completionPatience is how long a completion waits for the host.
const completionPatience = 2 * time.Second

// AskToComplete is [Flags.Ask] for a completion, which waits a moment only.
func (f *Flags) AskToComplete(c *cobra.Command, op string, args, result any) error {
	path, err := f.Path()
	if err != nil {
		return err
	}
	ctx := c.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completionPatience)
	defer cancel()
	return Call(ctx, path, op, args, result)
}

// Path returns the control socket that the flags name.
func (f *Flags) Path() (string, error) {
	switch {
	case f.Socket != "":
		return f.Socket, nil
	case f.Data.Given():
		if f.Data.LocalDir() == "" {
			return "", errNoLocalDir
		}
		return SocketPath(f.Data.LocalDir()), nil
	}
	return "", errNoSocket
}

var (
	errNoSocket   = errors.New("name the running host: --data DIR, or --socket PATH")
	errNoLocalDir = errors.New("name the running host with --socket PATH: this user has no directory of its own for the sockets of hosts with a database (set XDG_RUNTIME_DIR to one)")
)

// SocketUsage is the help of a flag --socket for a socket.
func SocketUsage(which string) string {
	return which + ": a path, or on Linux @NAME for one without a file"
}

// SocketName is the control socket in the local directory of a host's data.
const SocketName = "control.sock"

// SocketPath returns where the control socket of a host is, whose data has a local
// directory.
func SocketPath(localDir string) string { return filepath.Join(localDir, SocketName) }

// HostWords returns the flags that name a running host on a command line, after a space;
// "" if none are needed.
func HostWords(data *cli.DataFlag, socket string) string {
	if data.LocalDir() != "" && socket == SocketPath(data.LocalDir()) {
		return data.Words()
	}
	return " --socket " + termtext.ShellWord(socket)
}

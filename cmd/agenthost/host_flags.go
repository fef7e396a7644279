package main

import (
	"errors"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/control"
	"github.com/agenthost/agenthost/internal/termtext"
)

// hostFlags name a running host on a command line, and have --json.
type hostFlags struct {
	Data, Socket string
	JSON         bool
}

// addTo adds the flags to a command.
func (f *hostFlags) addTo(c *cobra.Command) {
	c.Flags().StringVar(&f.Data, "data", "", "the data directory of the running host")
	c.Flags().StringVar(&f.Socket, "socket", "", "the control socket of the running host, if it is elsewhere")
	c.Flags().BoolVar(&f.JSON, "json", false, "print JSON")
	c.MarkFlagsMutuallyExclusive("data", "socket")
}

// ask asks the host for something.
func (f *hostFlags) ask(c *cobra.Command, op string, args, result any) error {
	path, err := f.path()
	if err != nil {
		return usageError(err, c.CommandPath())
	}
	return control.Call(c.Context(), path, op, args, result)
}

// path returns the control socket that the flags name.
func (f *hostFlags) path() (string, error) {
	switch {
	case f.Socket != "":
		return f.Socket, nil
	case f.Data != "":
		return socketPath(f.Data), nil
	}
	return "", errNoSocket
}

var errNoSocket = errors.New("name the running host: --data DIR, or --socket PATH")

// socketName is the control socket in a data directory.
const socketName = "control.sock"

// socketPath returns where the control socket of a data directory is.
func socketPath(data string) string { return filepath.Join(data, socketName) }

// hostWords name a running host on a command line.
func hostWords(data, socket string) string {
	if data != "" && socket == socketPath(data) {
		return "--data " + termtext.ShellWord(data)
	}
	return "--socket " + termtext.ShellWord(socket)
}

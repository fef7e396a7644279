package main

import (
	"errors"
	"os"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/trace"
	"github.com/agenthost/agenthost/internal/termtext"
)

// dataOpener has the options of data directories that commands open.
type dataOpener struct {
	term   *ui.Terminal
	getenv func(string) string
}

func newDataOpener(t *ui.Terminal, getenv func(string) string) *dataOpener {
	return &dataOpener{t, getenv}
}

// options are those of every data directory that a command opens.
func (d *dataOpener) options() *datadir.Options {
	return &datadir.Options{Getenv: d.getenv, Logger: d.term.Logger()}
}

// quietOptions are options without warnings.
func (d *dataOpener) quietOptions() *datadir.Options {
	return &datadir.Options{Getenv: d.getenv, Logger: d.term.QuietLogger()}
}

// key returns the key that is set for data directories, nil if none is.
func (d *dataOpener) key() ([]byte, error) { return datadir.Key(d.getenv) }

// keys returns the keys of the tenants of a data directory, which decrypt its traces.
func (d *dataOpener) keys(dir string) (trace.Keys, error) { return datadir.Keys(dir, d.getenv) }

// noteCopy says that a command reads a copy of a directory.
func (d *dataOpener) noteCopy(dir string) func(int64) {
	return func(size int64) {
		d.term.Note("%s can only be read: this reads a copy of %s", dir, ui.ShortBytes(size))
	}
}

// checkData refuses a data directory that does not exist, which opening would make.
func checkData(dir, command string) error {
	if dir == "" {
		return usageError(errors.New("--data is required: the directory that keeps the threads"), command)
	}
	if _, err := os.Stat(datadir.StorePath(dir)); err != nil {
		return host.Errorf(host.NotFound, "there are no threads in %s: %w", dir, err).
			WithHint("a data directory is made by: agenthost run PROJECT --data %s", termtext.ShellWord(dir))
	}
	return nil
}

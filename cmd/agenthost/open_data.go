package main

import (
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host/datadir"
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

// noteCopy says that a command reads a copy of a directory.
func (d *dataOpener) noteCopy(dir string) func(int64) {
	return func(size int64) {
		d.term.Note("%s can only be read: this reads a copy of %s", dir, ui.ShortBytes(size))
	}
}

package main

import (
	"github.com/agenthost/agenthost/host/datadir"
)

// dataOpener has the options of data directories that commands open.
type dataOpener struct {
	term   *terminal
	getenv func(string) string
}

func newDataOpener(t *terminal, getenv func(string) string) *dataOpener {
	return &dataOpener{t, getenv}
}

// options are those of every data directory that a command opens.
func (d *dataOpener) options() *datadir.Options {
	return &datadir.Options{Getenv: d.getenv, Logger: d.term.logger()}
}

// quietOptions are options without warnings.
func (d *dataOpener) quietOptions() *datadir.Options {
	return &datadir.Options{Getenv: d.getenv, Logger: d.term.quietLogger()}
}

// noteCopy says that a command reads a copy of a directory.
func (d *dataOpener) noteCopy(dir string) func(int64) {
	return func(size int64) {
		d.term.note("%s can only be read: this reads a copy of %s", dir, shortBytes(size))
	}
}

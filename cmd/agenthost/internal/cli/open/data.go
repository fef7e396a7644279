package open

import (
	"errors"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/trace"
	"github.com/agenthost/agenthost/internal/termtext"
)

// Data has the options of data directories that commands open.
type Data struct {
	term     *ui.Terminal
	getenv   func(string) string
	waitLock time.Duration // set by the flag of AddWaitLock
}

// NewData returns an opener that warns on t and reads keys by getenv.
func NewData(t *ui.Terminal, getenv func(string) string) *Data {
	return &Data{term: t, getenv: getenv}
}

// AddWaitLock adds the flag --wait-lock, whose value [Data.Options] has.
func (d *Data) AddWaitLock(flags *pflag.FlagSet) { addWaitLock(flags, &d.waitLock) }

// Options are those of every data directory that a command opens.
func (d *Data) Options() *datadir.Options {
	return &datadir.Options{Getenv: d.getenv, Logger: d.term.Logger(), WaitLock: d.waitLock}
}

// QuietOptions are options without warnings.
func (d *Data) QuietOptions() *datadir.Options {
	return &datadir.Options{Getenv: d.getenv, Logger: d.term.QuietLogger()}
}

// Key returns the key that is set for data directories, nil if none is.
func (d *Data) Key() ([]byte, error) { return datadir.Key(d.getenv) }

// Keys returns the keys of the tenants of a data directory, which decrypt its traces.
func (d *Data) Keys(dir string) (trace.Keys, error) { return datadir.Keys(dir, d.getenv) }

// NoteCopy says that a command reads a copy of a directory.
func (d *Data) NoteCopy(dir string) func(int64) {
	return func(size int64) {
		d.term.Note("%s can only be read: this reads a copy of %s", dir, ui.ShortBytes(size))
	}
}

// CheckData refuses a data directory that does not exist, which opening would make.
func CheckData(dir, command string) error {
	if dir == "" {
		return cli.UsageError(errors.New("--data is required: the directory that keeps the threads"), command)
	}
	if _, err := os.Stat(datadir.StorePath(dir)); err != nil {
		return host.Errorf(host.NotFound, "there are no threads in %s: %w", dir, err).
			WithHint("a data directory is made by: agenthost run PROJECT --data %s", termtext.ShellWord(dir))
	}
	return nil
}

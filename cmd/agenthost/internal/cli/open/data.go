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

// CheckData refuses a command line without data, and a data directory that does not exist,
// which opening would make.
func CheckData(data *cli.DataFlag, command string) error {
	if !data.Given() {
		return cli.UsageError(errors.New("--data is required: a directory, or the address of a database"), command)
	}
	if dir := data.At().Dir(); dir != "" {
		return checkDir(dir)
	}
	return nil // opening a database says what is missing
}

// CheckDir refuses a data directory that does not exist, which opening would make.
func (d *Data) CheckDir(dir string) error { return checkDir(dir) }

// Resolve reads an address as --data does.
func (d *Data) Resolve(text string) (datadir.Address, error) {
	return datadir.ResolveAddress(text, d.getenv)
}

func checkDir(dir string) error {
	if _, err := os.Stat(datadir.StorePath(dir)); err != nil {
		return host.Errorf(host.NotFound, "there is no data in %s: %w", dir, err).
			WithHint("a data directory is made by: agenthost run PROJECT --data %s", termtext.ShellWord(dir))
	}
	return nil
}

// CheckDirectory is [CheckData] for a command that works on the files of a directory. For
// a database its error has the code unimplemented and instead as the next step.
func CheckDirectory(data *cli.DataFlag, command, instead string) error {
	if data.At().IsDatabase() {
		return host.Errorf(host.Unimplemented, "%s works on the files of a data directory, and %s is a database", command, data.At()).WithHint("%s", instead)
	}
	return CheckData(data, command)
}

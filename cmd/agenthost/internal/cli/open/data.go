package open

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"
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

// AddFlags adds the flags of a group of commands on stored data: --data, of what they read,
// --json and --wait-lock.
func (d *Data) AddFlags(group *cobra.Command, flags *cli.StoredFlags, of string) {
	flags.AddTo(group, of)
	d.AddWaitLock(group.PersistentFlags())
}

// With opens the data of a group of commands, which must exist, and closes it after fn.
func (d *Data) With(ctx context.Context, data *cli.DataFlag, group string, fn func(*datadir.Dir) error) (err error) {
	if err := CheckData(data, group); err != nil {
		return err
	}
	dir, err := datadir.OpenShared(ctx, data.Text(), d.Options())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	return fn(dir)
}

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

// ResolveFlag reads the address of a flag for a completion, before which nothing else does.
func (d *Data) ResolveFlag(data *cli.DataFlag) error { return data.Resolve(d.getenv) }

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

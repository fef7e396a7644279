package datadir

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/kv/kvcopy"
	"github.com/agenthost/agenthost/host/kv/pgkv"
	"github.com/agenthost/agenthost/host/kv/sockkv"
	"github.com/agenthost/agenthost/internal/termtext"
)

// The names in a data directory.
const (
	StoreName  = "db"        // the store, which needs its own directory
	TracesName = "traces"    // the traces of runs
	SocketName = "data.sock" // the socket that other processes use the store through
)

// Options configure the opening of a data directory. A nil *Options means the defaults.
type Options struct {
	// Getenv looks up the variables that hold the key: see [Key]. Default: os.Getenv.
	Getenv func(string) string
	// Logger receives the store's messages. Default: nothing is logged.
	Logger *slog.Logger
	// Verify reads every file of a directory's store before it is used; a database is not
	// read.
	Verify bool
	// WaitLock is how long to wait for another process that has the directory open and
	// does not share it: see [WaitLock]. Default: no wait.
	WaitLock time.Duration
	// Unfinished opens also data into which a copy has begun and not ended, for the copy.
	Unfinished bool
	// MaxCopyBytes is the largest store that [OpenToRead] and [OpenCopy] copy.
	// Default: [DefaultMaxCopyBytes].
	MaxCopyBytes int64
}

// DefaultMaxCopyBytes is the default of Options.MaxCopyBytes.
const DefaultMaxCopyBytes = 16 << 30

func (o *Options) filled() Options {
	var out Options
	if o != nil {
		out = *o
	}
	if out.Getenv == nil {
		out.Getenv = os.Getenv
	}
	if out.MaxCopyBytes < 1 {
		out.MaxCopyBytes = DefaultMaxCopyBytes
	}
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	return out
}

// Dir is open data: a data directory, a database, or memory in place of them. Its Driver
// is the store of all tenants' data. It is safe for concurrent use.
type Dir struct {
	kv.Driver
	at     Address
	db     *badgerkv.Store // nil in memory, in a database, and if another process has the directory open
	pg     *pgkv.Store     // nil unless the data is in a database
	shared *sockkv.Shared  // is the driver, if db is not nil
	remove func() error    // removes the directory if it is a copy; nil otherwise
	getenv func(string) string
}

// Open opens the data at an address, see [ParseAddress], and makes the missing parts of a
// directory or of a database's tables. If another process has the directory open for
// longer than Options.WaitLock, the error wraps [kv.ErrLocked]; other errors have code
// invalid_argument, failed_precondition, resource_exhausted, unavailable,
// permission_denied or data_loss, or are those of a context that ends during the wait.
// Any number of processes may open a database.
func Open(ctx context.Context, address string, options *Options) (d *Dir, err error) {
	at, err := ParseAddress(address)
	if err != nil {
		return nil, err
	}
	if at.IsDatabase() {
		return openDatabase(ctx, at, options.filled())
	}
	err = WaitLock(ctx, options, func() (err error) {
		d, err = openNow(at.Dir(), options)
		return err
	})
	return d, err
}

// openNow opens a data directory, or memory, without waiting for its lock.
func openNow(dir string, options *Options) (*Dir, error) {
	opts := options.filled()
	if dir == "" {
		return &Dir{Driver: kv.NewMemory(), getenv: opts.Getenv}, nil
	}
	if err := checkMode(dir); err != nil {
		return nil, err
	}
	key, err := Key(opts.Getenv)
	if err != nil {
		return nil, err
	}
	db, err := badgerkv.Open(filepath.Join(dir, StoreName), &badgerkv.Options{Logger: opts.Logger, Verify: opts.Verify, Key: key})
	if err != nil {
		return nil, Error(dir, err)
	}
	if err := checkFinished(dir, db, opts); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	shared := sockkv.Share(kv.Group(db))
	return &Dir{Driver: shared, at: Address{dir: dir}, db: db, shared: shared, getenv: opts.Getenv}, nil
}

// OpenShared opens data like [Open] or, if another process has the directory open and
// shares it, uses it through that process. It waits only for a process that does not
// share the directory.
func OpenShared(ctx context.Context, address string, options *Options) (d *Dir, err error) {
	at, err := ParseAddress(address)
	if err != nil {
		return nil, err
	}
	if at.IsDatabase() {
		return openDatabase(ctx, at, options.filled())
	}
	dir := at.Dir()
	err = WaitLock(ctx, options, func() (err error) {
		d, err = openSharedNow(ctx, dir, options)
		return err
	})
	return d, err
}

// openSharedNow is OpenShared without the wait.
func openSharedNow(ctx context.Context, dir string, options *Options) (*Dir, error) {
	d, err := openNow(dir, options)
	if !errors.Is(err, kv.ErrLocked) {
		return d, err
	}
	client, dialErr := sockkv.Dial(ctx, "unix", SocketPath(dir))
	if dialErr != nil {
		return nil, err
	}
	return &Dir{Driver: client, at: Address{dir: dir}, getenv: options.filled().Getenv}, nil
}

// Close closes the store, and removes the copy if the directory is one.
func (d *Dir) Close() error {
	err := d.Driver.Close()
	if d.remove != nil {
		err = errors.Join(err, d.remove())
	}
	return err
}

// Address returns where the data is.
func (d *Dir) Address() Address { return d.at }

// KeepsHouse reports whether this process can list the tenants of the data and delete
// them: it has the directory open, or the data is in a database.
func (d *Dir) KeepsHouse() bool { return d.db != nil || d.pg != nil }

// Badger returns the store on disk. It is nil in memory, in a database, and when the
// directory is used through another process.
func (d *Dir) Badger() *badgerkv.Store { return d.db }

// Serve lets other processes of this user use the store over a listener until the
// directory is closed. It reports whether the directory has a store to share: memory, a
// database, and a directory that is used through another process, are not shared.
func (d *Dir) Serve(listen func() (net.Listener, error)) (bool, error) {
	if d.shared == nil {
		return false, nil
	}
	l, err := listen()
	if err != nil {
		return false, err
	}
	d.shared.Serve(l)
	return true, nil
}

// checkFinished refuses a store into which a copy has begun and not ended.
func checkFinished(name string, d kv.Driver, opts Options) error {
	if opts.Unfinished {
		return nil
	}
	source, unfinished, err := kvcopy.Unfinished(context.Background(), d)
	if err != nil || !unfinished {
		return err
	}
	return host.Errorf(host.FailedPrecondition, "a copy of %s into %s has not ended", source, name).
		WithHint("end it: agenthost data copy %s %s", termtext.ShellWord(source), termtext.ShellWord(name))
}

// Partitions yields the partitions that have data, those of the host's own among them, for
// package kvcopy. The error has code failed_precondition unless [Dir.KeepsHouse].
func (d *Dir) Partitions(ctx context.Context) iter.Seq2[string, error] {
	switch {
	case d.db != nil:
		return d.db.Partitions(ctx)
	case d.pg != nil:
		return d.pg.Partitions(ctx)
	}
	return func(yield func(string, error) bool) { yield("", errUsedElsewhere()) }
}

// Tenants yields the tenants that have data. It skips partitions whose names no tenant
// can have: they are the host's own. The error has code failed_precondition unless
// [Dir.KeepsHouse].
func (d *Dir) Tenants(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for name, err := range d.Partitions(ctx) {
			if err == nil && host.ValidateTenant(name) != nil {
				continue
			}
			if !yield(name, err) {
				return
			}
		}
	}
}

// StorePath returns the path of a data directory's store.
func StorePath(dir string) string { return filepath.Join(dir, StoreName) }

// SocketPath returns the path of the socket that shares a data directory's store.
func SocketPath(dir string) string { return filepath.Join(dir, SocketName) }

// checkMode refuses a data directory that other users may write: they could replace the
// store and so control the content of every conversation. Windows has no such mode bits.
func checkMode(dir string) error {
	info, err := os.Stat(dir)
	if err != nil || runtime.GOOS == "windows" || info.Mode().Perm()&0o022 == 0 {
		return nil // a directory that does not exist is made with mode 0700
	}
	return host.Errorf(host.FailedPrecondition, "other users can write to the data directory %s (mode %04o)", dir, info.Mode().Perm()).
		WithHint("run: chmod go-w %s", termtext.ShellWord(dir))
}

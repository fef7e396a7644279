package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/control"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/kv/sockkv"
	"github.com/agenthost/agenthost/host/threads"
)

// store is the driver of a data directory.
type store struct {
	kv.Driver
	db     *badgerkv.Store // nil in memory, and if another process has it
	shared *sockkv.Shared  // is the driver, if db is not nil
	remove func() error    // the copy that this is, when it is closed; nil if it is none
}

// Close closes the driver.
func (s *store) Close() error {
	err := s.Driver.Close()
	if s.remove != nil {
		err = errors.Join(err, s.remove())
	}
	return err
}

// openStore opens the store of a data directory, or memory for "".
func (env *environment) openStore(dir string, logger *slog.Logger) (*store, error) {
	return env.openWith(dir, &badgerkv.Options{Logger: logger})
}

// openVerified is openStore for a store of which every file is read first.
func (env *environment) openVerified(dir string, logger *slog.Logger) (*store, error) {
	return env.openWith(dir, &badgerkv.Options{Logger: logger, Verify: true})
}

func (env *environment) openWith(dir string, opts *badgerkv.Options) (_ *store, err error) {
	if dir == "" {
		return &store{Driver: kv.NewMemory()}, nil
	}
	if err := checkDataDir(dir); err != nil {
		return nil, err
	}
	if opts.Key, err = env.dataKey(); err != nil {
		return nil, err
	}
	db, err := badgerkv.Open(filepath.Join(dir, storeName), opts)
	if err != nil {
		return nil, dataError(dir, err)
	}
	shared := sockkv.Share(kv.Group(db))
	return &store{Driver: shared, db: db, shared: shared}, nil
}

// checkDataDir refuses a data directory that others may write: who can put another
// store into it decides what every conversation says. Windows has no such bits.
func checkDataDir(dir string) error {
	info, err := os.Stat(dir)
	if err != nil || runtime.GOOS == "windows" || info.Mode().Perm()&0o022 == 0 {
		return nil // one that is not there is made, with mode 0700
	}
	return host.Errorf(host.FailedPrecondition, "other users can write to the data directory %s (mode %04o)", dir, info.Mode().Perm()).
		WithHint("run: chmod go-w %s", quoted(dir))
}

// openAny opens the store of a data directory, or uses it through the host that
// has it open, if that is one that can be steered.
func (env *environment) openAny(ctx context.Context, dir string, logger *slog.Logger) (*store, error) {
	s, err := env.openStore(dir, logger)
	return orShared(ctx, s, err, dir)
}

// orShared returns a store that was opened, or the one that the process shares
// which has it open.
func orShared(ctx context.Context, s *store, err error, dir string) (*store, error) {
	if !errors.Is(err, kv.ErrLocked) {
		return s, err
	}
	client, dialErr := sockkv.Dial(ctx, "unix", dataSocketPath(dir))
	if dialErr != nil {
		return nil, err
	}
	return &store{Driver: client}, nil
}

// verifyOp asks a host for what [dataVerify] does.
const verifyOp = "data.verify"

// backupOp asks a host for what [dataBackup] does.
const backupOp = "data.backup"

// dataSocketName is the socket in a data directory that other processes use the
// store through.
const dataSocketName = "data.sock"

func dataSocketPath(dir string) string { return filepath.Join(dir, dataSocketName) }

// share has other processes of this user use the store for as long as it is open.
func (s *store) share(dir string) (stop func() error, err error) {
	path := dataSocketPath(dir)
	l, err := control.ListenSocket(path)
	if err != nil {
		return nil, err
	}
	s.shared.Serve(l)
	return func() error {
		err := os.Remove(path)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}, nil
}

// checkData refuses a data directory that does not exist, which opening would make.
func checkData(dir, command string) error {
	if dir == "" {
		return usageError{errors.New("--data is required: the directory that keeps the threads"), command}
	}
	if _, err := os.Stat(filepath.Join(dir, storeName)); err != nil {
		return host.Errorf(host.NotFound, "there are no threads in %s: %w", dir, err).
			WithHint("a data directory is made by: agenthost run PROJECT --data %s", quoted(dir))
	}
	return nil
}

type dataFlags struct {
	data, socket, keyFile, dataKeys string
	json                            bool
}

func dataCommand(env *environment) *cobra.Command {
	var f dataFlags
	c := &cobra.Command{
		Use:   "data",
		Short: "Back up, restore, check, encrypt and erase what is kept",
		Long: `Back up, restore and check a data directory: the threads and all else that is
kept of every tenant.

With ` + keyFileVariable + ` or ` + keyVariable + ` set to a key when a
directory is made, it is encrypted, and needs that key from then on:

  openssl rand -hex 32 > data.key
  export ` + keyFileVariable + `=$PWD/data.key

To encrypt a directory that is not, restore a backup of it with the key set.`,
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.PersistentFlags().StringVar(&f.data, "data", "", "the data directory (required)")
	c.PersistentFlags().BoolVar(&f.json, "json", false, "print JSON")
	c.AddCommand(dataBackup(env, &f), dataRestore(env, &f), dataVerify(env, &f), dataRekey(env, &f),
		dataErase(env, &f), dataProve(env, &f), dataPurge(env, &f))
	return c
}

func (f *dataFlags) addSocket(c *cobra.Command) {
	c.Flags().StringVar(&f.socket, "socket", "", "the control socket of the host that has it open (default: "+socketName+" in --data)")
}

// withData calls direct with the store if nobody else has it open, and otherwise
// asks the host that has.
func withData(ctx context.Context, env *environment, f *dataFlags, op string, args, result any, direct func(*store) error) (err error) {
	opts := &badgerkv.Options{Logger: env.logger(), Verify: op == verifyOp}
	s, err := env.openWith(f.data, opts)
	if errors.Is(err, kv.ErrReadOnly) && (op == verifyOp || op == backupOp) {
		s, err = env.openCopy(ctx, f.data, opts)
	}
	if errors.Is(err, kv.ErrLocked) {
		return askHost(ctx, f, err, op, args, result)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return direct(s)
}

func askHost(ctx context.Context, f *dataFlags, locked error, op string, args, result any) error {
	err := control.Call(ctx, cmp.Or(f.socket, socketPath(f.data)), op, args, result)
	if err != nil && control.Unreachable(err) {
		return locked // by a process that cannot be asked
	}
	return err
}

// backupResult is what data backup prints.
type backupResult struct {
	File string `json:"file"`
	badgerkv.BackupInfo
}

// backupArgs ask a host for a backup.
type backupArgs struct {
	Path string `json:"path"`
}

func dataBackup(env *environment, f *dataFlags) *cobra.Command {
	c := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write all data to a file, also while a host serves",
		Long: `Write all data to a file, as it is at one moment. A host that has the directory open
writes it for this command, and serves on. The file is there whole or not at all. If
the directory is encrypted, so is the file, with the same key, and each tenant's data in
it with the tenant's data key, which is not in it: restoring takes the key file of the
directory, DIR/` + storeName + `/` + badgerkv.KeyFile + `, or a copy that is not older than the backup. What a tenant had that was
deleted since cannot be restored with it.`,
		Example: "  agenthost data backup monday.backup --data ./data",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			if err := checkData(f.data, "agenthost data backup"); err != nil {
				return err
			}
			path, err := filepath.Abs(list[0])
			if err != nil {
				return host.Errorf(host.FailedPrecondition, "write %s: %w", list[0], err)
			}
			var info *badgerkv.BackupInfo
			err = withData(c.Context(), env, f, backupOp, backupArgs{path}, &info, func(s *store) (err error) {
				show := newProgress(env)
				defer show.end()
				info, err = s.backup(c.Context(), path, show.entries)
				return err
			})
			if err != nil {
				return err
			}
			if f.json {
				return printJSON(env.stdout, backupResult{list[0], *info})
			}
			fmt.Fprintf(env.stdout, "Wrote %s in %s to %s%s.\n", byteWords(info.Bytes), entryWords(info.Entries), list[0], sealedWords(info))
			fmt.Fprintf(env.stdout, "Check it with: agenthost data verify --backup %s\n", quoted(list[0]))
			if info.Encrypted {
				fmt.Fprintf(env.stdout, "Restoring it takes the key file %s too, which is not in it: keep a copy elsewhere.\n", quoted(keyFilePath(f.data)))
			}
			return nil
		},
	}
	f.addSocket(c)
	return c
}

func sealedWords(info *badgerkv.BackupInfo) string {
	if info.Encrypted {
		return ", encrypted"
	}
	return ""
}

// entries shows how far a backup or restore is.
func (p *progress) entries(_ int, bytes int64) { p.say("%s", byteWords(bytes)) }

// backup writes a backup to a file.
func (s *store) backup(ctx context.Context, path string, tell badgerkv.Progress) (info *badgerkv.BackupInfo, err error) {
	err = streamFile(path, func(w io.Writer) (err error) {
		info, err = s.db.Backup(ctx, w, tell)
		return err
	})
	return info, err
}

func dataRestore(env *environment, f *dataFlags) *cobra.Command {
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make a data directory out of a backup",
		Long: `Make a data directory out of a backup. The directory must have no data. It gets the
key that is set, or none; the backup is read with that key, too, or that in
--backup-key-file. A backup of an encrypted directory is restored with the key file of
that directory, or a copy of it (--key-file); for any other, naming it leaves out the
tenants that were deleted since.`,
		Example: "  agenthost data restore monday.backup --data ./restored --key-file ./data/" + storeName + "/" + badgerkv.KeyFile,
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			if f.data == "" {
				return usageError{errors.New("--data is required: the directory to make"), "agenthost data restore"}
			}
			info, err := restoreFile(c.Context(), env, f, list[0])
			if err != nil {
				return err
			}
			if f.json {
				return printJSON(env.stdout, backupResult{list[0], *info})
			}
			fmt.Fprintf(env.stdout, "Restored %s in %s to %s, as of %s.\n", byteWords(info.Bytes), entryWords(info.Entries), f.data, info.Created.Local().Format("2006-01-02 15:04:05"))
			if info.Erased > 0 {
				fmt.Fprintf(env.stdout, "Left out %s of tenants that were deleted since.\n", entryWords(info.Erased))
			}
			return nil
		},
	}
	f.addBackupKey(c)
	c.Flags().StringVar(&f.dataKeys, "key-file", "", "the key file of the directory that the backup is of (DIR/"+storeName+"/"+badgerkv.KeyFile+"), or a copy")
	return c
}

// keyFilePath is the file with a data directory's data keys.
func keyFilePath(dir string) string { return filepath.Join(dir, storeName, badgerkv.KeyFile) }

func (f *dataFlags) addBackupKey(c *cobra.Command) {
	c.Flags().StringVar(&f.keyFile, "backup-key-file", "", "a file with the key of the backup, if it is another")
}

// backupKey is the key in --backup-key-file; nil if there is none.
func (f *dataFlags) backupKey() ([]byte, error) {
	if f.keyFile == "" {
		return nil, nil
	}
	return readKey(f.keyFile)
}

func restoreFile(ctx context.Context, env *environment, f *dataFlags, file string) (*badgerkv.BackupInfo, error) {
	opts := &badgerkv.RestoreOptions{}
	var err error
	if opts.Store.Key, err = env.dataKey(); err != nil {
		return nil, err
	}
	if opts.BackupKey, err = f.backupKey(); err != nil {
		return nil, err
	}
	in, closeIn, err := openInput(env, file)
	if err != nil {
		return nil, err
	}
	defer closeIn()
	show := newProgress(env)
	defer show.end()
	opts.Progress = show.entries
	opts.Store.Logger = env.logger()
	opts.KeyFile = f.dataKeys
	info, err := badgerkv.Restore(ctx, filepath.Join(f.data, storeName), in, opts)
	if errors.Is(err, kv.ErrInvalid) {
		return nil, host.Errorf(host.FailedPrecondition, "data directory %s has data", f.data).
			WithHint("restore into a new directory; nothing was changed in this one")
	}
	return info, backupError(file, err)
}

// backupError says what to do about a backup that cannot be read.
func backupError(file string, err error) error {
	if err == nil {
		return nil
	}
	e := host.AsError(dataError("", err))
	e.Message = "backup " + file + ": " + err.Error()
	switch {
	case errors.Is(err, kv.ErrKey) && strings.Contains(err.Error(), "key file"):
		e.Hint = "name the key file of the directory it is from with --key-file; it is " + badgerkv.KeyFile + " in DIR/" + storeName
	case errors.Is(err, kv.ErrKey):
		e.Hint = "set " + keyFileVariable + ", or name the key's file with --backup-key-file"
	case errors.Is(err, kv.ErrCorrupt):
		e.Hint = "use another backup"
	case errors.Is(err, kv.ErrFormat):
		e.Hint = "name a file that agenthost data backup has written"
	case host.CodeOf(err) == host.Canceled:
		return err
	}
	return e
}

func dataRekey(env *environment, f *dataFlags) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "rekey",
		Short: "Give an encrypted data directory another key",
		Long: `Give an encrypted data directory another key: from the one that is set to the one in
--new-key-file. It is done at once, whole or not at all, and no host may have the
directory open. Every tenant gets a new data key as well, for what is written from then
on. Backups keep the key that they were made with.`,
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := checkData(f.data, "agenthost data rekey"); err != nil {
				return err
			}
			if file == "" {
				return usageError{errors.New("--new-key-file is required: the file with the new key"), "agenthost data rekey"}
			}
			old, err := env.dataKey()
			if err != nil {
				return err
			}
			key, err := readKey(file)
			if err != nil {
				return err
			}
			if old == nil {
				return host.Errorf(host.InvalidArgument, "data directory %s: no key is set", f.data).
					WithHint("set %s; to encrypt a directory that is not, restore a backup of it with the key set", keyFileVariable)
			}
			if err := badgerkv.Rekey(filepath.Join(f.data, storeName), old, key); err != nil {
				return dataError(f.data, err)
			}
			fmt.Fprintf(env.stdout, "%s has the new key. Set %s=%s from now on.\n", f.data, keyFileVariable, quoted(file))
			return nil
		},
	}
	c.Flags().StringVar(&file, "new-key-file", "", "a file with the new key")
	return c
}

// verified is what data verify finds.
type verified struct {
	Tenants  int       `json:"tenants"`
	Threads  int       `json:"threads"`
	Messages int       `json:"messages"`
	Turns    int       `json:"turns"`
	Blobs    int       `json:"blobs"`
	Bytes    int64     `json:"bytes"`
	Damaged  []damaged `json:"damaged"`
	// More says that there is more damage than is listed.
	More bool `json:"more,omitempty"`
}

// damaged is something that is not what was stored; without a thread it is the
// files.
type damaged struct {
	Tenant string      `json:"tenant,omitempty"`
	Thread string      `json:"thread,omitempty"`
	Error  *host.Error `json:"error"`
}

// maxDamaged bounds the list of what is damaged.
const maxDamaged = 100

func (v *verified) add(tenant, thread string, err error) {
	if len(v.Damaged) == maxDamaged {
		v.More = true
		return
	}
	v.Damaged = append(v.Damaged, damaged{tenant, thread, host.AsError(err)})
}

func dataVerify(env *environment, f *dataFlags) *cobra.Command {
	var backup string
	c := &cobra.Command{
		Use:   "verify",
		Short: "Check that everything is what was stored",
		Long: `Check that everything is what was stored: the checksums of the files, the digest of
every entry, and of every tenant's threads each message, turn, state and artifact. A host that has the directory
open does it for this command, and serves on. With --backup it reads a backup instead.`,
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if backup != "" {
				return verifyBackup(c.Context(), env, f, backup)
			}
			if err := checkData(f.data, "agenthost data verify"); err != nil {
				return err
			}
			out := &verified{}
			err := withData(c.Context(), env, f, verifyOp, nil, out, func(s *store) (err error) {
				show := newProgress(env)
				defer show.end()
				out, err = s.verify(c.Context(), func(n int) { show.say("%s", plural(n, "thread")) })
				return err
			})
			if err != nil {
				return err
			}
			return printVerified(env, f, out)
		},
	}
	f.addSocket(c)
	f.addBackupKey(c)
	c.Flags().StringVar(&backup, "backup", "", "check this backup")
	return c
}

// verify reads all that the store holds.
func (s *store) verify(ctx context.Context, tell func(threads int)) (*verified, error) {
	out := &verified{Damaged: []damaged{}}
	if err := s.db.Verify(); errors.Is(err, kv.ErrCorrupt) {
		out.add("", "", host.Errorf(host.DataLoss, "a table cannot be read: %w", err).WithHint("restore it from a backup"))
	} else if err != nil {
		return nil, err
	}
	if err := s.verifyDigests(ctx, out); err != nil {
		return nil, err
	}
	for tenant, err := range s.tenantNames(ctx) {
		if err != nil {
			return nil, err
		}
		before := out.Threads
		if err := s.verifyTenant(ctx, tenant, out, tell); err != nil {
			return nil, err
		}
		if out.Threads > before { // or it is no tenant, but what the queue knows of all
			out.Tenants++
		}
	}
	return out, nil
}

func (s *store) verifyTenant(ctx context.Context, tenant string, out *verified, tell func(int)) error {
	all := threads.New(s.Driver, nil)
	opts := &threads.ListOptions{Limit: threads.MaxListLimit}
	for {
		page, err := all.For(tenant).List(ctx, opts)
		if ctx.Err() != nil {
			return err
		}
		if err != nil {
			out.add(tenant, "", err)
			return nil
		}
		for _, t := range page.Threads {
			v, err := all.For(tenant).Verify(ctx, t.ID)
			switch {
			case ctx.Err() != nil:
				return err
			case host.CodeOf(err) == host.NotFound:
				continue // deleted since
			case err != nil:
				out.add(tenant, t.ID, err)
			}
			out.Threads++
			if v != nil {
				out.Messages, out.Turns = out.Messages+v.Messages, out.Turns+v.Turns
				out.Blobs, out.Bytes = out.Blobs+v.Blobs, out.Bytes+v.Bytes
			}
			tell(out.Threads)
		}
		if opts.Cursor = page.Next; page.Next == "" {
			return nil
		}
	}
}

// printVerified shows what was found, and ends with the exit code of lost data if
// that is anything.
func printVerified(env *environment, f *dataFlags, v *verified) error {
	if f.json {
		if err := printJSON(env.stdout, v); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(env.stdout, "Read %s of %s: %s, %s, %s with %s.\n", plural(v.Threads, "thread"), plural(v.Tenants, "tenant"),
			plural(v.Messages, "message"), plural(v.Turns, "turn"), plural(v.Blobs, "digest"), byteWords(v.Bytes))
		for _, d := range v.Damaged {
			fmt.Fprintf(env.stdout, "  %s\n", oneLine(fmt.Sprintf("%s %s: %s", d.Tenant, d.Thread, d.Error.Message)))
		}
	}
	if len(v.Damaged) == 0 {
		if !f.json {
			fmt.Fprintln(env.stdout, "All of it is what was stored.")
		}
		return nil
	}
	if f.json {
		return quietExit(host.DataLoss.ExitCode())
	}
	return host.Errorf(host.DataLoss, "%s damaged", plural(len(v.Damaged), "thing")).WithHint("restore a backup into a new directory: agenthost data restore FILE --data DIR")
}

func verifyBackup(ctx context.Context, env *environment, f *dataFlags, file string) error {
	key, err := f.backupKey()
	if err == nil && key == nil {
		key, err = env.dataKey()
	}
	if err != nil {
		return err
	}
	in, closeIn, err := openInput(env, file)
	if err != nil {
		return err
	}
	defer closeIn()
	show := newProgress(env)
	info, err := badgerkv.VerifyBackup(ctx, in, key, show.entries)
	show.end()
	if err != nil {
		return backupError(file, err)
	}
	if f.json {
		return printJSON(env.stdout, backupResult{file, *info})
	}
	fmt.Fprintf(env.stdout, "%s is whole: %s in %s, of %s%s.\n", file, byteWords(info.Bytes), entryWords(info.Entries), info.Created.Local().Format("2006-01-02 15:04:05"), sealedWords(info))
	return nil
}

func entryWords(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%s entries", thousands(int64(n)))
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/control"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/internal/termtext"
)

// verifyOp asks a host to do the work of [dataVerify].
const verifyOp = "data.verify"

// backupOp asks a host to do the work of [dataBackup].
const backupOp = "data.backup"

// shareData lets other processes of this user use the store of a directory while it is
// open. shared reports whether the directory has a store to share.
func shareData(d *datadir.Dir, dir string) (stop func() error, shared bool, err error) {
	path := datadir.SocketPath(dir)
	shared, err = d.Serve(func() (net.Listener, error) { return control.ListenSocket(path) })
	return func() error {
		err := os.Remove(path)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}, shared, err
}

// dataOptions are those of every data directory that a command opens.
func (env *environment) dataOptions() *datadir.Options {
	return &datadir.Options{Getenv: env.getenv, Logger: env.logger()}
}

// noteCopy says that a command reads a copy of a directory.
func (env *environment) noteCopy(dir string) func(int64) {
	return func(size int64) {
		env.note("%s can only be read: this reads a copy of %s", dir, shortBytes(size))
	}
}

// note writes a remark to the console, beside the output.
func (env *environment) note(format string, args ...any) {
	fmt.Fprintf(env.console(), "agenthost: "+format+"\n", args...)
}

// checkData refuses a data directory that does not exist, which opening would make.
func checkData(dir, command string) error {
	if dir == "" {
		return usageError{errors.New("--data is required: the directory that keeps the threads"), command}
	}
	if _, err := os.Stat(datadir.StorePath(dir)); err != nil {
		return host.Errorf(host.NotFound, "there are no threads in %s: %w", dir, err).
			WithHint("a data directory is made by: agenthost run PROJECT --data %s", termtext.ShellWord(dir))
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

With ` + datadir.KeyFileVariable + ` or ` + datadir.KeyVariable + ` set to a key when a
directory is made, it is encrypted, and needs that key from then on:

  openssl rand -hex 32 > data.key
  export ` + datadir.KeyFileVariable + `=$PWD/data.key

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

// withData calls direct with the store if no other process has it open, and otherwise
// asks the host that holds it.
func withData(ctx context.Context, env *environment, f *dataFlags, op string, args, result any, direct func(*datadir.Dir) error) (err error) {
	opts := env.dataOptions()
	opts.Verify = op == verifyOp
	s, err := datadir.Open(f.data, opts)
	if errors.Is(err, kv.ErrReadOnly) && (op == verifyOp || op == backupOp) {
		s, err = datadir.OpenCopy(ctx, f.data, opts, env.noteCopy(f.data))
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

// backupResult is the output of data backup.
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
directory, DIR/` + datadir.StoreName + `/` + badgerkv.KeyFile + `, or a copy that is not older than the backup. What a tenant had that was
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
			err = withData(c.Context(), env, f, backupOp, backupArgs{path}, &info, func(s *datadir.Dir) (err error) {
				show := newProgress(env)
				defer show.end()
				info, err = backupTo(c.Context(), s, path, show.entries)
				return err
			})
			if err != nil {
				return err
			}
			if f.json {
				return printJSON(env.stdout, backupResult{list[0], *info})
			}
			fmt.Fprintf(env.stdout, "Wrote %s in %s to %s%s.\n", byteWords(info.Bytes), entryWords(info.Entries), list[0], sealedWords(info))
			fmt.Fprintf(env.stdout, "Check it with: agenthost data verify --backup %s\n", termtext.ShellWord(list[0]))
			if info.Encrypted {
				fmt.Fprintf(env.stdout, "Restoring it takes the key file %s too, which is not in it: keep a copy elsewhere.\n", termtext.ShellWord(datadir.KeyFilePath(f.data)))
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

// backupTo writes a backup to a file.
func backupTo(ctx context.Context, s *datadir.Dir, path string, tell badgerkv.Progress) (info *badgerkv.BackupInfo, err error) {
	err = streamFile(path, func(w io.Writer) (err error) {
		info, err = s.Badger().Backup(ctx, w, tell)
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
		Example: "  agenthost data restore monday.backup --data ./restored --key-file ./data/" + datadir.StoreName + "/" + badgerkv.KeyFile,
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
	c.Flags().StringVar(&f.dataKeys, "key-file", "", "the key file of the directory that the backup is of (DIR/"+datadir.StoreName+"/"+badgerkv.KeyFile+"), or a copy")
	return c
}

func (f *dataFlags) addBackupKey(c *cobra.Command) {
	c.Flags().StringVar(&f.keyFile, "backup-key-file", "", "a file with the key of the backup, if it is another")
}

// backupKey returns the key in --backup-key-file; nil without the flag.
func (f *dataFlags) backupKey() ([]byte, error) {
	if f.keyFile == "" {
		return nil, nil
	}
	return datadir.ReadKey(f.keyFile)
}

func restoreFile(ctx context.Context, env *environment, f *dataFlags, file string) (*badgerkv.BackupInfo, error) {
	opts := &badgerkv.RestoreOptions{}
	var err error
	if opts.Store.Key, err = datadir.Key(env.getenv); err != nil {
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
	info, err := badgerkv.Restore(ctx, datadir.StorePath(f.data), in, opts)
	if errors.Is(err, kv.ErrInvalid) {
		return nil, host.Errorf(host.FailedPrecondition, "data directory %s has data", f.data).
			WithHint("restore into a new directory; nothing was changed in this one")
	}
	return info, backupError(file, err)
}

// backupError adds the next step to the error of an unreadable backup.
func backupError(file string, err error) error {
	if err == nil {
		return nil
	}
	e := host.AsError(datadir.Error("", err))
	e.Message = "backup " + file + ": " + err.Error()
	switch {
	case errors.Is(err, kv.ErrKey) && strings.Contains(err.Error(), "key file"):
		e.Hint = "name the key file of the directory it is from with --key-file; it is " + badgerkv.KeyFile + " in DIR/" + datadir.StoreName
	case errors.Is(err, kv.ErrKey):
		e.Hint = "set " + datadir.KeyFileVariable + ", or name the key's file with --backup-key-file"
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
			old, err := datadir.Key(env.getenv)
			if err != nil {
				return err
			}
			key, err := datadir.ReadKey(file)
			if err != nil {
				return err
			}
			if old == nil {
				return host.Errorf(host.InvalidArgument, "data directory %s: no key is set", f.data).
					WithHint("set %s; to encrypt a directory that is not, restore a backup of it with the key set", datadir.KeyFileVariable)
			}
			if err := badgerkv.Rekey(datadir.StorePath(f.data), old, key); err != nil {
				return datadir.Error(f.data, err)
			}
			fmt.Fprintf(env.stdout, "%s has the new key. Set %s=%s from now on.\n", f.data, datadir.KeyFileVariable, termtext.ShellWord(file))
			return nil
		},
	}
	c.Flags().StringVar(&file, "new-key-file", "", "a file with the new key")
	return c
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
			out := &datadir.Verification{}
			err := withData(c.Context(), env, f, verifyOp, nil, out, func(s *datadir.Dir) (err error) {
				show := newProgress(env)
				defer show.end()
				out, err = s.Verify(c.Context(), func(n int) { show.say("%s", plural(n, "thread")) })
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

// printVerified prints a verification. Its error has the exit code of data loss if an
// entry or a file is damaged.
func printVerified(env *environment, f *dataFlags, v *datadir.Verification) error {
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
		key, err = datadir.Key(env.getenv)
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
	return fmt.Sprintf("%s entries", termtext.Thousands(int64(n)))
}

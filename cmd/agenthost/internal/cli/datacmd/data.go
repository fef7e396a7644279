package datacmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/control"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/files"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/open"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/internal/termtext"
)

// group is what the commands of agenthost data share: the terminal, how data directories
// are opened, and flags.
type group struct {
	term  *ui.Terminal
	dirs  *open.Data
	flags *cli.StoredFlags

	socket, keyFile, dataKeys string
}

// New returns the command.
func New(t *ui.Terminal, dirs *open.Data) *cobra.Command {
	g := &group{term: t, dirs: dirs, flags: &cli.StoredFlags{}}
	c := &cobra.Command{
		Use:   "data",
		Short: "Back up, restore, check, encrypt and erase what is kept",
		Long: `Back up, restore, check, move and erase what is kept: the threads and all else of
every tenant. --data is a directory, or a database, on which backup, restore, rekey and
purge are the work of the server's own tools.

With ` + datadir.KeyFileVariable + ` or ` + datadir.KeyVariable + ` set to a key when a
directory is made, it is encrypted, and needs that key from then on:

  openssl rand -hex 32 > data.key
  export ` + datadir.KeyFileVariable + `=$PWD/data.key

To encrypt a directory that is not, restore a backup of it with the key set.`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	g.flags.AddTo(c, "the data")
	c.AddCommand(g.backup(), g.restore(), g.verify(), g.rekey(), g.copy(),
		g.erase("erase", "agenthost data erase"), g.prove("agenthost data prove"), g.purge())
	return c
}

// addOpenFlags adds the flags of a command that calls withData.
func (g *group) addOpenFlags(c *cobra.Command) {
	g.dirs.AddWaitLock(c.Flags())
	c.Flags().StringVar(&g.socket, "socket", "", control.SocketUsage("the control socket of the host that has it open")+" (default: "+control.SocketName+" in --data)")
}

// withData calls direct with the store if no other process has it open, and otherwise
// asks the host that holds it. It waits, if asked to, for a process that has the store
// open and cannot be asked.
func (g *group) withData(ctx context.Context, op string, args, result any, direct func(*datadir.Dir) error) (err error) {
	opts := g.dirs.Options()
	opts.Verify = op == verifyOp
	once := *opts
	once.WaitLock = 0 // each attempt also asks the host
	var s *datadir.Dir
	err = datadir.WaitLock(ctx, opts, func() (err error) {
		s, err = datadir.Open(ctx, g.flags.Data.Text(), &once)
		if errors.Is(err, kv.ErrReadOnly) && (op == verifyOp || op == backupOp) {
			s, err = datadir.OpenCopy(ctx, g.flags.Data.Text(), &once, g.dirs.NoteCopy(g.flags.Data.String()))
		}
		if errors.Is(err, kv.ErrLocked) {
			err = g.askHost(ctx, err, op, args, result)
		}
		return err
	})
	if err != nil || s == nil { // without a store the host has done it
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return direct(s)
}

func (g *group) askHost(ctx context.Context, locked error, op string, args, result any) error {
	err := control.Call(ctx, cmp.Or(g.socket, control.SocketPath(g.flags.Data.At().Dir())), op, args, result)
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

func (g *group) backup() *cobra.Command {
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
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			if err := open.CheckDirectory(&g.flags.Data, "agenthost data backup", g.dumpWords("pg_dump --format=custom --file="+termtext.ShellWord(list[0]))); err != nil {
				return err
			}
			path, err := filepath.Abs(list[0])
			if err != nil {
				return host.Errorf(host.FailedPrecondition, "write %s: %w", list[0], err)
			}
			var info *badgerkv.BackupInfo
			err = g.withData(c.Context(), backupOp, backupArgs{path}, &info, func(s *datadir.Dir) (err error) {
				show := ui.NewProgress(g.term)
				defer show.End()
				info, err = backupTo(c.Context(), s, path, show.Entries)
				return err
			})
			if err != nil {
				return err
			}
			if g.flags.JSON {
				return ui.PrintJSON(g.term.Out, backupResult{list[0], *info})
			}
			fmt.Fprintf(g.term.Out, "Wrote %s in %s to %s%s.\n", ui.ByteWords(info.Bytes), entryWords(info.Entries), list[0], sealedWords(info))
			fmt.Fprintf(g.term.Out, "Check it with: agenthost data verify --backup %s\n", termtext.ShellWord(list[0]))
			if info.Encrypted {
				fmt.Fprintf(g.term.Out, "Restoring it takes the key file %s too, which is not in it: keep a copy elsewhere.\n", termtext.ShellWord(datadir.KeyFilePath(g.flags.Data.At().Dir())))
			}
			return nil
		},
	}
	g.addOpenFlags(c)
	return c
}

// dumpWords is what to run instead of a command that works on files.
func (g *group) dumpWords(command string) string {
	return "run: " + command + " with the address of the database; or copy it to a directory, which can be backed up: agenthost data copy " + copyWord(&g.flags.Data) + " DIR"
}

// copyWord returns the data as an argument of data copy, without a password.
func copyWord(data *cli.DataFlag) string {
	return addressWord(data.At())
}

// addressWord returns an address as an argument of data copy, without a password.
func addressWord(at datadir.Address) string {
	if word := strings.TrimPrefix(at.Flag(), " --data "); word != "" {
		return word
	}
	return "env:" + datadir.Variable
}

func sealedWords(info *badgerkv.BackupInfo) string {
	if info.Encrypted {
		return ", encrypted"
	}
	return ""
}

func (g *group) restore() *cobra.Command {
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make a data directory out of a backup",
		Long: `Make a data directory out of a backup. The directory must have no data. It gets the
key that is set, or none; the backup is read with that key, too, or that in
--backup-key-file. A backup of an encrypted directory is restored with the key file of
that directory, or a copy of it (--key-file); for any other, naming it leaves out the
tenants that were deleted since.`,
		Example: "  agenthost data restore monday.backup --data ./restored --key-file ./data/" + datadir.StoreName + "/" + badgerkv.KeyFile,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			if !g.flags.Data.Given() {
				return cli.UsageError(errors.New("--data is required: the directory to make"), "agenthost data restore")
			}
			if g.flags.Data.At().IsDatabase() {
				return host.Errorf(host.Unimplemented, "a backup is restored into a data directory, and %s is a database", g.flags.Data.At()).
					WithHint("restore it into a new directory, and then: agenthost data copy DIR %s; a dump of pg_dump is read by pg_restore", copyWord(&g.flags.Data))
			}
			info, err := g.restoreFile(c.Context(), list[0])
			if err != nil {
				return err
			}
			if g.flags.JSON {
				return ui.PrintJSON(g.term.Out, backupResult{list[0], *info})
			}
			fmt.Fprintf(g.term.Out, "Restored %s in %s to %s, as of %s.\n", ui.ByteWords(info.Bytes), entryWords(info.Entries), g.flags.Data.At(), info.Created.Local().Format("2006-01-02 15:04:05"))
			if info.Erased > 0 {
				fmt.Fprintf(g.term.Out, "Left out %s of tenants that were deleted since.\n", entryWords(info.Erased))
			}
			return nil
		},
	}
	g.addBackupKey(c)
	c.Flags().StringVar(&g.dataKeys, "key-file", "", "the key file of the directory that the backup is of (DIR/"+datadir.StoreName+"/"+badgerkv.KeyFile+"), or a copy")
	return c
}

func (g *group) addBackupKey(c *cobra.Command) {
	c.Flags().StringVar(&g.keyFile, "backup-key-file", "", "a file with the key of the backup, if it is another")
}

// backupKey returns the key in --backup-key-file; nil without the flag.
func (g *group) backupKey() ([]byte, error) {
	if g.keyFile == "" {
		return nil, nil
	}
	return datadir.ReadKey(g.keyFile)
}

func (g *group) restoreFile(ctx context.Context, file string) (*badgerkv.BackupInfo, error) {
	opts := &badgerkv.RestoreOptions{}
	var err error
	if opts.Store.Key, err = g.dirs.Key(); err != nil {
		return nil, err
	}
	if opts.BackupKey, err = g.backupKey(); err != nil {
		return nil, err
	}
	in, closeIn, err := files.Open(g.term.In, file)
	if err != nil {
		return nil, err
	}
	defer closeIn()
	show := ui.NewProgress(g.term)
	defer show.End()
	opts.Progress = show.Entries
	opts.Store.Logger = g.term.Logger()
	opts.KeyFile = g.dataKeys
	info, err := badgerkv.Restore(ctx, datadir.StorePath(g.flags.Data.At().Dir()), in, opts)
	if errors.Is(err, kv.ErrInvalid) {
		return nil, host.Errorf(host.FailedPrecondition, "data directory %s has data", g.flags.Data.At()).
			WithHint("restore into a new directory; nothing was changed in this one")
	}
	return info, backupError(file, err)
}

// backupError adds the next step to the error of an unreadable backup.
func backupError(file string, err error) error {
	if err == nil {
		return nil
	}
	e := fault.AsError(datadir.Error("", err))
	e.Message = "backup " + file + ": " + err.Error()
	switch {
	case errors.Is(err, badgerkv.ErrKeyFile):
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

func (g *group) rekey() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "rekey",
		Short: "Give an encrypted data directory another key",
		Long: `Give an encrypted data directory another key: from the one that is set to the one in
--new-key-file. It is done at once, whole or not at all, and no host may have the
directory open. Every tenant gets a new data key as well, for what is written from then
on. Backups keep the key that they were made with.`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := open.CheckDirectory(&g.flags.Data, "agenthost data rekey", "copy the data to another schema with the new key set: agenthost data copy --from-key-file OLD "+copyWord(&g.flags.Data)+" TO"); err != nil {
				return err
			}
			if file == "" {
				return cli.UsageError(errors.New("--new-key-file is required: the file with the new key"), "agenthost data rekey")
			}
			old, err := g.dirs.Key()
			if err != nil {
				return err
			}
			key, err := datadir.ReadKey(file)
			if err != nil {
				return err
			}
			if old == nil {
				return host.Errorf(host.InvalidArgument, "data directory %s: no key is set", g.flags.Data.At()).
					WithHint("set %s; to encrypt a directory that is not, restore a backup of it with the key set", datadir.KeyFileVariable)
			}
			if err := badgerkv.Rekey(datadir.StorePath(g.flags.Data.At().Dir()), old, key); err != nil {
				return datadir.Error(g.flags.Data.At().Dir(), err)
			}
			fmt.Fprintf(g.term.Out, "%s has the new key. Set %s=%s from now on.\n", g.flags.Data.At(), datadir.KeyFileVariable, termtext.ShellWord(file))
			return nil
		},
	}
	c.Flags().StringVar(&file, "new-key-file", "", "a file with the new key")
	return c
}

func (g *group) verify() *cobra.Command {
	var backup string
	c := &cobra.Command{
		Use:   "verify",
		Short: "Check that everything is what was stored",
		Long: `Check that everything is what was stored: the checksums of the files, the digest of
every entry, and of every tenant's threads each message, turn, state and artifact. A host that has the directory
open does it for this command, and serves on. With --backup it reads a backup instead.`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if backup != "" {
				return g.verifyBackup(c.Context(), backup)
			}
			if err := open.CheckData(&g.flags.Data, "agenthost data verify"); err != nil {
				return err
			}
			out := &datadir.Verification{}
			err := g.withData(c.Context(), verifyOp, nil, out, func(s *datadir.Dir) (err error) {
				show := ui.NewProgress(g.term)
				defer show.End()
				out, err = s.Verify(c.Context(), func(n int) { show.Say("%s", ui.Plural(n, "thread")) })
				return err
			})
			if err != nil {
				return err
			}
			return g.printVerified(out)
		},
	}
	g.addOpenFlags(c)
	g.addBackupKey(c)
	c.Flags().StringVar(&backup, "backup", "", "check this backup")
	return c
}

// printVerified prints a verification. Its error has the exit code of data loss if an
// entry or a file is damaged.
func (g *group) printVerified(v *datadir.Verification) error {
	if g.flags.JSON {
		if err := ui.PrintJSON(g.term.Out, v); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(g.term.Out, "Read %s of %s: %s, %s, %s with %s.\n", ui.Plural(v.Threads, "thread"), ui.Plural(v.Tenants, "tenant"),
			ui.Plural(v.Messages, "message"), ui.Plural(v.Turns, "turn"), ui.Plural(v.Blobs, "digest"), ui.ByteWords(v.Bytes))
		for _, d := range v.Damaged {
			fmt.Fprintf(g.term.Out, "  %s\n", ui.OneLine(fmt.Sprintf("%s %s: %s", d.Tenant, d.Thread, d.Error.Message)))
		}
	}
	if len(v.Damaged) == 0 {
		if !g.flags.JSON {
			fmt.Fprintln(g.term.Out, "All of it is what was stored.")
		}
		return nil
	}
	if g.flags.JSON {
		return cli.QuietExit(host.DataLoss.ExitCode())
	}
	return host.Errorf(host.DataLoss, "%s damaged", ui.Plural(len(v.Damaged), "thing")).WithHint("restore a backup into a new directory: agenthost data restore FILE --data DIR")
}

func (g *group) verifyBackup(ctx context.Context, file string) error {
	key, err := g.backupKey()
	if err == nil && key == nil {
		key, err = g.dirs.Key()
	}
	if err != nil {
		return err
	}
	in, closeIn, err := files.Open(g.term.In, file)
	if err != nil {
		return err
	}
	defer closeIn()
	show := ui.NewProgress(g.term)
	info, err := badgerkv.VerifyBackup(ctx, in, key, show.Entries)
	show.End()
	if err != nil {
		return backupError(file, err)
	}
	return g.term.Report(g.flags.JSON, backupResult{file, *info}, "%s is whole: %s in %s, of %s%s.\n", file, ui.ByteWords(info.Bytes), entryWords(info.Entries), info.Created.Local().Format("2006-01-02 15:04:05"), sealedWords(info))
}

func entryWords(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%s entries", termtext.Thousands(int64(n)))
}

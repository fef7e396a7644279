package datacmd

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/control"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/files"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/audit"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/erasure"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/project"
)

// liveData is the data of a running host, which other commands back up, verify and erase
// over its control socket. It is safe for concurrent use.
type liveData struct{ app *project.Project }

// Routes are the local routes of the data of a running host.
func Routes(a *project.Project) []control.Route {
	l := &liveData{a}
	return []control.Route{
		control.Do(backupOp, "Write a backup to a file of the host's machine.", l.backup),
		control.Do(verifyOp, "Read every file of the data and check it.", l.verify),
		control.Do("data.erase", "Erase a tenant.", l.erase),
		control.Do("data.prove", "Search the data for what is left of an erased tenant.", l.prove),
		control.Do("data.purge", "Remove what was deleted from the files.", l.purge),
	}
}

// backup writes the data to a file of the client's choice: only this user can open the
// socket.
func (l *liveData) backup(ctx context.Context, args backupArgs) (*badgerkv.BackupInfo, error) {
	if err := l.keepsFiles(); err != nil {
		return nil, err
	}
	if !filepath.IsAbs(args.Path) {
		return nil, host.Errorf(host.InvalidArgument, "back up: the path %q is not absolute", args.Path)
	}
	return backupTo(ctx, l.app.Data(), args.Path, nil)
}

func (l *liveData) verify(ctx context.Context, _ struct{}) (*datadir.Verification, error) {
	if err := l.keepsData(); err != nil {
		return nil, err
	}
	return l.app.Data().Verify(ctx, func(int) {})
}

func (l *liveData) erase(ctx context.Context, args tenantArgs) (*erasure.Report, error) {
	if err := l.keepsData(); err != nil {
		return nil, err
	}
	return eraseAndProve(ctx, l.app.Erasures(), l.app.Audit(), fmt.Sprintf("socket/%d", os.Getuid()), args.Tenant)
}

func (l *liveData) prove(ctx context.Context, args tenantArgs) (*erasure.Report, error) {
	if err := l.keepsData(); err != nil {
		return nil, err
	}
	return l.app.Erasures().Prove(ctx, args.Tenant)
}

func (l *liveData) purge(ctx context.Context, _ struct{}) (struct{}, error) {
	if err := l.keepsFiles(); err != nil {
		return struct{}{}, err
	}
	return struct{}{}, l.app.Data().Badger().Purge(ctx)
}

// keepsData refuses an operation on data that other processes do not reach.
func (l *liveData) keepsData() error {
	if !l.app.Data().KeepsHouse() {
		return host.Errorf(host.FailedPrecondition, "the host keeps its threads in memory").WithHint("start it with --data DIR")
	}
	return nil
}

// keepsFiles refuses an operation on the files of a directory.
func (l *liveData) keepsFiles() error {
	if l.app.Data().Badger() == nil {
		return host.Errorf(host.FailedPrecondition, "the host has no data directory").WithHint("start it with --data DIR")
	}
	return nil
}

// tenantArgs name a tenant.
type tenantArgs struct {
	Tenant string `json:"tenant"`
}

// backupArgs ask a host for a backup.
type backupArgs struct {
	Path string `json:"path"`
}

// verifyOp asks a host to do the work of agenthost data verify.
const verifyOp = "data.verify"

// backupOp asks a host to do the work of agenthost data backup.
const backupOp = "data.backup"

// eraseAndProve deletes a tenant for an actor of the audit log.
func eraseAndProve(ctx context.Context, all *erasure.Tenants, log *audit.Log, actor, tenant string) (*erasure.Report, error) {
	if err := host.ValidateTenant(tenant); err != nil {
		return nil, err
	}
	if _, err := log.Append(ctx, &audit.Entry{Actor: actor, Action: "tenant.delete", Tenant: tenant, Object: "tenant/" + tenant, Outcome: "allowed"}); err != nil {
		return nil, err
	}
	if err := all.Delete(ctx, tenant); err != nil {
		return nil, err
	}
	return all.Prove(ctx, tenant)
}

// backupTo writes a backup to a file.
func backupTo(ctx context.Context, s *datadir.Dir, path string, tell badgerkv.Progress) (info *badgerkv.BackupInfo, err error) {
	err = files.Stream(path, func(w io.Writer) (err error) {
		info, err = s.Badger().Backup(ctx, w, tell)
		return err
	})
	return info, err
}

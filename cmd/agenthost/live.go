package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/agenthost/agenthost/cmd/agenthost/control"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/erasure"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/internal/grantwords"
)

// live is a host that other commands steer over its control socket. It is safe for
// concurrent use.
type live struct {
	app    *project.Project
	reload *project.Reloader
}

func newLive(a *project.Project, say func(string, ...any)) *live {
	return &live{a, project.NewReloader(a, say)}
}

func (l *live) list(context.Context, pluginArgs) ([]project.PluginStatus, error) {
	return l.reload.Plugins(), nil
}

// load deploys a module from a path of the caller's choice.
func (l *live) load(ctx context.Context, args pluginArgs) (*project.Change, error) {
	if len(args.Grants) == 0 {
		return l.reload.Load(ctx, args.ID, args.Path, nil)
	}
	granted, err := grantwords.Parse(args.Grants)
	if err != nil {
		return nil, host.Errorf(host.InvalidArgument, "%w", err)
	}
	return l.reload.Load(ctx, args.ID, args.Path, &granted)
}

func (l *live) reloadAsked(ctx context.Context, args pluginArgs) ([]*project.Change, error) {
	return l.reload.Reload(ctx, args.ID)
}

func (l *live) rollback(ctx context.Context, args pluginArgs) (*project.Change, error) {
	return l.reload.Rollback(ctx, args.ID)
}

func (l *live) unload(ctx context.Context, args pluginArgs) (*project.Change, error) {
	return l.reload.Unload(ctx, args.ID)
}

func (l *live) usage(_ context.Context, args pluginArgs) (*plugin.Usage, error) {
	return l.reload.Usage(args.ID, args.Tenant)
}

// socketName is the control socket in a data directory.
const socketName = "control.sock"

// serve opens the control socket.
func (l *live) serve(path string, clients *served) (*control.Server, error) {
	return control.Listen(path, map[string]control.Handler{
		"session.turn":     handler(clients.turn),
		"session.snapshot": handler(clients.snapshot),
		"session.last":     handler(clients.last),
		"session.list":     handler(clients.list),
		"session.status":   handler(clients.status),
		"session.wait":     handler(clients.wait),
		"session.abort":    handler(clients.abort),
		"plugin.list":      handler(l.list),
		"plugin.load":      handler(l.load),
		"plugin.reload":    handler(l.reloadAsked),
		"plugin.rollback":  handler(l.rollback),
		"plugin.unload":    handler(l.unload),
		"plugin.usage":     handler(l.usage),
		"plugin.bill":      handler(l.bill),
		backupOp:           handler(l.backup),
		verifyOp:           handler(l.verify),
		"data.erase":       handler(l.erase),
		"data.prove":       handler(l.prove),
		"data.purge":       handler(l.purge),
	})
}

// handler decodes the arguments of a request for fn.
func handler[A, R any](fn func(context.Context, A) (R, error)) control.Handler {
	return func(ctx context.Context, raw json.RawMessage) (any, error) {
		var args A
		if len(raw) > 0 {
			if err := json.Unmarshal(raw, &args); err != nil {
				return nil, host.Errorf(host.InvalidArgument, "read the request: %w", err)
			}
		}
		return fn(ctx, args)
	}
}

// pluginArgs name a plugin, and for a load, where it comes from.
type pluginArgs struct {
	ID     string   `json:"id,omitempty"`
	Path   string   `json:"path,omitempty"`
	Grants []string `json:"grants,omitempty"`
	Tenant string   `json:"tenant,omitempty"`
}

// backup writes the data to a file of the client's choice: only this user can open the
// socket.
func (l *live) backup(ctx context.Context, args backupArgs) (*badgerkv.BackupInfo, error) {
	if err := l.keepsData(); err != nil {
		return nil, err
	}
	if !filepath.IsAbs(args.Path) {
		return nil, host.Errorf(host.InvalidArgument, "back up: the path %q is not absolute", args.Path)
	}
	return backupTo(ctx, l.app.Data(), args.Path, nil)
}

func (l *live) verify(ctx context.Context, _ struct{}) (*datadir.Verification, error) {
	if err := l.keepsData(); err != nil {
		return nil, err
	}
	return l.app.Data().Verify(ctx, func(int) {})
}

func (l *live) erase(ctx context.Context, args tenantArgs) (*erasure.Report, error) {
	if err := l.keepsData(); err != nil {
		return nil, err
	}
	return eraseAndProve(ctx, l.app.Erasures(), args.Tenant)
}

func (l *live) prove(ctx context.Context, args tenantArgs) (*erasure.Report, error) {
	if err := l.keepsData(); err != nil {
		return nil, err
	}
	return l.app.Erasures().Prove(ctx, args.Tenant)
}

func (l *live) purge(ctx context.Context, _ struct{}) (struct{}, error) {
	if err := l.keepsData(); err != nil {
		return struct{}{}, err
	}
	return struct{}{}, l.app.Data().Badger().Purge(ctx)
}

func (l *live) keepsData() error {
	if l.app.Data().Badger() == nil {
		return host.Errorf(host.FailedPrecondition, "the host keeps its threads in memory").WithHint("start it with --data DIR")
	}
	return nil
}

// socketPath returns where the control socket of a data directory is.
func socketPath(data string) string { return filepath.Join(data, socketName) }

// devSocket returns where the socket of a host without a data directory is: in a
// temporary directory of its own.
func devSocket() (path string, remove func() error, err error) {
	dir, err := os.MkdirTemp("", "agenthost")
	if err != nil {
		return "", nil, host.Errorf(host.FailedPrecondition, "make a temporary directory: %w", err).WithHint("name one with --data or --socket")
	}
	return filepath.Join(dir, socketName), func() error { return os.RemoveAll(dir) }, nil
}

// versionWords names a version for people.
func versionWords(v *plugin.VersionState) string {
	if v == nil {
		return "none"
	}
	words := fmt.Sprint(v.Number)
	if v.Version != "" {
		words += " (" + ui.OneLine(v.Version) + ")"
	}
	return words
}

// shortDigest returns the beginning of a digest, enough to identify a module.
func shortDigest(d string) string {
	const letters = 12
	d = strings.TrimPrefix(d, "sha256:")
	return d[:min(letters, len(d))]
}

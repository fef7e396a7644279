package plugincmd

import (
	"context"
	"slices"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/control"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/internal/grantwords"
)

// livePlugins are the plugins of a host that other commands steer over its control
// socket. It is safe for concurrent use.
type livePlugins struct {
	app    *project.Project
	reload *project.Reloader
}

// Routes are the local routes of the plugins of a running host.
func Routes(a *project.Project, reload *project.Reloader) []control.Route {
	l := &livePlugins{a, reload}
	return []control.Route{
		control.Do("plugin.list", "List the plugins of the configuration.", l.list),
		control.Do("plugin.load", "Load a module from a file of the host's machine.", l.load),
		control.Do("plugin.reload", "Read the files of plugins again.", l.reloadPlugin),
		control.Do("plugin.rollback", "Go back to the version before.", l.rollback),
		control.Do("plugin.unload", "Take a plugin out of service.", l.unload),
		control.Do("plugin.usage", "Read what a plugin has used of its limits.", l.usage),
		control.Do("plugin.bill", "Read the usage of plugins since the host began.", l.usageReport),
	}
}

func (l *livePlugins) list(context.Context, pluginArgs) ([]project.PluginStatus, error) {
	return l.reload.Plugins(), nil
}

// load deploys a module from a path of the caller's choice.
func (l *livePlugins) load(ctx context.Context, args pluginArgs) (*project.Change, error) {
	if len(args.Grants) == 0 {
		return l.reload.Load(ctx, args.ID, args.Path, nil)
	}
	granted, err := grantwords.Parse(args.Grants)
	if err != nil {
		return nil, host.Errorf(host.InvalidArgument, "%w", err)
	}
	return l.reload.Load(ctx, args.ID, args.Path, &granted)
}

func (l *livePlugins) reloadPlugin(ctx context.Context, args pluginArgs) ([]*project.Change, error) {
	return l.reload.Reload(ctx, args.ID)
}

func (l *livePlugins) rollback(ctx context.Context, args pluginArgs) (*project.Change, error) {
	return l.reload.Rollback(ctx, args.ID)
}

func (l *livePlugins) unload(ctx context.Context, args pluginArgs) (*project.Change, error) {
	return l.reload.Unload(ctx, args.ID)
}

func (l *livePlugins) usage(_ context.Context, args pluginArgs) (*plugin.Usage, error) {
	return l.reload.Usage(args.ID, args.Tenant)
}

// usageReport returns the usage report since the host began, the items with the longest
// duration first.
func (l *livePlugins) usageReport(_ context.Context, args topArgs) (*plugin.UsageReport, error) {
	if args.Lines < 1 || args.Lines > maxTopLines {
		return nil, host.Errorf(host.InvalidArgument, "lines is %d, not from 1 to %d", args.Lines, maxTopLines)
	}
	all := l.app.Runtime().UsageReport()
	all.Items = slices.DeleteFunc(all.Items, func(c plugin.LineItem) bool {
		return c.Tenant == "" || args.Of != "" && c.Tenant != args.Of // calls without a tenant are the host's own, of describe
	})
	b := all.Sum(args.Tenant, true, args.Export)
	slices.SortStableFunc(b.Items, func(x, y plugin.LineItem) int { return int(y.Duration - x.Duration) })
	b.Items = b.Items[:min(len(b.Items), args.Lines)]
	return b, nil
}

// topArgs ask the host for a usage report summed by these, the largest item first.
type topArgs struct {
	Tenant bool   `json:"by_tenant,omitempty"`
	Export bool   `json:"by_export,omitempty"`
	Of     string `json:"tenant,omitempty"` // of this tenant only
	Lines  int    `json:"lines"`
}

// pluginArgs name a plugin, and for a load, where it comes from.
type pluginArgs struct {
	ID     string   `json:"id,omitempty"`
	Path   string   `json:"path,omitempty"`
	Grants []string `json:"grants,omitempty"`
	Tenant string   `json:"tenant,omitempty"`
}

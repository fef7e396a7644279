package threadcmd

import (
	"context"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/lookup"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/threads"
)

// threadIDs returns threads for a shell to complete.
func (g *group) threadIDs(ctx context.Context, dir *datadir.Dir) ([]string, error) {
	return lookup.ThreadIDs(ctx, threads.New(dir.Driver, nil), g.flags.Tenant)
}

package threadcmd

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/termtext"
)

// maxCompletions bounds the threads that a shell offers: the ones that moved last.
const maxCompletions = 50

// completeThreads has the shell complete the first argument of each command below a group
// that is a THREAD.
func (g *group) completeThreads(c *cobra.Command) {
	for _, child := range c.Commands() {
		if words := strings.Fields(child.Use); len(words) > 1 && words[1] == "THREAD" && child.ValidArgsFunction == nil {
			child.ValidArgsFunction = g.threadIDs
		}
	}
}

// threadIDs returns ids with their titles. It neither waits for the data nor reports an
// error: a shell would show it amid the line.
func (g *group) threadIDs(c *cobra.Command, list []string, _ string) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	dir := g.flags.Data.At().Dir()
	if len(list) > 0 || dir == "" || g.dirs.CheckDir(dir) != nil {
		return nil, none
	}
	ctx := c.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	data, err := datadir.OpenToRead(ctx, dir, g.dirs.QuietOptions(), func(int64) {})
	if err != nil {
		return nil, none
	}
	defer data.Close()
	page, err := threads.New(data.Driver, nil).For(g.flags.Tenant).List(ctx, &threads.ListOptions{Limit: maxCompletions})
	if err != nil {
		return nil, none
	}
	var ids []string
	for _, t := range page.Threads {
		ids = append(ids, termtext.Printable(t.ID)+"\t"+ui.OneLine(t.Title))
	}
	return ids, none
}

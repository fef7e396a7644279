package open

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/tenants"
)

// completion completes a word of a command line: see [cobra.Command.ValidArgsFunction].
type completion = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// Stored completes ids that are stored in a data directory. It neither waits for the data
// nor reports an error, which a shell would show amid the line.
func (d *Data) Stored(data *cli.DataFlag, list func(context.Context, *datadir.Dir) ([]string, error)) completion {
	return func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		const none = cobra.ShellCompDirectiveNoFileComp
		if d.ResolveFlag(data) != nil {
			return nil, none
		}
		dir := data.At().Dir()
		if dir == "" || d.CheckDir(dir) != nil {
			return nil, none
		}
		ctx := c.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		opened, err := datadir.OpenToRead(ctx, dir, d.QuietOptions(), func(int64) {})
		if err != nil {
			return nil, none
		}
		defer opened.Close()
		ids, err := list(ctx, opened)
		if err != nil {
			return nil, none
		}
		return ids, none
	}
}

// CompleteArgs has the shell complete the first argument of each command below a group whose
// name in the command's usage is word.
func CompleteArgs(group *cobra.Command, word string, complete completion) {
	first := func(c *cobra.Command, list []string, part string) ([]string, cobra.ShellCompDirective) {
		if len(list) > 0 {
			return nil, cobra.ShellCompDirectiveDefault // files, which some commands have behind it
		}
		return complete(c, list, part)
	}
	for _, child := range group.Commands() {
		if words := strings.Fields(child.Use); len(words) > 1 && words[1] == word && child.ValidArgsFunction == nil {
			child.ValidArgsFunction = first
		}
	}
}

// Tenants completes the tenants that have records.
func (d *Data) Tenants(data *cli.DataFlag) completion {
	return d.Stored(data, func(ctx context.Context, dir *datadir.Dir) ([]string, error) {
		store, err := tenants.Open(ctx, dir.Driver, nil)
		if err != nil {
			return nil, err
		}
		defer store.Close()
		page, _, err := store.List(ctx, "", ui.MaxCompletions)
		var ids []string
		for _, t := range page {
			ids = append(ids, ui.Completion(t.ID, t.Name))
		}
		return ids, err
	})
}

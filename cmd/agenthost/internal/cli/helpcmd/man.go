package helpcmd

import (
	"errors"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/host"
)

// Man returns the command agenthost man, of all commands beside it.
func Man() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "man",
		Short: "Write a manual page for each command",
		Long: `Write a manual page for each command into a directory, such as one named man1 that
MANPATH leads to. The pages say what --help says.`,
		Example: "  agenthost man --dir ~/.local/share/man/man1",
		Args:    cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if dir == "" {
				return cli.UsageError(errors.New("--dir is required: the directory to write to"), c.CommandPath())
			}
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return host.Errorf(host.FailedPrecondition, "write manual pages: %w", err).WithHint("name a directory that you may write to")
			}
			root := c.Root()
			root.DisableAutoGenTag = true // it would have a date
			if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "agenthost"}, dir); err != nil {
				return host.Errorf(host.FailedPrecondition, "write manual pages: %w", err).WithHint("name a directory that you may write to")
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.Flags().StringVar(&dir, "dir", "", "the directory to write to")
	return c
}

package projectcmd

import (
	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host/project"
)

// NewSchema returns the command agenthost schema.
func NewSchema(t *ui.Terminal) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of a configuration",
		Long: `Print the JSON Schema of ` + project.FileName + `. An editor with a YAML language server
completes and checks a configuration whose first line is

  # yaml-language-server: $schema=` + project.SchemaFileName + `

and that has the schema beside it under that name.`,
		Example: "  agenthost schema > " + project.SchemaFileName,
		Args:    cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := t.Out.Write(project.Schema())
			return err
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
}

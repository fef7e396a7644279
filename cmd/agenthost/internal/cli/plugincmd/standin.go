package plugincmd

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/files"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/plugintest"
)

// standInFlags name the tenant of a call outside of a run, and the answers of tools and operations.
type standInFlags struct{ tenant, tools, golden string }

// standIn stands in for the run of a call that has none.
type standIn struct {
	tenant string
	tools  *plugintest.Tools // answer the tools that the plugin calls; nil: the call has no tools
	golden *plugintest.Case  // answers all host operations; nil: the host answers them
}

func (f *standInFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.tenant, "tenant", "", cli.TenantUsage("for whom the call is made"))
	flags.StringVar(&f.tools, "tools", "", `what tools answer that the plugin calls: JSON, @FILE or -, such as {"search": {"content": "tea"}}`)
	flags.StringVar(&f.golden, "case", "", "a case of plugin test (a file or a directory) that has the input, and answers all host operations")
	_ = c.MarkFlagFilename("case", "txtar") // the flag is there
	c.MarkFlagsMutuallyExclusive("case", "input")
	c.MarkFlagsMutuallyExclusive("case", "tools")
}

func (f *standInFlags) read(in io.Reader, command, export string) (s standIn, err error) {
	s.tenant = cli.TenantOr(f.tenant)
	if f.tools != "" {
		raw, err := files.JSONValue(in, command, "--tools", f.tools)
		if err != nil {
			return s, err
		}
		if s.tools, err = plugintest.ReadTools(raw); err != nil {
			return s, err
		}
	}
	if f.golden == "" {
		return s, nil
	}
	if s.golden, err = plugintest.ReadCase(f.golden); err != nil {
		return s, err
	}
	if s.golden.Export != export {
		return s, cli.UsageError(fmt.Errorf("the case %s is one of %s, not of %s", f.golden, s.golden.Export, export), command)
	}
	return s, nil
}

// operate returns the function that answers host operations in the place of the host; nil if the
// host answers all of them.
func (s *standIn) operate() func(context.Context, string, []byte, plugin.Operation) ([]byte, error) {
	if s.tools == nil {
		return nil
	}
	return s.tools.Operate
}

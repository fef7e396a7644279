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

// triedFlags say what a plugin meets that is tried outside of a run.
type triedFlags struct{ tenant, tools, golden string }

// tried is what a plugin meets outside of a run.
type tried struct {
	tenant string
	tools  *plugintest.Tools // nil: there are none that it could call
	golden *plugintest.Case  // answers all host operations; nil: the host does
}

func (f *triedFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.tenant, "tenant", "", cli.TenantUsage("for whom the call is made"))
	flags.StringVar(&f.tools, "tools", "", `what tools answer that the plugin calls: JSON, @FILE or -, such as {"search": {"content": "tea"}}`)
	flags.StringVar(&f.golden, "case", "", "a case of plugin test (a file or a directory) that has the input, and answers all host operations")
	_ = c.MarkFlagFilename("case", "txtar") // the flag is there
	c.MarkFlagsMutuallyExclusive("case", "input")
	c.MarkFlagsMutuallyExclusive("case", "tools")
}

func (f *triedFlags) read(in io.Reader, command, export string) (t tried, err error) {
	t.tenant = cli.TenantOr(f.tenant)
	if f.tools != "" {
		raw, err := files.JSONValue(in, command, "--tools", f.tools)
		if err != nil {
			return t, err
		}
		if t.tools, err = plugintest.ReadTools(raw); err != nil {
			return t, err
		}
	}
	if f.golden == "" {
		return t, nil
	}
	if t.golden, err = plugintest.ReadCase(f.golden); err != nil {
		return t, err
	}
	if t.golden.Export != export {
		return t, cli.UsageError(fmt.Errorf("the case %s is one of %s, not of %s", f.golden, t.golden.Export, export), command)
	}
	return t, nil
}

// operate returns what answers host operations in the place of the host; nil for the host alone.
func (t *tried) operate() func(context.Context, string, []byte, plugin.Operation) ([]byte, error) {
	if t.tools == nil {
		return nil
	}
	return t.tools.Operate
}

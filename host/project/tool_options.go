package project

import (
	"maps"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
)

// checkToolOptions reports the first fault in the options of tools.
func (b *builder) checkToolOptions() error {
	have := b.toolNames()
	for i, c := range b.config.ToolOptions {
		at := configfile.Keys("tool_options", i)
		switch {
		case c.Tool == "":
			return b.config.ErrorAt(at, "no tool is named").WithHint("write: tool: NAME, or tool: \"*\" for every tool")
		case c.Tool != anyTool && !have[c.Tool] && !(configfile.MCP{Config: b.config}).IsTool(c.Tool):
			return b.config.Unknown(at.To("tool"), "tool", c.Tool, slices.Sorted(maps.Keys(have)))
		case c.Retries < 0 || c.Retries > host.MaxToolRetries:
			return b.config.ErrorAt(at.To("retries"), "retries is %d, not 0 to %d", c.Retries, host.MaxToolRetries)
		}
	}
	return nil
}

// withOptions returns tools with the options of the configuration: those for a tool's
// own name win over those for every tool.
func (b *builder) withOptions(tools []*host.Tool) ([]*host.Tool, error) {
	out := make([]*host.Tool, len(tools))
	for i, t := range tools {
		opts := &host.ToolOptions{}
		for _, name := range []string{anyTool, t.Name} {
			for _, c := range b.config.ToolOptions {
				if c.Tool != name {
					continue
				}
				if c.Timeout > 0 {
					opts.Timeout = time.Duration(c.Timeout)
				}
				if c.Retries > 0 {
					opts.Retries = c.Retries
				}
			}
		}
		var err error
		if out[i], err = t.With(opts); err != nil {
			return nil, err
		}
	}
	return out, nil
}

package project

import (
	"context"

	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
)

// checkParts refuses a version of a plugin that lacks a part the configuration uses:
// agents would keep removed tools.
func (s *pluginSet) checkParts(id string) func(context.Context, *plugin.Plugin) error {
	return func(_ context.Context, p *plugin.Plugin) error {
		if !s.serving.Load() {
			return nil // making the agents reports it, for every plugin
		}
		for _, u := range s.config.PartsUsed() {
			if used, part := configfile.SplitUse(u.Use); used == id {
				if err := s.checkPart(u, part, p); err != nil {
					return s.config.Wrap(err, u.At)
				}
			}
		}
		return nil
	}
}

func (s *pluginSet) checkPart(u configfile.PartUse, part string, p *plugin.Plugin) error {
	opts := s.naming(p.ID())
	var err error
	if u.Kind == configfile.ToolPart {
		if config := s.config.Plugins[p.ID()].Config; config != nil {
			opts.Config, err = toJSON(s.config, u.At, config)
		}
	} else {
		opts.Config, err = toJSON(s.config, u.At, u.Config)
	}
	if err != nil {
		return err
	}
	switch {
	case u.Kind == configfile.ToolPart && part == "":
		_, err = p.Tools(opts)
	case u.Kind == configfile.ToolPart:
		_, err = p.Tool(part, opts)
	case u.Kind == configfile.ProcessorPart:
		_, err = p.Processor(part, opts)
	case u.Kind == configfile.ProviderPart:
		_, err = p.Provider(part, opts)
	default:
		_, err = p.Router(part, opts)
	}
	return err
}

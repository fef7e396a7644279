package project

import (
	"cmp"
	"encoding/json"

	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
)

// extismOptions returns the options of a plugin's entry that apply to an Extism plugin.
func (s *pluginSet) extismOptions(name string) (o plugin.ExtismOptions, err error) {
	c := s.config.Plugins[name]
	for key, value := range c.Config {
		if o.Config == nil {
			o.Config = map[string]string{}
		}
		if text, ok := value.(string); ok {
			o.Config[key] = text
			continue
		}
		raw, err := toJSON(s.config, configfile.Keys("plugins", name, "config"), value)
		if err != nil {
			return o, err
		}
		o.Config[key] = string(raw)
	}
	for _, f := range c.Functions {
		t := plugin.ToolInfo{Name: cmp.Or(f.Tool, f.Function), Description: f.Description, Export: f.Function}
		if f.Parameters != nil {
			var raw json.RawMessage
			if raw, err = toJSON(s.config, configfile.Keys("plugins", name, "functions"), f.Parameters); err != nil {
				return o, err
			}
			t.Parameters = raw
		}
		o.Tools = append(o.Tools, t)
	}
	return o, nil
}

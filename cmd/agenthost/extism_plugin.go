package main

import (
	"cmp"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
)

// manifestSuffix ends the name of an Extism manifest, wherever a plugin's file can
// be named.
const manifestSuffix = ".json"

// maxManifestFile bounds such a file, with the module that it may hold.
const maxManifestFile = 2 * plugin.DefaultModuleBytes

// pluginSource is a module, and what the Extism manifest that names it says of it.
type pluginSource struct {
	wasm     []byte
	manifest *plugin.ExtismManifest // nil: the file is a module
}

// source reads a plugin like module, and keeps what its Extism manifest says.
func (env *environment) source(ctx context.Context, rt *plugin.Runtime, where string, progress func(string)) (*pluginSource, error) {
	if !strings.HasSuffix(strings.ToLower(where), manifestSuffix) {
		wasm, err := env.moduleFile(ctx, rt, where, progress)
		return &pluginSource{wasm: wasm}, err
	}
	raw, err := readFile(where, maxManifestFile)
	if err != nil {
		return nil, err
	}
	m, err := plugin.ReadExtismManifest(raw, filepath.Dir(where), 0)
	if err != nil {
		e := *host.AsError(err)
		e.Message, e.Err = where+": "+e.Message, err
		return nil, &e
	}
	return &pluginSource{wasm: m.Wasm, manifest: m}, nil
}

// addTo adds what a manifest says to options: its limits and configuration where
// these have none, and its allowed_hosts as what the plugin asks for. It grants
// nothing: that is the operator's.
func (s *pluginSource) addTo(o *plugin.LoadOptions) {
	if s.manifest == nil {
		return
	}
	m := s.manifest.Options
	l := &o.Limits
	l.Timeout = cmp.Or(l.Timeout, m.Limits.Timeout)
	l.MemoryBytes, l.BlockBytes = cmp.Or(l.MemoryBytes, m.Limits.MemoryBytes), cmp.Or(l.BlockBytes, m.Limits.BlockBytes)
	l.VarBytes = cmp.Or(l.VarBytes, m.Limits.VarBytes)
	e := &o.Extism
	e.HTTPBytes = cmp.Or(e.HTTPBytes, m.Extism.HTTPBytes)
	if e.Asks = m.Granted.HTTP; e.Asks == nil {
		e.Asks = []plugin.HTTPAccess{} // nothing, instead of what is granted
	}
	config := map[string]string{}
	for name, value := range m.Extism.Config {
		config[name] = value
	}
	for name, value := range e.Config {
		config[name] = value
	}
	e.Config = config
}

// functionConfig is a function of an Extism plugin that is a tool.
type functionConfig struct {
	Function    string `yaml:"function"`
	Tool        string `yaml:"tool"`
	Description string `yaml:"description"`
	Parameters  any    `yaml:"parameters"` // a JSON Schema; absent: one text
}

// extismOptions are those of a plugin's entry, which hold if it is an Extism one.
func (a *app) extismOptions(name string) (o plugin.ExtismOptions, err error) {
	c := a.config.Plugins[name]
	for key, value := range c.Config {
		if o.Config == nil {
			o.Config = map[string]string{}
		}
		if text, ok := value.(string); ok {
			o.Config[key] = text
			continue
		}
		raw, err := a.toJSON(keys("plugins", name, "config"), value)
		if err != nil {
			return o, err
		}
		o.Config[key] = string(raw)
	}
	for _, f := range c.Functions {
		t := plugin.ToolInfo{Name: cmp.Or(f.Tool, f.Function), Description: f.Description, Export: f.Function}
		if f.Parameters != nil {
			var raw json.RawMessage
			if raw, err = a.toJSON(keys("plugins", name, "functions"), f.Parameters); err != nil {
				return o, err
			}
			t.Parameters = raw
		}
		o.Tools = append(o.Tools, t)
	}
	return o, nil
}

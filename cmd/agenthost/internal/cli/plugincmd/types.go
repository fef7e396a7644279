package plugincmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/open"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/internal/schematypes"
)

type typesFlags struct {
	lang string
	name string
	json bool
}

func pluginTypes(l *local) *cobra.Command {
	f := typesFlags{}
	c := &cobra.Command{
		Use:   "types FILE | types SCHEMA.json",
		Short: "Write types for a plugin's schemas, in a language",
		Long: `Write types for the schemas of a plugin, in a language: of each tool TOOLArguments and
TOOLResult, and of each processor, router and provider that is configured NAMEConfig. A file with
one JSON Schema, whose name ends in .json, becomes one type and those in it.

The languages are ` + languageWords() + `. Rust's types are for serde, Go's for encoding/json,
AssemblyScript's and Zig's are read by their kits, and C's are structures to fill. Only TypeScript
says alternatives; elsewhere a value of several types is any value of the language.`,
		Example: `  agenthost plugin types orders.wasm --lang typescript > orders.d.ts
  agenthost plugin types order.schema.json --lang rust --name Order`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			if !isLanguage(f.lang) {
				return cli.UsageError(fmt.Errorf("--lang is %q; it must be one of: %s", f.lang, languageWords()), c.CommandPath())
			}
			return l.plugins.WithReader(c.Context(), func(rt *plugin.Runtime) error { return l.types(c.Context(), rt, list[0], f) })
		},
		ValidArgsFunction: func(_ *cobra.Command, list []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(list) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return project.Builtins(), cobra.ShellCompDirectiveDefault
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.lang, "lang", string(schematypes.TypeScript), "the language: "+languageWords())
	flags.StringVar(&f.name, "name", "", "the name of a schema's type (default: that of the file)")
	flags.BoolVar(&f.json, "json", false, cli.JSONUsage)
	_ = c.RegisterFlagCompletionFunc("lang", cobra.FixedCompletions(languageNames(), cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return c
}

func languageNames() (list []string) {
	for _, lang := range schematypes.Languages() {
		list = append(list, string(lang))
	}
	return list
}

func languageWords() string { return strings.Join(languageNames(), ", ") }

func isLanguage(name string) bool {
	for _, lang := range languageNames() {
		if lang == name {
			return true
		}
	}
	return false
}

// typesResult is the output of types --json.
type typesResult struct {
	File     string   `json:"file"`
	Language string   `json:"language"`
	Types    []string `json:"types"` // that the text declares, without those in them
	Text     string   `json:"text"`
}

func (l *local) types(ctx context.Context, rt *plugin.Runtime, file string, f typesFlags) error {
	types, err := l.typesOf(ctx, rt, file, f.name)
	if err != nil {
		return err
	}
	text, err := schematypes.Declare(schematypes.Language(f.lang), types)
	if err != nil {
		return host.Errorf(host.CodeOf(err), "types of %s: %w", file, err)
	}
	if !f.json {
		_, err = fmt.Fprint(l.term.Out, text)
		return err
	}
	result := typesResult{File: file, Language: f.lang, Types: []string{}, Text: text}
	for _, t := range types {
		result.Types = append(result.Types, schematypes.TypeName(t.Name))
	}
	return ui.PrintJSON(l.term.Out, result)
}

// typesOf returns the types of a plugin, or of a file with a schema.
func (l *local) typesOf(ctx context.Context, rt *plugin.Runtime, file, name string) ([]schematypes.Type, error) {
	if filepath.Ext(file) == ".json" {
		schema, err := plugin.ReadModule(file, schematypes.MaxSchemaBytes)
		if err != nil {
			return nil, err
		}
		if !isExtismManifest(schema) {
			if name == "" {
				name, _, _ = strings.Cut(filepath.Base(file), ".")
			}
			return []schematypes.Type{{Name: name, Schema: schema}}, nil
		}
	}
	manifest, err := l.manifestOf(ctx, rt, file)
	if err != nil {
		return nil, err
	}
	types := typesOfManifest(manifest)
	if len(types) == 0 {
		return nil, host.Errorf(host.FailedPrecondition, "types of %s: the plugin has no schemas", file).
			WithHint("name a plugin with tools, or a configuration that it describes")
	}
	return types, nil
}

// isExtismManifest reports whether a file of JSON names modules.
func isExtismManifest(file []byte) bool {
	var members map[string]json.RawMessage
	return json.Unmarshal(bytes.TrimSpace(file), &members) == nil && members["wasm"] != nil
}

// manifestOf returns the manifest of a plugin's file.
func (l *local) manifestOf(ctx context.Context, rt *plugin.Runtime, file string) (*plugin.Manifest, error) {
	from, err := l.plugins.Modules().Read(ctx, rt, file, l.term.Announce)
	if err != nil {
		return nil, err
	}
	opts := &plugin.LoadOptions{}
	from.AddTo(opts)
	p, err := rt.Load(ctx, open.PluginID(file), from.Wasm, opts)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return p.Manifest(), nil
}

func typesOfManifest(m *plugin.Manifest) (types []schematypes.Type) {
	add := func(name, description string, schema json.RawMessage) {
		if len(schema) > 0 {
			types = append(types, schematypes.Type{Name: name, Description: description, Schema: schema})
		}
	}
	for i := range m.Tools {
		t := &m.Tools[i]
		add(t.Name+" arguments", t.Description, t.Spec().Parameters)
		add(t.Name+" result", "", t.Result)
	}
	for _, p := range m.Processors {
		add(p.Name+" config", "", p.Config)
	}
	for _, parts := range [][]plugin.PartInfo{m.Routers, m.Providers} {
		for _, p := range parts {
			add(p.Name+" config", "", p.Config)
		}
	}
	return types
}

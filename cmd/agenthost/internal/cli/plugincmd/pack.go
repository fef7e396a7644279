package plugincmd

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/pdk/js"
)

// packing is what pack is asked for.
type packing struct {
	manifest   string // a file; "" has the plugin describe itself
	out        string
	standalone bool
	json       bool
}

func pluginPack(l *local) *cobra.Command {
	var o packing
	c := &cobra.Command{
		Use:   "pack FILE",
		Short: "Make one file of a module or a script, and its manifest",
		Long: `Make one file of a plugin: of a .wasm module that any toolchain has built, or of a
script in JavaScript. Its manifest is put into it, so that reading it later runs no
code: that of --manifest, or what the plugin says when it is asked to describe
itself, in the sandbox with nothing granted. The same input gives the same bytes.

A packed script has a few bytes more than the script, and runs on every host of this
version; with --standalone the engine is in it, and it runs on any host.`,
		Example: `  agenthost plugin pack dice.js -o dice.wasm
  agenthost plugin pack target/greet.wasm --manifest manifest.json -o greet.wasm`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			if o.standalone && !project.IsScript(list[0]) {
				return cli.UsageError(errors.New("--standalone is for scripts (.js, .mjs)"), c.CommandPath())
			}
			return l.plugins.WithReader(c.Context(), func(rt *plugin.Runtime) error {
				return l.pack(c.Context(), rt, list[0], &o)
			})
		},
	}
	c.Flags().StringVar(&o.manifest, "manifest", "", "a file with the manifest (default: the plugin describes itself)")
	c.Flags().StringVarP(&o.out, "output", "o", "", "the file to write (default: FILE with the ending .wasm, which must be another)")
	c.Flags().BoolVar(&o.json, "json", false, cli.JSONUsage)
	c.Flags().BoolVar(&o.standalone, "standalone", false, "put the engine of a script into the file")
	return c
}

func (l *local) pack(ctx context.Context, rt *plugin.Runtime, file string, o *packing) error {
	out := o.out
	if out == "" {
		if out = strings.TrimSuffix(file, filepath.Ext(file)) + ".wasm"; out == file {
			return host.Errorf(host.InvalidArgument, "pack %s: the result would replace it", file).WithHint("name another file with -o")
		}
	}
	wasm, err := readPackable(file, o.standalone)
	if err != nil {
		return err
	}
	if o.manifest == "" {
		wasm, err = rt.AddManifest(ctx, wasm)
	} else {
		wasm, err = withManifest(wasm, o.manifest)
	}
	if err != nil {
		return err
	}
	return l.writeModule(out, wasm, o.json)
}

func readPackable(file string, standalone bool) ([]byte, error) {
	content, err := plugin.ReadModule(file, plugin.DefaultModuleBytes)
	switch {
	case err != nil:
		return nil, err
	case filepath.Ext(file) == ".ts":
		return nil, host.Errorf(host.InvalidArgument, "pack %s: it is TypeScript", file).
			WithHint("make JavaScript of it first: npx esbuild %s --bundle --format=esm --external:agenthost --outfile=plugin.js", file)
	case !project.IsScript(file):
		return content, nil
	case standalone:
		return project.PackScript(file, content, js.PackStandalone)
	}
	return project.PackScript(file, content, js.Pack)
}

func withManifest(wasm []byte, name string) ([]byte, error) {
	manifest, err := plugin.ReadModule(name, plugin.DefaultModuleBytes)
	if err != nil {
		return nil, err
	}
	out, err := plugin.WithManifest(wasm, manifest)
	if err != nil {
		return nil, host.Errorf(host.CodeOf(err), "pack with the manifest %s: %w", name, err)
	}
	return out, nil
}

package plugin

import (
	"context"

	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/gobuild"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmmeter"
)

// BuildOptions are the optional parts of building a plugin.
type BuildOptions struct {
	// CacheDir keeps built modules by their sources' content; "" builds each time.
	CacheDir string
	// Progress receives a sentence about each slow step.
	Progress func(string)
}

// Build builds the plugin whose Go source is in dir with the Go toolchain that
// it finds, and puts its manifest into the module, so that reading it later
// runs no code. Code not_found without such a directory, failed_precondition
// without a toolchain, invalid_argument if the source does not compile.
func (rt *Runtime) Build(ctx context.Context, dir string, opts *BuildOptions) ([]byte, error) {
	if opts == nil {
		opts = &BuildOptions{}
	}
	return gobuild.Build(ctx, dir, &gobuild.Options{CacheDir: opts.CacheDir, Progress: opts.Progress, Finish: rt.addManifest})
}

// AddManifest has a plugin describe itself, in the sandbox with nothing granted, and
// returns its file with what it says in the manifest section, so that reading it later
// runs no code. Codes are those of [Runtime.Load].
func (rt *Runtime) AddManifest(ctx context.Context, wasm []byte) ([]byte, error) {
	out, err := rt.addManifest(ctx, wasm)
	if err != nil {
		return nil, loadError("pack", err)
	}
	return out, nil
}

// WithManifest returns a plugin's file with a manifest in its section, in place of an
// earlier one. Code invalid_argument for a damaged module or manifest.
func WithManifest(wasm, manifest []byte) ([]byte, error) {
	if _, err := abi.ReadManifest(manifest); err != nil {
		return nil, err
	}
	return wasmmeter.WithManifest(wasm, manifest)
}

// addManifest is [Runtime.AddManifest] with an error that names no plugin.
func (rt *Runtime) addManifest(ctx context.Context, wasm []byte) ([]byte, error) {
	p, err := rt.load(ctx, "build", wasm, nil)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return wasmmeter.WithManifest(wasm, p.manifest.JSON())
}

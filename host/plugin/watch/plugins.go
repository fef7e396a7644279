package watch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/internal/watch"
)

// moduleExt is how the name of a module ends.
const moduleExt = ".wasm"

// Options are the optional parts of watching a directory of modules. A zero field
// is its default.
type Options struct {
	Settle   time.Duration // how long a file must not have changed before it is loaded (100 ms)
	Interval time.Duration // between two reads of a directory in which nothing changes (1 s)
	MaxFiles int           // most modules (1,000); beyond it, loaded ones stay and the others, by name, are left out
	Logger   *slog.Logger  // nil discards

	// Slot gives the grants, limits and guards of a plugin by its id; nil, and a nil
	// answer, are the defaults. It is called when the plugin is first loaded.
	Slot func(id string) *plugin.SlotOptions

	// Unload unloads a plugin whose file is removed, without waiting for its calls
	// and pins; otherwise the plugin serves until the program ends or the file is
	// there again.
	Unload bool

	// ModuleBytes is the largest file that is read (16 MiB).
	ModuleBytes int

	// Told, if set, is called with the outcome of every attempt, in order.
	Told func(Outcome)
}

// Outcome is the effect of one change of a file.
type Outcome struct {
	Path    string               // of the file
	Removed bool                 // the file is gone
	ID      string               // of the plugin
	Version *plugin.VersionState // nil if nothing was loaded
	Err     error                // why the version does not serve; the previous version still serves
}

// Plugins keeps the slots of a runtime in step with the .wasm files of a directory
// until ctx ends. A file NAME.wasm is the plugin NAME, of 1 to 64 letters, digits,
// "_", "-" and "."; others are left out with a warning. A new file is loaded, a
// changed one replaces the version that serves, as [plugin.Slot.Replace] does,
// and one that cannot be loaded or fails its health calls changes nothing. A file that
// is written again with the same bytes is loaded again only if these neither serve nor
// are held back: if the version failed, or was rolled back.
//
// If the program has made the slot of that id itself, its version is replaced in the
// same way. The slots stay when ctx ends; the runtime closes them. Code
// invalid_argument for options out of range and for a directory that cannot be read at
// first; nil when ctx ends.
func Plugins(ctx context.Context, rt *plugin.Runtime, dir string, opts *Options) error {
	if opts == nil {
		opts = &Options{}
	}
	f := &follower{runtime: rt, opts: *opts}
	if f.opts.ModuleBytes < 0 {
		return host.Errorf(host.InvalidArgument, "watch with ModuleBytes %d", f.opts.ModuleBytes).WithHint("leave it out for the default")
	}
	f.opts.ModuleBytes = cmp.Or(f.opts.ModuleBytes, plugin.DefaultModuleBytes)
	if f.opts.Logger == nil {
		f.opts.Logger = slog.New(slog.DiscardHandler)
	}
	return watch.Dir(ctx, dir, &watch.DirOptions{Match: f.isPlugin, Settle: opts.Settle, Interval: opts.Interval,
		MaxFiles: opts.MaxFiles, Logger: opts.Logger}, f.follow)
}

// follower loads changed files.
type follower struct {
	runtime *plugin.Runtime
	opts    Options
	warned  map[string]bool // names for which a warning was logged
}

var pluginID = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// maxWarned bounds the names that are remembered so that each is warned of once.
const maxWarned = 100

func (f *follower) isPlugin(name string) bool {
	id, ok := strings.CutSuffix(name, moduleExt)
	if !ok || strings.HasPrefix(name, ".") { // a hidden file is one being written
		return false
	}
	if pluginID.MatchString(id) {
		return true
	}
	if !f.warned[name] && len(f.warned) < maxWarned {
		if f.warned == nil {
			f.warned = map[string]bool{}
		}
		f.warned[name] = true
		f.opts.Logger.Warn("a module's file name is no plugin id; it is left out", "name", name)
	}
	return false
}

func (f *follower) follow(ctx context.Context, c watch.Change) {
	out := Outcome{Path: c.Path(), Removed: c.Removed, ID: strings.TrimSuffix(c.Name, moduleExt)}
	tried := true
	if c.Removed {
		out.Err = f.remove(ctx, out.ID)
	} else {
		tried, out.Version, out.Err = f.load(ctx, &c, out.ID)
	}
	if !tried || ctx.Err() != nil {
		return
	}
	f.log(&out)
	if f.opts.Told != nil {
		f.opts.Told(out)
	}
}

func (f *follower) log(out *Outcome) {
	switch {
	case out.Err != nil:
		f.opts.Logger.Warn("plugin file changes nothing", "plugin", out.ID, "path", out.Path, "error", out.Err)
	case out.Removed:
		f.opts.Logger.Info("plugin file is removed", "plugin", out.ID, "path", out.Path, "unloaded", f.opts.Unload)
	default:
		f.opts.Logger.Info("plugin file is loaded", "plugin", out.ID, "path", out.Path, "version", out.Version.Number)
	}
}

// unloadWait is how long to wait for the calls of an unloaded plugin, and before a
// retry while the plugin is being changed.
const unloadWait = 50 * time.Millisecond

func (f *follower) remove(ctx context.Context, id string) error {
	s := f.runtime.Slot(id)
	if s == nil || !f.opts.Unload {
		return nil
	}
	for {
		err := unload(ctx, s)
		if host.CodeOf(err) != host.DeadlineExceeded || ctx.Err() != nil {
			return err
		}
		if s.Current() == nil { // the slot closes when its last call or pin ends
			return nil
		}
	}
}

func unload(ctx context.Context, s *plugin.Slot) error {
	ctx, cancel := context.WithTimeout(ctx, unloadWait)
	defer cancel()
	return s.Unload(ctx)
}

func (f *follower) load(ctx context.Context, c *watch.Change, id string) (tried bool, st *plugin.VersionState, err error) {
	wasm, err := c.Read(f.opts.ModuleBytes)
	if err != nil {
		code := host.CodeOf(err)
		return code != host.NotFound && code != host.Conflict, nil, err // gone or changed again: the next read sees that
	}
	if s := f.runtime.Slot(id); s != nil {
		if has(s, wasm) {
			return false, nil, nil
		}
		st, err := s.Replace(ctx, wasm)
		return true, &st, err
	}
	var opts *plugin.SlotOptions
	if f.opts.Slot != nil {
		opts = f.opts.Slot(id)
	}
	s, err := f.runtime.NewSlot(ctx, id, wasm, opts)
	if err != nil {
		return true, nil, err
	}
	state := s.State()
	return true, state.Serving(), nil
}

// has reports whether a module serves, or is held back.
func has(s *plugin.Slot, wasm []byte) bool {
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(wasm))
	return slices.ContainsFunc(s.State().Versions, func(v plugin.VersionState) bool {
		return v.Digest == digest && (v.Phase == plugin.Serving || v.Phase == plugin.Held)
	})
}

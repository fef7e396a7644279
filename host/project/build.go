package project

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strconv"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/project/internal/buildcmd"
	"github.com/agenthost/agenthost/internal/termtext"
	"github.com/agenthost/agenthost/internal/watch"
)

// maxBuilds is how often a build command runs in a row, because files were saved meanwhile.
const maxBuilds = 3

// buildDir returns the directory in which a plugin's build command runs, "" if the plugin
// has none. A module that was loaded from elsewhere is not built.
func (s *pluginSet) buildDir(id, source string) string {
	p := s.config.Plugins[id]
	switch {
	case len(p.Build.Run) == 0 || s.config.Fsys != nil || source != s.path(id):
		return ""
	case p.Build.In == "":
		return path.Dir(filepath.ToSlash(source))
	}
	return s.config.FilePath(p.Build.In)
}

// watched returns the file or directory whose changes make a plugin's next version.
func (s *pluginSet) watched(id, source string) string {
	if dir := s.buildDir(id, source); dir != "" {
		return dir
	}
	return source
}

// buildSource runs a plugin's build command if its module is older than the source, or in
// any case, and again if files of the source were saved meanwhile. It returns the state of
// the source that was built, nil if that is not known. Code failed_precondition if the
// command cannot be run, invalid_argument if it fails; its output is in the error.
func (s *pluginSet) buildSource(ctx context.Context, id string, always bool, progress func(string)) (built *watch.State, err error) {
	module := s.path(id)
	dir := s.buildDir(id, module)
	if dir == "" || !always && !stale(module, dir) {
		return nil, nil
	}
	if progress == nil {
		progress = func(string) {}
	}
	var last map[string][sha256.Size]byte
	for n := 1; ; n++ {
		before, lookErr := watch.Look(dir)
		err := s.buildOnce(ctx, id, module, dir, progress)
		if lookErr != nil || ctx.Err() != nil {
			return nil, err
		}
		after, lookErr := watch.Look(dir)
		if lookErr != nil {
			return nil, err
		}
		// The command makes new files. One that was there before, and differs, was saved, unless
		// it is the same after a second command: then the command writes it.
		paths := before.ChangedIn(after)
		changed := digests(paths)
		switch {
		case len(changed) == 0, maps.Equal(changed, last):
			return after, err
		case n == maxBuilds:
			progress("plugin " + id + ": " + paths[0] + " is different after each of " + strconv.Itoa(n) + " builds; what was saved last may not be built")
			return after, err
		}
		last = changed
	}
}

// digests returns the digests of the contents of files; zero of those that cannot be read.
func digests(paths []string) map[string][sha256.Size]byte {
	out := map[string][sha256.Size]byte{}
	for _, path := range paths {
		out[path] = digest(path)
	}
	return out
}

func digest(path string) (sum [sha256.Size]byte) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return sum
	}
	f, err := os.Open(path)
	if err != nil {
		return sum
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return sum
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// buildOnce runs a plugin's build command. What a command that fails has written of the
// module is removed: it would be younger than the source, and never built again.
func (s *pluginSet) buildOnce(ctx context.Context, id, module, dir string, progress func(string)) error {
	build := s.config.Plugins[id].Build
	command := buildcmd.Line(build.Run)
	before, missing := os.Stat(module)
	if !s.modules.commands {
		if missing == nil {
			return nil
		}
		return host.Errorf(host.FailedPrecondition, "plugin %q: %s is not built, and this program runs no commands of configurations", id, module).
			WithHint("build it: (cd %s && %s)", termtext.ShellWord(dir), command)
	}
	progress("build plugin " + id + ": " + command)
	err := buildcmd.Run(ctx, "build plugin "+strconv.Quote(id), dir, build.Run, buildcmd.Environment(build.Env, s.secretVariables()))
	after, gone := os.Stat(module)
	switch {
	case err == nil && gone != nil:
		return host.Errorf(host.InvalidArgument, "build plugin %q: %s has not made %s", id, command, module).
			WithHint("name in path what the command makes, relative to the configuration; the command runs in %s", dir)
	case err == nil || gone != nil || missing == nil && sameFile(before, after):
		return err
	}
	return errors.Join(err, os.Remove(module))
}

func sameFile(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// stale reports whether a module is missing, or older than a file of its source.
func stale(module, dir string) bool {
	made, err := os.Stat(module)
	if err != nil {
		return true
	}
	newest, err := watch.Newest(dir)
	return err == nil && newest.After(made.ModTime())
}

// secretVariables returns the variables that the configuration reads keys and addresses from.
func (s *pluginSet) secretVariables() (names []string) {
	for _, m := range s.config.Models {
		names = append(names, m.KeyEnv)
	}
	for _, m := range s.config.Memory {
		names = append(names, m.KeyEnv)
		if m.Embeddings != nil {
			names = append(names, m.Embeddings.KeyEnv)
		}
	}
	for _, a := range s.config.Agents {
		if a.Messages != nil {
			names = append(names, a.Messages.AddressEnv)
		}
	}
	return names
}

// Package kitsource finds out how a plugin's source directory in a language other than Go is
// built, as agenthost plugin new has made it: by the build script of the language's kit. A
// directory goes in; its script, or the command that builds its module, comes out.
package kitsource

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/project/internal/buildcmd"
)

// Source is the source of a plugin in a directory.
type Source struct {
	// Language is the source's language, as agenthost plugin new names it.
	Language string
	// Script is the file that is the plugin, for a language without a compiler.
	Script string

	dir     string
	builder string // the script that builds it, below the directory
	input   string // its first argument
}

// kits are the files of a source, by which its language is known.
var kits = [...]struct{ language, builder, input, main string }{
	{"c", "./build.sh", "plugin.c", "plugin.c"},
	{"assemblyscript", "./build.sh", "plugin.ts", "plugin.ts"},
	{"zig", "./build.sh", "plugin.zig", "plugin.zig"},
	{"rust", "agenthost/build.sh", ".", "Cargo.toml"},
}

// scriptName is the name of the file of a plugin in JavaScript.
const scriptName = "plugin.js"

// Find returns the source in a directory; nil if it is none of a kit. A directory with files
// of Go is of Go, whose module may be in a directory above, and which may embed a script.
func Find(dir string) *Source {
	if isGo(dir) {
		return nil
	}
	for _, kit := range kits {
		if isFile(dir, kit.main) && isFile(dir, kit.builder) {
			return &Source{Language: kit.language, dir: dir, builder: kit.builder, input: kit.input}
		}
	}
	if isFile(dir, scriptName) {
		return &Source{Language: "js", Script: filepath.Join(dir, scriptName), dir: dir}
	}
	return nil
}

// isGo reports whether there are files of Go, other than tests, which may be of any plugin.
func isGo(dir string) bool {
	files, _ := fs.Glob(os.DirFS(dir), "*.go")
	return slices.ContainsFunc(files, func(name string) bool { return !strings.HasSuffix(name, "_test.go") })
}

func isFile(dir, name string) bool {
	info, err := os.Stat(filepath.Join(dir, name))
	return err == nil && info.Mode().IsRegular()
}

// Command returns the command that builds the source, run in its directory, with the module
// that it writes.
func (s *Source) Command(module string) []string { return []string{s.builder, s.input, module} }

// Build runs the command, which writes the module to a file whose name is absolute. Codes are
// those of [buildcmd.Run], and failed_precondition for a command that writes none.
func (s *Source) Build(ctx context.Context, module string) error {
	if err := buildcmd.Run(ctx, "build plugin "+s.dir, s.dir, s.Command(module), buildcmd.Environment(nil, nil)); err != nil {
		return err
	}
	if _, err := os.Stat(module); err != nil {
		return fault.Errorf(fault.FailedPrecondition, "build plugin %s: %s has made no module", s.dir, s.builder).
			WithHint("take the build script of the kit: agenthost plugin new DIR --lang %s makes it", s.Language)
	}
	return nil
}

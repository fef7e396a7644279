// Package kitsource finds out how a plugin's source directory in a language other than Go is
// built, as agenthost plugin new has made it: by the build script of the language's kit. A
// directory goes in, the module or script of the plugin comes out.
package kitsource

import (
	"context"
	"os"
	"path/filepath"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/project/internal/buildcmd"
)

// Source is the source of a plugin in a directory.
type Source struct {
	// Language is the source's language, as agenthost plugin new names it.
	Language string
	// Script is the file that is the plugin, for a language without a compiler.
	Script string

	dir    string
	script string // that builds it, below the directory
	input  string // its first argument
}

// kits are the files of a source, by which its language is known.
var kits = [...]struct{ language, script, input, main string }{
	{"c", "./build.sh", "plugin.c", "plugin.c"},
	{"assemblyscript", "./build.sh", "plugin.ts", "plugin.ts"},
	{"zig", "./build.sh", "plugin.zig", "plugin.zig"},
	{"rust", "agenthost/build.sh", ".", "Cargo.toml"},
}

// script is the file of a plugin in JavaScript.
const scriptName = "plugin.js"

// Find returns the source in a directory; nil if it is none of a kit.
func Find(dir string) *Source {
	for _, kit := range kits {
		if isFile(dir, kit.main) && isFile(dir, kit.script) {
			return &Source{Language: kit.language, dir: dir, script: kit.script, input: kit.input}
		}
	}
	if isFile(dir, scriptName) && !isFile(dir, "go.mod") {
		return &Source{Language: "js", Script: filepath.Join(dir, scriptName), dir: dir}
	}
	return nil
}

func isFile(dir, name string) bool {
	info, err := os.Stat(filepath.Join(dir, name))
	return err == nil && info.Mode().IsRegular()
}

// Command returns the command that builds the source, run in its directory, with the module
// that it writes.
func (s *Source) Command(module string) []string { return []string{s.script, s.input, module} }

// Build runs the command, which writes the module to a file whose name is absolute. Codes are
// those of [buildcmd.Run], and failed_precondition for a command that writes none.
func (s *Source) Build(ctx context.Context, module string) error {
	if err := buildcmd.Run(ctx, "build plugin "+s.dir, s.dir, s.Command(module), buildcmd.Environment(nil, nil)); err != nil {
		return err
	}
	if _, err := os.Stat(module); err != nil {
		return fault.Errorf(fault.FailedPrecondition, "build plugin %s: %s has made no module", s.dir, s.script).
			WithHint("take the build script of the kit: agenthost plugin new DIR --lang %s makes it", s.Language)
	}
	return nil
}

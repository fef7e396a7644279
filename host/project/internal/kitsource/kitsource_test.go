package kitsource_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/agenthost/agenthost/host/project/internal/kitsource"
)

func TestTheLanguageOfASourceIsFoundByItsFiles(t *testing.T) {
	for name, c := range map[string]struct {
		files []string
		want  string // "": of Go, or no source
	}{
		"a script":                          {[]string{"plugin.js", "package.json"}, "js"},
		"a script with a test in Go":        {[]string{"plugin.js", "plugin_test.go", "go.mod"}, "js"},
		"Go that embeds a script":           {[]string{"main.go", "plugin.js"}, ""},
		"Go in a module of its own":         {[]string{"main.go", "go.mod"}, ""},
		"Go with a file of C":               {[]string{"main.go", "plugin.c", "build.sh"}, ""},
		"C":                                 {[]string{"plugin.c", "build.sh", "agenthost.h"}, "c"},
		"C without the script of the kit":   {[]string{"plugin.c", "Makefile"}, ""},
		"Rust":                              {[]string{"Cargo.toml", "agenthost/build.sh"}, "rust"},
		"Rust that has nothing of the kit":  {[]string{"Cargo.toml", "build.sh"}, ""},
		"AssemblyScript":                    {[]string{"plugin.ts", "build.sh"}, "assemblyscript"},
		"Zig":                               {[]string{"plugin.zig", "build.sh"}, "zig"},
		"a directory that has no source":    {[]string{"README.md"}, ""},
		"a directory [with] strange * name": {[]string{"main.go", "plugin.js"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), name)
			for _, file := range c.files {
				path := filepath.Join(dir, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got := ""
			if source := kitsource.Find(dir); source != nil {
				got = source.Language
			}
			if got != c.want {
				t.Errorf("the language is %q, want %q", got, c.want)
			}
		})
	}
}

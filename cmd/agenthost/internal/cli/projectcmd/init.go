package projectcmd

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/open"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/internal/termtext"
	kits "github.com/agenthost/agenthost/pdk"
)

//go:embed all:templates
var templates embed.FS

// kitDir is where a project has the source of the kit for Go plugins. Its name
// begins with a dot, so that ./... leaves it alone.
const kitDir = ".agenthost/kit"

// projectTemplate is a project that init can make.
type projectTemplate struct {
	name, what string
	prompt     string // an example prompt
	plugin     string // the directory of its plugin
}

func projectTemplates() []projectTemplate {
	return []projectTemplate{
		{"chat", "an agent, and a history processor in Go", "hello, I am ada@example.com", "plugins/mask"},
		{"tools", "an agent with tools, a state and a router, in Go", "add milk", "plugins/todo"},
	}
}

// NewInit returns the command agenthost init.
func NewInit(t *ui.Terminal) *cobra.Command {
	var name string
	var asJSON bool
	var names []string
	long := `Make a project: a commented configuration, its JSON Schema for editors, and one
plugin in Go with its tests. It runs at once: until a model is connected, answers
come from a script. The plugin needs only Go to build: the kit comes along.

Templates:
`
	for _, t := range projectTemplates() {
		names = append(names, t.name)
		long += fmt.Sprintf("  %-6s  %s\n", t.name, t.what)
	}
	c := &cobra.Command{
		Use:     "init [DIR]",
		Short:   "Make a project",
		Long:    strings.TrimSpace(long),
		Example: "  agenthost init shop --template tools",
		Args:    cli.Args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			i := slices.Index(names, name)
			if i < 0 {
				return cli.UsageError(fmt.Errorf("--template: there is no %q; there are: %s", name, strings.Join(names, ", ")), c.CommandPath())
			}
			dir := "."
			if len(list) > 0 && list[0] != "" {
				dir = filepath.Clean(list[0])
			}
			return initProject(t, dir, projectTemplates()[i], asJSON)
		},
	}
	c.Flags().StringVar(&name, "template", names[0], "one of: "+strings.Join(names, ", "))
	c.Flags().BoolVar(&asJSON, "json", false, cli.JSONUsage)
	if err := c.RegisterFlagCompletionFunc("template", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // there is no such flag
	}
	return c
}

// initResult is the output of init --json.
type initResult struct {
	Dir      string   `json:"dir"`
	Template string   `json:"template"`
	Files    []string `json:"files"`
}

func initProject(term *ui.Terminal, dir string, t projectTemplate, asJSON bool) error {
	files, err := projectFiles(dir, t)
	if err != nil {
		return err
	}
	if there := existing(dir, files); there != "" {
		return host.Errorf(host.FailedPrecondition, "make project: %s has %s already", dir, there).
			WithHint("name a directory that does not have them, as in: agenthost init shop")
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := writeNew(filepath.Join(dir, name), files[name]); err != nil {
			return host.Errorf(host.FailedPrecondition, "make project: %w", err).WithHint("name a directory that this user can write to")
		}
	}
	if asJSON {
		return ui.PrintJSON(term.Out, initResult{dir, t.name, slices.Sorted(maps.Keys(files))})
	}
	printProject(term.Out, dir, t)
	return nil
}

func printProject(w io.Writer, dir string, t projectTemplate) {
	fmt.Fprintf(w, "Made %s: %s.\n\n", termtext.ShellWord(dir), t.what)
	for _, line := range [][2]string{
		{project.FileName, "the project, commented"},
		{project.SchemaFileName, "completes it in an editor"},
		{"model.yaml", "what is answered until a model is connected"},
		{t.plugin, "a plugin in Go, with its tests"},
		{kitDir, "the kit that it imports"},
	} {
		fmt.Fprintf(w, "  %-24s %s\n", line[0], line[1])
	}
	self, where := ui.Self(), termtext.ShellWord(dir)
	plugin := termtext.ShellWord(filepath.Join(dir, t.plugin))
	fmt.Fprintf(w, "\nWorth trying next:\n  %s run %s %q\n  %s dev %s\n  %s plugin test %s\n",
		self, where, t.prompt, self, where, self, plugin)
}

// projectFiles returns the files of a new project, by their names in it.
func projectFiles(dir string, t projectTemplate) (map[string][]byte, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, host.Errorf(host.FailedPrecondition, "make project: %w", err)
	}
	files := map[string][]byte{
		project.SchemaFileName: project.Schema(),
		"go.mod":               goMod(filepath.Base(abs)),
		kitDir + "/go.mod":     kitGoMod(),
		".gitignore":           []byte("/data/\n/plugins/*/*.wasm\n"),
	}
	if err := addFiles(files, "", templates, path.Join("templates", t.name), all); err != nil {
		return nil, err
	}
	return files, addKit(files)
}

// addKit adds the source of the kit for plugins in Go.
func addKit(files map[string][]byte) error {
	return addFiles(files, kitDir+"/pdk/go", kits.Files, "go", noTests)
}

// kitGoMod is the module file of the kit's source.
func kitGoMod() []byte {
	return []byte("module " + kitModule + "\n\ngo " + strings.TrimPrefix(open.OldestGo, "go") + "\n")
}

func all(string) bool          { return true }
func noTests(name string) bool { return !strings.HasSuffix(name, "_test.go") }

// addFiles adds the files below a directory of fsys, under another one.
func addFiles(files map[string][]byte, under string, fsys fs.FS, from string, want func(string) bool) error {
	return fs.WalkDir(fsys, from, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !want(name) {
			return err
		}
		b, err := fs.ReadFile(fsys, name)
		files[path.Join(under, strings.TrimPrefix(name, from+"/"))] = b
		return err
	})
}

// kitModule is the module that plugins import the kit from.
const kitModule = "github.com/agenthost/agenthost"

// goMod is the module file of a project, which is named like its directory.
func goMod(name string) []byte {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '-'
	}, name)
	name = strings.Trim(name, ".-_")
	if name == "" {
		name = "project"
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "module %s\n\ngo %s\n\nrequire %s v0.0.0\n", name, strings.TrimPrefix(open.OldestGo, "go"), kitModule)
	fmt.Fprintf(&b, "\n// The kit for plugins came with agenthost. For a published one delete this line\n// and %s, and run: go get %s\n", kitDir, kitModule)
	fmt.Fprintf(&b, "replace %s => ./%s\n", kitModule, kitDir)
	return b.Bytes()
}

// existing names files that a directory has already, "" if it has none of them: a project or
// plugin is made whole or not at all.
func existing(dir string, files map[string][]byte) string {
	var there []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			there = append(there, name)
		}
	}
	slices.SortStableFunc(there, func(a, b string) int { // the kit's many files last
		return cmp.Compare(strings.Count(a, "/"), strings.Count(b, "/"))
	})
	const shown = 3
	if len(there) > shown {
		there = append(there[:shown], fmt.Sprintf("%d more", len(there)-shown))
	}
	return strings.Join(there, ", ")
}

// writeNew writes a file that must not exist.
func writeNew(name string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if path.Ext(name) == ".sh" {
		mode = 0o755
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}

package projectcmd

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/internal/termtext"
)

// pluginKind is a kind of plugin that plugin new can make.
type pluginKind struct {
	name, what string
	use        string // how a configuration uses a plugin NAME, below an agent or a network
}

func pluginKinds() []pluginKind {
	return []pluginKind{
		{"tool", "a tool, which models call", "agents: {AGENT: {tools: [NAME]}}"},
		{"router", "a router, which says which agent is next", "networks: {NETWORK: {router: NAME}}"},
		{"processor", "a history processor, which changes what models see", "agents: {AGENT: {processors: [{use: NAME}]}}"},
		{"provider", "a context provider, which adds to what models are told", "agents: {AGENT: {providers: [{use: NAME}]}}"},
	}
}

// pluginName is what a directory must be called to name a plugin.
const pluginName = `^[a-z][a-z0-9_-]{0,62}$`

// NewPlugin returns the command agenthost plugin new.
func NewPlugin(t *ui.Terminal) *cobra.Command {
	var kind, lang string
	var asJSON bool
	var names, langs []string
	long := `Make a plugin from a template. DIR is made, and its last part names the plugin. The kit
of its language comes along, and no network is needed. In Go, which has a test as well, the
plugin belongs to the Go module that DIR is in, such as a project of agenthost init.

Kinds:
`
	for _, k := range pluginKinds() {
		names = append(names, k.name)
		long += fmt.Sprintf("  %-10s %s\n", k.name, k.what)
	}
	long += "\nLanguages:\n"
	for _, l := range pluginLanguages() {
		langs = append(langs, l.name)
		long += fmt.Sprintf("  %-10s %s\n", l.name, l.needs)
	}
	c := &cobra.Command{
		Use:   "new DIR",
		Short: "Make a plugin from a template",
		Long:  strings.TrimSpace(long),
		Example: `  agenthost plugin new shop/plugins/weather --kind tool
  agenthost plugin new dice --lang js`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			i := slices.Index(names, kind)
			if i < 0 {
				return cli.UsageError(fmt.Errorf("--kind: there is no %q; there are: %s", kind, strings.Join(names, ", ")), c.CommandPath())
			}
			l := slices.Index(langs, lang)
			if l < 0 {
				return cli.UsageError(fmt.Errorf("--lang: there is no %q; there are: %s", lang, strings.Join(langs, ", ")), c.CommandPath())
			}
			return newPlugin(t, filepath.Clean(list[0]), pluginKinds()[i], pluginLanguages()[l], asJSON)
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	c.Flags().StringVar(&kind, "kind", names[0], "one of: "+strings.Join(names, ", "))
	c.Flags().StringVar(&lang, "lang", langs[0], "one of: "+strings.Join(langs, ", "))
	c.Flags().BoolVar(&asJSON, "json", false, cli.JSONUsage)
	cli.CompleteWords(c, "kind", names)
	cli.CompleteWords(c, "lang", langs)
	return c
}

// madePlugin is the output of plugin new --json.
type madePlugin struct {
	Dir    string   `json:"dir"`
	Plugin string   `json:"plugin"`
	Kind   string   `json:"kind"`
	Lang   string   `json:"lang"`
	Files  []string `json:"files"`
}

func newPlugin(t *ui.Terminal, dir string, kind pluginKind, lang pluginLanguage, asJSON bool) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return host.Errorf(host.FailedPrecondition, "make plugin: %w", err)
	}
	name := filepath.Base(abs)
	if !regexp.MustCompile(pluginName).MatchString(name) {
		return host.Errorf(host.InvalidArgument, "make plugin: %q is no name of a plugin", name).
			WithHint("name a directory with small letters, digits, _ and -, such as plugins/weather")
	}
	files, err := lang.files(abs, name, kind)
	if err != nil {
		return err
	}
	if there := existing(dir, files); there != "" {
		return host.Errorf(host.FailedPrecondition, "make plugin: %s has %s already", dir, there).
			WithHint("name another directory, which names the plugin: agenthost plugin new %s --kind %s%s", termtext.ShellWord(dir+"2"), kind.name, lang.flag())
	}
	written := slices.Sorted(maps.Keys(files))
	for _, file := range written {
		if err := writeNew(filepath.Join(dir, file), files[file]); err != nil {
			return host.Errorf(host.FailedPrecondition, "make plugin: %w", err).WithHint("name a directory that this user can write to")
		}
	}
	if asJSON {
		return ui.PrintJSON(t.Out, madePlugin{Dir: dir, Plugin: name, Kind: kind.name, Lang: lang.name, Files: written})
	}
	config, plugin := nearestProject(dir, abs)
	fmt.Fprintf(t.Out, "Made %s: %s.\n\n%s:\n", termtext.ShellWord(dir), kind.what, lang.doing)
	switch {
	case lang.tests != "":
		fmt.Fprintf(t.Out, "  (cd %s && %s)\n", termtext.ShellWord(dir), lang.tests)
	case len(lang.build) > 0:
		fmt.Fprintf(t.Out, "  %s plugin build %s\n", ui.Self(), termtext.ShellWord(dir))
	}
	fmt.Fprintf(t.Out, "  %s plugin test %s\n\nUse it in %s:\n  plugins: {%s: {%s}}\n  %s\n",
		ui.Self(), termtext.ShellWord(filepath.Join(dir, lang.module(name))), config, name, lang.entry(plugin, name), strings.ReplaceAll(kind.use, "NAME", name))
	return nil
}

// nearestProject names the configuration of the project that a directory is in, and the
// directory as that configuration does: from where the file is. Outside of a project it is any
// configuration, and the directory of the command line.
func nearestProject(dir, abs string) (config, plugin string) {
	for up := ".."; ; up = filepath.Join(up, "..") {
		at := filepath.Join(abs, up)
		if _, err := os.Stat(filepath.Join(at, project.FileName)); err == nil {
			if plugin, err = filepath.Rel(at, abs); err == nil {
				return termtext.Printable(filepath.Join(dir, up, project.FileName)), filepath.ToSlash(plugin)
			}
		}
		if at == filepath.Dir(at) {
			return "a configuration", dir
		}
	}
}

// goFiles returns the files of a new plugin in Go, by their names in it.
func goFiles(dir, name string, kind pluginKind) (map[string][]byte, error) {
	files := map[string][]byte{}
	if err := addFiles(files, "", templates, path.Join("templates/plugin", kind.name), all); err != nil {
		return nil, err
	}
	nameFiles(files, name)
	inModule, err := inKitModule(dir)
	if inModule || err != nil {
		return files, err
	}
	files["go.mod"] = goMod(name)
	files[kitDir+"/go.mod"] = kitGoMod()
	return files, addKit(files)
}

// inKitModule reports whether a directory is in a Go module that requires the kit, or is
// the kit's. Code failed_precondition for a module that does not.
func inKitModule(dir string) (bool, error) {
	for at := dir; ; at = filepath.Dir(at) {
		text, err := os.ReadFile(filepath.Join(at, "go.mod"))
		switch {
		case err == nil && bytes.Contains(text, []byte(kitModule)):
			return true, nil
		case err == nil:
			return false, host.Errorf(host.FailedPrecondition, "make plugin: the Go module in %s does not require %s", at, kitModule).
				WithHint("run there: go get %s; or name a directory outside of it", kitModule)
		case !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission):
			return false, host.Errorf(host.FailedPrecondition, "make plugin: %w", err)
		}
		if at == filepath.Dir(at) {
			return false, nil
		}
	}
}

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/examples"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/project"
)

// projectOpener has the options of projects that commands open.
type projectOpener struct {
	term    *ui.Terminal
	getenv  func(string) string
	plugins *pluginOpener
}

func newProjectOpener(t *ui.Terminal, getenv func(string) string, plugins *pluginOpener) *projectOpener {
	return &projectOpener{t, getenv, plugins}
}

// options are those of every project that a command opens.
func (p *projectOpener) options() *project.Options {
	return &project.Options{Getenv: p.getenv, Modules: p.plugins.modules(), Logger: p.term.Logger(), Progress: p.term.Announce, Erasing: func(tenants int) {
		fmt.Fprintf(p.term.Err, "Ending the deletion of %s that was interrupted.\n", ui.Plural(tenants, "tenant"))
	}}
}

// quietOptions are options without warnings: the command itself shows their subject.
func (p *projectOpener) quietOptions() *project.Options {
	opts := p.options()
	opts.Logger = p.term.QuietLogger()
	return opts
}

// exampleProject names the project that every binary has: the order desk of the demo.
const exampleProject = project.BuiltinPrefix + "orderdesk"

// openProject reads the configuration of the project that a command line names: a
// file, a directory, or exampleProject.
func openProject(where string) (*project.File, error) {
	if where == exampleProject {
		return project.ReadFile(examples.Files, strings.TrimPrefix(where, project.BuiltinPrefix))
	}
	return project.ReadFile(nil, where)
}

// checkChangeable refuses to change the project that is in the binary.
func checkChangeable(c *project.File) error {
	if !c.Embedded() {
		return nil
	}
	return host.Errorf(host.FailedPrecondition, "%s is in the binary and cannot be changed", exampleProject).
		WithHint("make a project of your own: agenthost init shop --template tools")
}

// completeFlag completes a flag with names of the project that the command line
// begins with.
func completeFlag(c *cobra.Command, flag string, names func(*project.File) []string) {
	err := c.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, list []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(list) > 0 {
			if c, err := openProject(list[0]); err == nil {
				return names(c), cobra.ShellCompDirectiveNoFileComp
			}
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // there is no such flag
	}
}

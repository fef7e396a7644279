package open

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/examples"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/sigstore"
	"github.com/agenthost/agenthost/host/project"
)

// Projects has the options of projects that commands open.
type Projects struct {
	term    *ui.Terminal
	getenv  func(string) string
	plugins *Plugins

	waitLock time.Duration // set by the flag of AddWaitLock
}

// NewProjects returns an opener that reports on t.
func NewProjects(t *ui.Terminal, getenv func(string) string, plugins *Plugins) *Projects {
	return &Projects{term: t, getenv: getenv, plugins: plugins}
}

// AddWaitLock adds the flag --wait-lock, whose value [Projects.Options] has.
func (p *Projects) AddWaitLock(flags *pflag.FlagSet) { addWaitLock(flags, &p.waitLock) }

// Options are those of every project that a command opens.
func (p *Projects) Options() *project.Options {
	return &project.Options{Getenv: p.getenv, Modules: p.plugins.Modules(), Logger: p.term.Logger(), WaitLock: p.waitLock, Progress: p.term.Announce, Sigstore: sigstore.New, Erasing: func(tenants int) {
		fmt.Fprintf(p.term.Err, "Ending the deletion of %s that was interrupted.\n", ui.Plural(tenants, "tenant"))
	}}
}

// QuietOptions are options without warnings: the command itself shows their subject.
func (p *Projects) QuietOptions() *project.Options {
	opts := p.Options()
	opts.Logger = p.term.QuietLogger()
	return opts
}

// ExampleProject names the project that every binary has: the order desk of the demo.
const ExampleProject = project.BuiltinPrefix + "orderdesk"

// ReadProject reads the configuration of the project that a command line names: a
// file, a directory, or ExampleProject.
func ReadProject(where string) (*project.File, error) {
	if where == ExampleProject {
		return project.ReadFile(examples.Files, strings.TrimPrefix(where, project.BuiltinPrefix))
	}
	return project.ReadFile(nil, where)
}

// CheckChangeable refuses to change the project that is in the binary.
func CheckChangeable(c *project.File) error {
	if !c.Embedded() {
		return nil
	}
	return host.Errorf(host.FailedPrecondition, "%s is in the binary and cannot be changed", ExampleProject).
		WithHint("make a project of your own: agenthost init shop --template tools")
}

// CompleteFlag completes a flag with names of the project that the command line
// begins with.
func CompleteFlag(c *cobra.Command, flag string, names func(*project.File) []string) {
	err := c.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, list []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(list) > 0 {
			if c, err := ReadProject(list[0]); err == nil {
				return names(c), cobra.ShellCompDirectiveNoFileComp
			}
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // there is no such flag
	}
}

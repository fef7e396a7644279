package projectcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/open"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/internal/termtext"
)

// NewValidate returns the command agenthost validate.
func NewValidate(t *ui.Terminal, projects *open.Projects) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "validate [PROJECT]",
		Short: "Check a project with all its files, without running it",
		Long: `Check a project with all its files, without running it: the configuration, the
rules of scripted models, schemas, templates, and the plugins, which are built and loaded.
No model is asked, and nothing is stored. Keys of models need not be set.

A mistake is named with its file, line and column, and with the likely intention. The exit
code is 0 for a project that can run, 3 for one with a mistake, and as of other commands
otherwise.`,
		Example: "  agenthost validate shop\n  agenthost validate shop --json",
		Args:    cli.Args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			where := "."
			if len(list) > 0 {
				where = list[0]
			}
			found, err := validate(c.Context(), projects, where)
			switch {
			case asJSON && err != nil:
				return printProblem(t, where, err)
			case err != nil:
				return err
			case asJSON:
				return ui.PrintJSON(t.Out, found)
			}
			found.print(t)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, cli.JSONUsage)
	return c
}

// validation is the output of validate --json.
type validation struct {
	Valid    bool      `json:"valid"`
	File     string    `json:"file"`
	Targets  []string  `json:"targets,omitempty"`
	Models   []string  `json:"models,omitempty"`
	Plugins  []string  `json:"plugins,omitempty"`
	Unset    []string  `json:"unset,omitempty"` // variables that hold keys, and are not set
	Problems []problem `json:"problems,omitempty"`
}

// problem is a mistake, and its place if that is known.
type problem struct {
	File    string    `json:"file,omitempty"`
	Line    int       `json:"line,omitempty"`
	Column  int       `json:"column,omitempty"`
	Code    host.Code `json:"code"`
	Message string    `json:"message"`
	Hint    string    `json:"hint,omitempty"`
}

// validate wires the project in memory, as a run would, and closes it.
func validate(ctx context.Context, projects *open.Projects, where string) (*validation, error) {
	file, err := open.ReadProject(where)
	if err != nil {
		return nil, err
	}
	opts := projects.Options()
	keys := &unsetKeys{getenv: opts.Getenv}
	opts.Getenv = keys.get
	a, err := project.Open(ctx, file, opts)
	if err != nil {
		return nil, err
	}
	found := &validation{Valid: true, File: file.Name(), Targets: a.Targets(), Models: file.Models(), Unset: keys.names}
	for _, id := range file.Plugins() {
		if a.Plugin(id) != nil {
			found.Plugins = append(found.Plugins, id)
		}
	}
	return found, a.Close()
}

// unsetKeys stands in for keys that are not set, and remembers their variables: a project
// is checked where its keys are not known.
type unsetKeys struct {
	getenv func(string) string

	mu    sync.Mutex
	names []string
}

func (u *unsetKeys) get(name string) string {
	value := u.getenv(name)
	if value != "" || strings.HasPrefix(name, "AGENTHOST_") || !strings.HasSuffix(name, "_KEY") {
		return value
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if !slices.Contains(u.names, name) {
		u.names = append(u.names, name)
	}
	return "not-set"
}

func (v *validation) print(t *ui.Terminal) {
	fmt.Fprintf(t.Out, "%s is valid: %s, %s, %s.\n", termtext.Printable(v.File),
		ui.Plural(len(v.Targets), "target"), ui.Plural(len(v.Models), "configured model"), ui.Plural(len(v.Plugins), "plugin"))
	for _, name := range v.Unset {
		fmt.Fprintf(t.Out, "To run it, set %s.\n", termtext.Printable(name))
	}
}

// printProblem prints the mistake of a project as JSON, and returns the exit code.
func printProblem(t *ui.Terminal, where string, err error) error {
	e := fault.AsError(err)
	p := problem{Code: e.Code, Message: e.Message, Hint: e.Hint}
	var at *project.Mistake
	if errors.As(err, &at) {
		p.File, p.Line, p.Column, p.Message = at.File, at.Line, at.Column, at.Message
		where = at.File
	}
	if err := ui.PrintJSON(t.Out, validation{File: where, Problems: []problem{p}}); err != nil {
		return err
	}
	return cli.QuietExit(cli.ExitCode(err))
}

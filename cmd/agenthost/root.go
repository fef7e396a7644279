package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/internal/termtext"
)

func newRoot(env *environment) *cobra.Command {
	root := &cobra.Command{
		Use:   "agenthost",
		Short: "Run networks of agents made of sandboxed plugins",
		Long: `agenthost runs networks of LLM agents and keeps their conversations. Tools,
routers, history processors and context providers are WebAssembly modules:
written in any language, limited, permissioned, unable to hurt the host.

Start with:   agenthost demo`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version(),
	}
	root.SetIn(env.stdin)
	root.SetOut(env.stdout)
	root.SetErr(env.stderr)
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error { // before cobra does it, whose error has no type
		if err := c.ValidateFlagGroups(); err != nil {
			return usageError(err, root.CommandPath())
		}
		return nil
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return usageError(err, c.CommandPath()) })
	t := env.terminal()
	dirs := newDataOpener(t, env.getenv)
	plugins := newPluginOpener(t, env.getenv, env.compiler.option())
	projects := newProjectOpener(t, env.getenv, plugins)
	root.AddCommand(
		demoCommand(t, projects),
		runCommand(t, projects),
		devCommand(t, projects),
		chatCommand(t),
		sessionCommand(t),
		threadCommand(t, dirs),
		dataCommand(t, dirs),
		queueCommand(t, dirs),
		traceCommand(t, dirs),
		pluginCommand(t, plugins, projects, dirs),
		processorsCommand(t, plugins, projects),
		tokensCommand(t),
		initCommand(t),
		doctorCommand(t, plugins, dirs),
		schemaCommand(t),
		environmentTopic(),
		exitCodesTopic(),
	)
	return root
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// usageError makes err an error in the command line of a command: exit code 2, with a
// pointer to the command's help.
func usageError(err error, command string) error { return usageFault{err, command} }

type usageFault struct {
	err     error
	command string
}

func (e usageFault) Error() string { return e.err.Error() }
func (e usageFault) Unwrap() error { return e.err }

// noArgs refuses every argument: of a command with others below it, an argument is the
// name of none of them.
func noArgs(c *cobra.Command, list []string) error {
	if len(list) == 0 {
		return nil
	}
	return usageError(fmt.Errorf("unknown command %q for %q", list[0], c.CommandPath()), c.CommandPath())
}

// args makes cobra's checks of positional arguments usage errors.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, list []string) error {
		err := check(c, list)
		var hinted *hintedUsage
		if err != nil && !errors.As(err, &hinted) {
			err = fmt.Errorf("%s given; the command is: %s", ui.Plural(len(list), "argument"), strings.TrimSuffix(c.UseLine(), " [flags]"))
		}
		if err != nil {
			return usageError(err, c.CommandPath())
		}
		return nil
	}
}

// oneText wants so many arguments and a text behind them, and gives a hint if the words
// of the text are separate arguments. Only the prompt of a run may be left out.
func oneText(before int, hint string) cobra.PositionalArgs {
	return func(c *cobra.Command, list []string) error {
		switch {
		case len(list) <= before+1 && (len(list) == before+1 || len(list) == before && strings.Contains(c.Use, "[PROMPT")):
			return nil
		case len(list) <= before+1:
			return fmt.Errorf("%s", c.UseLine())
		}
		words := make([]string, 0, before+2)
		words = append(words, c.CommandPath())
		for _, w := range list[:before] {
			words = append(words, termtext.ShellWord(w))
		}
		text := strings.Join(list[before:], " ")
		return &hintedUsage{ui.Plural(len(list), "argument") + " given; the command is: " + strings.TrimSuffix(c.UseLine(), " [flags]"),
			hint + ": " + strings.Join(append(words, quotedText(text)), " ")}
	}
}

// hintedUsage is an error about the command line with a corrected command line.
type hintedUsage struct{ text, hint string }

func (e *hintedUsage) Error() string { return e.text }

// quotedText quotes a text for a shell as people do.
func quotedText(s string) string {
	if strings.ContainsAny(s, "\"\\$`!") {
		return termtext.ShellWord(s)
	}
	return `"` + ui.Clip(s) + `"`
}

// The exit codes that are not a host.Code's.
const (
	exitOK    = 0
	exitUsage = 2
	exitPipe  = 141 // the shells' code for a program that SIGPIPE has ended
)

// quietExit ends a command with a code and prints nothing more.
type quietExit int

func (q quietExit) Error() string { return fmt.Sprintf("exit %d", int(q)) }

// wantsJSON reports whether a command line asks for JSON: errors are then JSON, too,
// even one about the command line.
func wantsJSON(args []string) bool {
	for _, a := range args {
		switch a {
		case "--":
			return false
		case "--json", "--json=true":
			return true
		}
	}
	return false
}

// writtenError is an error as a command with --json writes it to stderr.
type writtenError struct {
	Error *host.Error `json:"error"`
}

// exit prints an error, for people or as JSON, and returns the exit code.
func exit(stderr io.Writer, err error, asJSON bool) int {
	var usage usageFault
	var quiet quietExit
	isUsage := errors.As(err, &usage)
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &quiet):
		return int(quiet)
	case asJSON && isUsage:
		_ = ui.PrintJSON(stderr, writtenError{commandLineError(err)}) // a failed write to stderr has no other place to be reported
		return exitUsage
	case asJSON:
		_ = ui.PrintJSON(stderr, writtenError{host.AsError(err)})
		return exitCode(err)
	case isUsage:
		var hinted *hintedUsage
		if errors.As(err, &hinted) {
			err = fmt.Errorf("%w\n  → %s", err, hinted.hint)
		}
		fmt.Fprintf(stderr, "agenthost: %v\nSee: %s --help\n", err, usage.command)
		return exitUsage
	}
	fmt.Fprintf(stderr, "agenthost: %s\n", ui.ErrorText(err))
	return exitCode(err)
}

// commandLineError is an error about the command line as one of the host's.
func commandLineError(err error) *host.Error {
	e := &host.Error{Code: host.InvalidArgument, Message: err.Error()}
	var hinted *hintedUsage
	if errors.As(err, &hinted) {
		e.Hint = hinted.hint
	}
	return e
}

// exitCode maps an error to the table of exit codes. A model that does not answer in
// time counts as unavailable: the model's server failed, although this host's timeout
// ended the request.
func exitCode(err error) int {
	code := host.CodeOf(err)
	if code == host.DeadlineExceeded && errors.Is(err, project.ErrSlow) {
		code = host.Unavailable
	}
	return code.ExitCode()
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

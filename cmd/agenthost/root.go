package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/agenthost/agenthost/host"
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
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return usageError{err, c.CommandPath()} })
	root.AddCommand(
		demoCommand(env),
		runCommand(env),
		devCommand(env),
		chatCommand(env),
		sessionCommand(env),
		threadCommand(env),
		dataCommand(env),
		queueCommand(env),
		traceCommand(env),
		pluginCommand(env),
		processorsCommand(env),
		tokensCommand(env),
		initCommand(env),
		doctorCommand(env),
		schemaCommand(env),
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

// usageError is a command line that makes no sense: exit code 2.
type usageError struct {
	err     error
	command string
}

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// args makes cobra's checks of positional arguments usage errors.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, list []string) error {
		err := check(c, list)
		if err != nil && !strings.HasPrefix(err.Error(), "unknown command") {
			err = fmt.Errorf("%s given; the command is: %s", plural(len(list), "argument"), strings.TrimSuffix(c.UseLine(), " [flags]"))
		}
		if err != nil {
			return usageError{err, c.CommandPath()}
		}
		return nil
	}
}

// plural counts something for people: 1 message, 1,500 messages.
func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return thousands(int64(n)) + " " + noun
}

// The exit codes that are not a host.Code's.
const (
	exitOK    = 0
	exitUsage = 2
)

// quietExit ends a command with a code when everything has been said.
type quietExit int

func (q quietExit) Error() string { return fmt.Sprintf("exit %d", int(q)) }

// exit prints an error for people and returns the exit code.
func exit(env *environment, err error) int {
	var usage usageError
	var quiet quietExit
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &quiet):
		return int(quiet)
	case errors.As(err, &usage):
		fmt.Fprintf(env.stderr, "agenthost: %v\nSee: %s --help\n", err, usage.command)
		return exitUsage
	case isParseError(err):
		fmt.Fprintf(env.stderr, "agenthost: %v\nSee: agenthost --help\n", err)
		return exitUsage
	}
	fmt.Fprintf(env.stderr, "agenthost: %s\n", sentence(err))
	return exitCode(err)
}

// exitCode maps an error to the table of exit codes. A model that does not
// answer in time is somebody else's failure, although it is our patience that
// ended.
func exitCode(err error) int {
	code := host.CodeOf(err)
	if code == host.DeadlineExceeded && errors.Is(err, errSlow) {
		code = host.Unavailable
	}
	return code.ExitCode()
}

// sentence puts the next step on a line of its own, where an error ends with
// one.
func sentence(err error) string {
	text := err.Error()
	if hint := lastHint(err, text); hint != "" {
		return strings.TrimSuffix(text, "; "+hint) + "\n  → " + hint
	}
	return text
}

// lastHint finds the hint in err's tree that text ends with.
func lastHint(err error, text string) string {
	if e, ok := err.(*host.Error); ok && e.Hint != "" && strings.HasSuffix(text, "; "+e.Hint) {
		return e.Hint
	}
	var causes []error
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		causes = []error{err.Unwrap()}
	case interface{ Unwrap() []error }:
		causes = err.Unwrap()
	}
	for _, cause := range causes {
		if cause == nil {
			continue
		}
		if hint := lastHint(cause, text); hint != "" {
			return hint
		}
	}
	return ""
}

// isParseError recognises what cobra says of words that are no command and of
// flags that exclude each other, which have no type.
func isParseError(err error) bool {
	var e *host.Error
	text := err.Error()
	return !errors.As(err, &e) && (strings.HasPrefix(text, "unknown command") || strings.HasPrefix(text, "if any flags in the group"))
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// printJSON writes one JSON value on a line.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

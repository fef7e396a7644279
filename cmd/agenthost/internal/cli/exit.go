package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/project"
)

// The exit codes that are not a host.Code's.
const (
	ExitOK      = 0
	ExitUsage   = 2
	ExitWaiting = 8   // a run waits for a person's answer
	ExitPipe    = 141 // the shells' code for a program that SIGPIPE has ended
)

// HintIfMissing adds a next step to an error with the code not_found that has none.
func HintIfMissing(err error, format string, args ...any) error {
	var missing *host.Error
	if !errors.As(err, &missing) || missing.Code != host.NotFound || missing.Hint != "" {
		return err
	}
	return host.Errorf(host.NotFound, "%w", err).WithHint(format, args...)
}

// QuietExit ends a command with a code and prints nothing more.
type QuietExit int

// Error implements error.
func (q QuietExit) Error() string { return fmt.Sprintf("exit %d", int(q)) }

// JoinClose joins the error of a command with that of closing what it used. A command
// that would end quietly does not hide that closing failed.
func JoinClose(err, closing error) error {
	var quiet QuietExit
	if closing != nil && errors.As(err, &quiet) {
		return closing
	}
	return errors.Join(err, closing)
}

// WantsJSON reports whether a command line asks for JSON: errors are then JSON, too,
// even one about the command line.
func WantsJSON(args []string) bool {
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

// Exit prints an error, for people or as JSON, and returns the exit code.
func Exit(stderr io.Writer, err error, asJSON bool) int {
	var usage usageFault
	var quiet QuietExit
	isUsage := errors.As(err, &usage)
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &quiet):
		return int(quiet)
	case asJSON && isUsage:
		_ = ui.PrintJSON(stderr, writtenError{commandLineError(err)}) // a failed write to stderr has no other place to be reported
		return ExitUsage
	case asJSON:
		_ = ui.PrintJSON(stderr, writtenError{fault.AsError(err)})
		return ExitCode(err)
	case isUsage:
		var hinted *hintedUsage
		if errors.As(err, &hinted) {
			err = fmt.Errorf("%w\n  → %s", err, hinted.hint)
		}
		fmt.Fprintf(stderr, "agenthost: %s\nSee: %s --help\n", ui.ErrorText(err), usage.command)
		return ExitUsage
	}
	fmt.Fprintf(stderr, "agenthost: %s\n", ui.ErrorText(err))
	return ExitCode(err)
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

// ExitCode maps an error to the table of exit codes. A model that does not answer in
// time counts as unavailable: the model's server failed, although this host's timeout
// ended the request.
func ExitCode(err error) int {
	code := host.CodeOf(err)
	if code == host.DeadlineExceeded && errors.Is(err, project.ErrSlow) {
		code = host.Unavailable
	}
	return code.ExitCode()
}

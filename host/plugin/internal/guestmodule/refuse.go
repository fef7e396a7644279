package guestmodule

import "github.com/agenthost/agenthost/host/fault"

// refuse returns the error for a module that is malformed or beyond a limit. Its code
// is invalid_argument, also for limits: no waiting makes the same file acceptable.
func refuse(format string, args ...any) *fault.Error {
	return fault.Errorf(fault.InvalidArgument, format, args...)
}

// unsupported returns the error for a module that is made for another host.
func unsupported(format string, args ...any) *fault.Error {
	return fault.Errorf(fault.FailedPrecondition, format, args...)
}

// first returns the first of several problems, nil for an empty list.
func first(problems []error) error {
	if len(problems) == 0 {
		return nil
	}
	return problems[0]
}

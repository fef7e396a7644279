// Package refusal makes the errors for a plugin's file that the host does not accept: a
// module, a manifest, or a manifest of Extism. Each says the finding and the bound;
// WithHint adds the remedy.
package refusal

import "github.com/agenthost/agenthost/host/fault"

// Invalid returns the error for a file that is malformed or beyond a limit. Its code is
// invalid_argument, also for limits: resource_exhausted would promise that waiting or
// more quota makes the same file acceptable.
func Invalid(format string, args ...any) *fault.Error {
	return fault.Errorf(fault.InvalidArgument, format, args...)
}

// Unsupported returns the error for a sound file that needs another host: a component, a
// later WebAssembly, another ABI. Its code is failed_precondition.
func Unsupported(format string, args ...any) *fault.Error {
	return fault.Errorf(fault.FailedPrecondition, format, args...)
}

// First returns the first of several problems, nil for an empty list.
func First(problems []error) error {
	if len(problems) == 0 {
		return nil
	}
	return problems[0]
}

package wasmmeter

import (
	"errors"

	"github.com/agenthost/agenthost/host/fault"
)

// ErrInitialMemory is in the chain of the error for a module whose memory begins with
// more pages than the limit.
var ErrInitialMemory = errors.New("the initial memory is more than the limit")

// refuse returns the error for a module that is malformed or beyond a limit, with the
// finding and the bound. WithHint adds the remedy. Its code is invalid_argument, also
// for limits: resource_exhausted would promise that waiting or more quota makes the
// same file acceptable.
func refuse(format string, args ...any) *fault.Error {
	return fault.Errorf(fault.InvalidArgument, format, args...)
}

// unsupported returns the error for a sound module that needs another host: a
// component, a later WebAssembly, another ABI.
func unsupported(format string, args ...any) *fault.Error {
	return fault.Errorf(fault.FailedPrecondition, format, args...)
}

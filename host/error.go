package host

import (
	"github.com/agenthost/agenthost/host/fault"
)

// The errors of this package are those of the package fault, so that packages that
// need no more of host than its errors need not import it.

// Error is an error with a code: see [fault.Error].
type Error = fault.Error

// Code is the kind of failure of an [Error]. Callers branch on it with [CodeOf],
// never on an error's text.
type Code = fault.Code

// The codes: see [fault.Code].
const (
	InvalidArgument    = fault.InvalidArgument
	Unauthenticated    = fault.Unauthenticated
	PermissionDenied   = fault.PermissionDenied
	NotFound           = fault.NotFound
	AlreadyExists      = fault.AlreadyExists
	Conflict           = fault.Conflict
	ResourceExhausted  = fault.ResourceExhausted
	FailedPrecondition = fault.FailedPrecondition
	DeadlineExceeded   = fault.DeadlineExceeded
	Canceled           = fault.Canceled
	Unavailable        = fault.Unavailable
	Unimplemented      = fault.Unimplemented
	DataLoss           = fault.DataLoss
	Internal           = fault.Internal
)

// Errorf returns an [*Error] with the given code: see [fault.Errorf].
func Errorf(code Code, format string, args ...any) *Error {
	return fault.Errorf(code, format, args...)
}

// CodeOf returns the code of the outermost [*Error] in err's chain: see [fault.CodeOf].
func CodeOf(err error) Code { return fault.CodeOf(err) }

// wrapError adds the operation to err's message and keeps its code: see [fault.Wrap].
func wrapError(err error, format string, args ...any) error { return fault.Wrap(err, format, args...) }

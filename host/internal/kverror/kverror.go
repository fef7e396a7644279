// Package kverror maps the errors of stores to the codes of package host.
package kverror

import (
	"context"
	"errors"
	"fmt"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/kv"
)

// codes is the one table from a driver's errors to codes. The text of an error is the
// sentinel's: the details that drivers add to it name files and keys.
var codes = []struct {
	is   error
	code fault.Code
	hint string
}{
	{kv.ErrClosed, fault.Unavailable, "open it again"},
	{kv.ErrReadOnly, fault.FailedPrecondition, "look into the log for why, then open it again"},
	{kv.ErrLocked, fault.FailedPrecondition, "stop the process that has it open, or wait for it"},
	{kv.ErrNoSpace, fault.ResourceExhausted, "free some space; nothing was written"},
	{kv.ErrUnavailable, fault.Unavailable, "try again; nothing was written"},
	{kv.ErrDenied, fault.PermissionDenied, "look into the log for why; nothing was written"},
	{kv.ErrInDoubt, fault.Unavailable, "open the store again and repeat the request; nothing is stored twice"},
	{kv.ErrErasing, fault.FailedPrecondition, "wait until the tenant's data is erased"},
	{kv.ErrCorrupt, fault.DataLoss, "restore it from a backup"},
	{kv.ErrFormat, fault.FailedPrecondition, "open it with the version that wrote it, or a newer one; nothing was changed"},
	{kv.ErrTooLarge, fault.ResourceExhausted, "store less at once; large content belongs into artifacts"},
	{kv.ErrPrecondition, fault.Conflict, "somebody else has written; load it and try again"},
	{kv.ErrInvalid, fault.InvalidArgument, ""},
}

// Wrap names the operation and gives a driver's error its code. It returns nil and
// errors with a code unchanged.
func Wrap(err error, format string, args ...any) error {
	var own *fault.Error
	if err == nil || errors.As(err, &own) {
		return err
	}
	doing := fmt.Sprintf(format, args...)
	for _, e := range codes {
		if errors.Is(err, e.is) {
			return &fault.Error{Code: e.code, Message: doing + ": " + e.is.Error(), Hint: e.hint, Retryable: e.code == fault.Unavailable, Err: err}
		}
	}
	code := fault.CodeOf(err)
	cause := "the store failed"
	switch code {
	case fault.Canceled:
		cause = context.Canceled.Error()
	case fault.DeadlineExceeded:
		cause = context.DeadlineExceeded.Error()
	}
	return &fault.Error{Code: code, Message: doing + ": " + cause, Err: err}
}

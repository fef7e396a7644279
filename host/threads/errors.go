package threads

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
)

// kvErrors is the one table from a driver's errors to codes. The text of an
// error is the sentinel's: what drivers add to it names files and keys.
var kvErrors = []struct {
	is   error
	code host.Code
	hint string
}{
	{kv.ErrClosed, host.Unavailable, "open it again"},
	{kv.ErrReadOnly, host.FailedPrecondition, "look into the log for why, then open it again"},
	{kv.ErrLocked, host.FailedPrecondition, "stop the process that has it open, or wait for it"},
	{kv.ErrNoSpace, host.ResourceExhausted, "free some space; nothing was written"},
	{kv.ErrInDoubt, host.Unavailable, "open the store again and repeat the request; nothing is stored twice"},
	{kv.ErrCorrupt, host.DataLoss, "restore it from a backup"},
	{kv.ErrFormat, host.FailedPrecondition, "open it with the version that wrote it, or a newer one; nothing was changed"},
	{kv.ErrTooLarge, host.ResourceExhausted, "store less at once; large content belongs into artifacts"},
	{kv.ErrPrecondition, host.Conflict, "load the thread and try again"},
	{kv.ErrInvalid, host.InvalidArgument, ""},
}

// wrap says what was being done and gives a driver's error its code. It leaves
// nil and errors that have a code alone.
func wrap(err error, format string, args ...any) error {
	var own *host.Error
	if err == nil || errors.As(err, &own) {
		return err
	}
	doing := fmt.Sprintf(format, args...)
	for _, e := range kvErrors {
		if errors.Is(err, e.is) {
			return &host.Error{Code: e.code, Message: doing + ": " + e.is.Error(), Hint: e.hint, Retryable: e.code == host.Unavailable, Err: err}
		}
	}
	code := host.CodeOf(err)
	cause := "the store failed"
	switch code {
	case host.Canceled:
		cause = context.Canceled.Error()
	case host.DeadlineExceeded:
		cause = context.DeadlineExceeded.Error()
	}
	return &host.Error{Code: code, Message: doing + ": " + cause, Err: err}
}

// keepPrecondition is wrap for callers that say themselves what a failed
// precondition means.
func keepPrecondition(err error, format string, args ...any) error {
	if errors.Is(err, kv.ErrPrecondition) {
		return err
	}
	return wrap(err, format, args...)
}

func notFound(id string) error {
	return host.Errorf(host.NotFound, "there is no thread %q", id)
}

func moved(id string) error {
	return host.Errorf(host.Conflict, "thread %q has moved on since this turn began", id).
		WithHint("its messages are kept; load the thread and run the turn again, or let turns wait for each other")
}

func damaged(format string, args ...any) error {
	return host.Errorf(host.DataLoss, format, args...).WithHint("restore it from a backup")
}

// DefaultTenant is the tenant of requests that name none.
const DefaultTenant = "default"

// partition returns where a tenant's threads are.
func partition(tenant string) (string, error) {
	if tenant == "" {
		return DefaultTenant, nil
	}
	if len(tenant) > MaxTenantBytes {
		return "", host.Errorf(host.InvalidArgument, "tenant name is %d bytes long, more than %d", len(tenant), MaxTenantBytes)
	}
	return tenant, nil
}

// ValidateID returns an error of code invalid_argument if no thread can have
// that id: it must be UTF-8 of 1 to [MaxThreadIDBytes] bytes without NUL.
func ValidateID(id string) error { return validID("thread", id, MaxThreadIDBytes) }

func validID(what, id string, limit int) error {
	switch {
	case id == "":
		return host.Errorf(host.InvalidArgument, "%s has no id", what).WithHint("name one")
	case len(id) > limit:
		return host.Errorf(host.InvalidArgument, "%s id %.20q... is %d bytes long, more than %d", what, id, len(id), limit)
	case !utf8.ValidString(id):
		return host.Errorf(host.InvalidArgument, "%s id %q is not UTF-8", what, id)
	}
	for _, r := range id {
		if r == 0 {
			return host.Errorf(host.InvalidArgument, "%s id %q contains NUL", what, id)
		}
	}
	return nil
}

// contextError is ctx's end as an error with its code.
func contextError(ctx context.Context, format string, args ...any) error {
	doing := fmt.Sprintf(format, args...)
	cause := context.Cause(ctx)
	return &host.Error{Code: host.CodeOf(ctx.Err()), Message: doing + ": " + cause.Error(), Err: cause}
}

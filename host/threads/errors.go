package threads

import (
	"context"
	"errors"
	"fmt"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads/internal/tenantkv"
)

// wrap names the failed operation and gives a driver's error its code.
func wrap(err error, format string, args ...any) error { return kverror.Wrap(err, format, args...) }

// keepPrecondition is wrap for callers that translate a failed precondition
// themselves.
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

func damaged(format string, args ...any) error { return tenantkv.Damaged(format, args...) }

// encode is [tenantkv.Encode].
func encode(v any) ([]byte, error) { return tenantkv.Encode(v) }

// decode is [tenantkv.Decode].
func decode(value []byte, into any, what, name string) error {
	return tenantkv.Decode(value, into, what, name)
}

// DefaultTenant is the tenant of requests that name none.
const DefaultTenant = host.DefaultTenant

// ValidateID returns an error of code invalid_argument if no thread can have
// that id: it must be UTF-8 of 1 to [MaxThreadIDBytes] bytes without control
// characters.
func ValidateID(id string) error { return chat.ValidateID("thread", id, MaxThreadIDBytes) }

// contextError is ctx's end as an error with its code.
func contextError(ctx context.Context, format string, args ...any) error {
	doing := fmt.Sprintf(format, args...)
	cause := context.Cause(ctx)
	return &host.Error{Code: host.CodeOf(ctx.Err()), Message: doing + ": " + cause.Error(), Err: cause}
}

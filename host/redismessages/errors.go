package redismessages

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/agenthost/agenthost/host"
)

// serverErrors translate the first words of a server's error for a caller: the protocol
// has no other codes.
var serverErrors = []struct {
	word string
	code host.Code
	says string
	hint string
}{
	{"NOAUTH", host.Unauthenticated, "the server wants a password", "put it into the url"},
	{"WRONGPASS", host.Unauthenticated, "the server refuses the user or the password", ""},
	{"NOPERM", host.PermissionDenied, "the user may not do this", "allow it the commands on lists and transactions, and the keys of the prefix"},
	{"OOM", host.ResourceExhausted, "the server has no memory left", "set MaxMessages, or give it more"},
	{"WRONGTYPE", host.FailedPrecondition, "the key holds something that is no list", "choose another key_prefix"},
	{"READONLY", host.FailedPrecondition, "the server takes no writes", "connect to the primary"},
	{"MISCONF", host.FailedPrecondition, "the server cannot write to its disk, and takes no writes", ""},
	{"LOADING", host.Unavailable, "the server loads its data", "try again"},
	{"BUSY", host.Unavailable, "the server runs a script", "try again"},
	{"MASTERDOWN", host.Unavailable, "the primary is down", "try again"},
	{"CLUSTERDOWN", host.Unavailable, "the cluster is down", "try again"},
	{"TRYAGAIN", host.Unavailable, "the cluster moves the key", "try again"},
}

// abortCause returns the error of the command for which the server discarded a
// transaction, in place of the EXECABORT that the whole transaction ends with.
func abortCause(cmds []redis.Cmder, err error) error {
	if err == nil || !redis.HasErrorPrefix(err, "EXECABORT") {
		return err
	}
	for _, c := range cmds {
		if cause := c.Err(); cause != nil && !redis.HasErrorPrefix(cause, "EXECABORT") {
			return cause
		}
	}
	return err
}

// wrap names the operation and translates the client's error, once.
func wrap(err error, format string, args ...any) error {
	var own *host.Error
	if err == nil || errors.As(err, &own) {
		return err
	}
	doing := fmt.Sprintf(format, args...)
	for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, end) {
			return &host.Error{Code: host.CodeOf(end), Message: doing + ": " + end.Error(), Err: err}
		}
	}
	var server redis.Error
	var network net.Error
	if errors.As(err, &server) && !errors.As(err, &network) {
		for _, e := range serverErrors {
			if redis.HasErrorPrefix(server, e.word) {
				return &host.Error{Code: e.code, Message: doing + ": " + e.says, Hint: e.hint, Retryable: e.code == host.Unavailable, Err: err}
			}
		}
		return &host.Error{Code: host.Internal, Message: doing + ": the server refuses it", Err: err}
	}
	return &host.Error{Code: host.Unavailable, Message: doing + ": the server cannot be reached", Retryable: true, Err: err}
}

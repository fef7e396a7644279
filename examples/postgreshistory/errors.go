package postgreshistory

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/agenthost/agenthost/host"
)

// sqlErrors translate classes and codes of PostgreSQL for a caller; the first
// that is a prefix of the code counts.
var sqlErrors = []struct {
	prefix string
	code   host.Code
	says   string
	hint   string
}{
	{"08", host.Unavailable, "the connection broke", ""},
	{"28", host.Unauthenticated, "the database refuses the role", "check the user and the password"},
	{"3D", host.FailedPrecondition, "there is no such database", "create it"},
	{"22021", host.InvalidArgument, "text has characters that the database cannot hold", ""},
	{"22P05", host.InvalidArgument, "text has characters that the database cannot hold", ""},
	{"25006", host.FailedPrecondition, "the database takes no writes", "connect to the primary"},
	{"42501", host.PermissionDenied, "the role may not do this", "grant it the rights on the schema"},
	{"42P01", host.FailedPrecondition, "the tables are gone", "open the store again"},
	{"3F", host.FailedPrecondition, "the schema is gone", "open the store again"},
	{"53300", host.Unavailable, "the database has no connection left", "lower pool_max_conns, or raise max_connections"},
	{"53", host.ResourceExhausted, "the database has no room", ""},
	{"54", host.ResourceExhausted, "it is more than the database takes", ""},
	{"57014", host.Canceled, "the statement was cancelled", ""},
	{"57", host.Unavailable, "the database shuts down", ""},
	{"40", host.Unavailable, "others were in the way", "try again"},
}

// wrap names the operation and translates the driver's error, once.
func wrap(err error, format string, args ...any) error {
	var own *host.Error
	if err == nil || errors.As(err, &own) {
		return err
	}
	doing := fmt.Sprintf(format, args...)
	var sql *pgconn.PgError
	if errors.As(err, &sql) {
		return ofServer(sql, err, doing)
	}
	for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, end) {
			return &host.Error{Code: host.CodeOf(end), Message: doing + ": " + end.Error(), Err: err}
		}
	}
	// An error that the server did not send is a broken or missing connection.
	return &host.Error{Code: host.Unavailable, Message: doing + ": the database cannot be reached", Retryable: true, Err: err}
}

// unreachable says where the database was looked for and why it was not found, to
// the program that opens a store: later errors may reach clients, and name neither.
func unreachable(err error, config *pgx.ConnConfig) error {
	var own *host.Error
	if !errors.As(err, &own) || own.Code != host.Unavailable {
		return err
	}
	var sql *pgconn.PgError
	if errors.As(err, &sql) {
		return err // it was reached
	}
	where := net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))
	if strings.HasPrefix(config.Host, "/") {
		where = config.Host
	}
	e := *own
	e.Message = "connect to the database at " + where + ": " + causeWords(err)
	e.Err, e.Hint = err, "is the server running, and is the address right?"
	return &e
}

// causeWords says why a connection was not made, without the words of pgx.
func causeWords(err error) string {
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return "no such host"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.As(err, &op) && op.Timeout():
		return "no answer in time"
	case errors.As(err, &op):
		return op.Err.Error()
	}
	return "the database cannot be reached"
}

func ofServer(sql *pgconn.PgError, err error, doing string) error {
	for _, e := range sqlErrors {
		if strings.HasPrefix(sql.Code, e.prefix) {
			return &host.Error{Code: e.code, Message: doing + ": " + e.says, Hint: e.hint, Retryable: e.code == host.Unavailable, Err: err}
		}
	}
	return &host.Error{Code: host.Internal, Message: doing + ": the database failed", Err: err}
}

func moved(thread string) error {
	return host.Errorf(host.Conflict, "thread %q has moved on since this turn began", thread).
		WithHint("its messages are kept; load the thread and run the turn again, or let turns wait for each other")
}

package pgkv

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/agenthost/agenthost/host/kv"
)

// sqlErrors translates codes of PostgreSQL: the first row whose prefix the code has
// counts.
var sqlErrors = []struct {
	prefix string
	is     error
	hint   string
}{
	{"08", kv.ErrUnavailable, "the connection broke"},
	{"28", kv.ErrDenied, "check the user and the password"},
	{"3D", kv.ErrInvalid, "create the database first"},
	{"25006", kv.ErrReadOnly, "connect to the primary"},
	{"42501", kv.ErrDenied, "grant the role usage of the schema and select, insert, update and delete on its tables, or create on the database to let it make them"},
	{"42P01", kv.ErrFormat, "its tables are gone; open the store again"},
	{"42703", kv.ErrFormat, "its tables were changed; open the store again"},
	{"3F", kv.ErrFormat, "its schema is gone; open the store again"},
	{"53100", kv.ErrNoSpace, "free some space on the server's device"},
	{"53200", kv.ErrUnavailable, "the server has no memory left"},
	{"53300", kv.ErrUnavailable, "the server has no connection left; lower pool_max_conns, or raise max_connections"},
	{"53", kv.ErrNoSpace, "the server lacks resources"},
	{"55P03", kv.ErrUnavailable, "others held a lock for too long"},
	{"57014", kv.ErrUnavailable, "the statement took too long, or was cancelled"},
	{"57", kv.ErrUnavailable, "the server shuts down or starts"},
	{"58", kv.ErrNoSpace, "the server's device failed; look into its log"},
	{"40", kv.ErrUnavailable, "others were in the way"},
	{"XX001", kv.ErrCorrupt, "restore the database from a backup"},
	{"XX002", kv.ErrCorrupt, "rebuild the index"},
}

// translate returns an error with a sentinel of package kv for one of the driver. The
// driver's own error is left out: its settings have the password.
func translate(err error) error {
	if err == nil || errors.Is(err, pgx.ErrNoRows) || isOwn(err) {
		return err
	}
	var sql *pgconn.PgError
	if errors.As(err, &sql) {
		for _, e := range sqlErrors {
			if strings.HasPrefix(sql.Code, e.prefix) {
				return fmt.Errorf("%w: the database says %q (%s); %s", e.is, sql.Message, sql.Code, e.hint)
			}
		}
		return fmt.Errorf("the database says %q (%s)", sql.Message, sql.Code)
	}
	for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, end) {
			return end
		}
	}
	return fmt.Errorf("%w: %s", kv.ErrUnavailable, causeWords(err))
}

// own are the sentinels that an error of this package may have.
var own = []error{
	kv.ErrNotFound, kv.ErrPrecondition, kv.ErrInvalid, kv.ErrTooLarge, kv.ErrClosed, kv.ErrReadOnly, kv.ErrNoSpace,
	kv.ErrInDoubt, kv.ErrKey, kv.ErrErasing, kv.ErrCorrupt, kv.ErrFormat, kv.ErrUnavailable, kv.ErrDenied,
}

func isOwn(err error) bool {
	for _, sentinel := range own {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	return false
}

// causeWords says why a connection was not made or broke. It repeats no text of another
// package, which might have a part of the address.
func causeWords(err error) string {
	var dns *net.DNSError
	var op *net.OpError
	var errno syscall.Errno
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var invalid x509.CertificateInvalidError
	var verification *tls.CertificateVerificationError
	switch {
	case errors.Is(err, errOvertaken):
		return "others erase the partition again and again"
	case errors.As(err, &dns) && dns.IsNotFound:
		return "no such host; check the address"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused; is the server running?"
	case errors.Is(err, syscall.ENOENT):
		return "there is no such socket; is the server running?"
	case errors.As(err, &authority):
		return "the server's certificate is of an unknown authority; name it with sslrootcert"
	case errors.As(err, &hostname):
		return "the server's certificate is for another host; check the address"
	case errors.As(err, &invalid), errors.As(err, &verification):
		return "the server's certificate is not valid"
	case errors.As(err, &op) && op.Timeout():
		return "no answer in time; check the address and the network"
	case errors.As(err, &errno):
		return errno.Error()
	case strings.Contains(fmt.Sprintf("%T", err), "tls"):
		return "TLS failed"
	}
	return "the connection was not made, or broke; look into the server's log"
}

// answeredError reports whether err is the answer of the server to a statement, which
// then has no effect, and the connection is still of use.
func answeredError(err error) bool {
	var sql *pgconn.PgError
	if !errors.As(err, &sql) {
		return false
	}
	// A statement may have been committed before its connection is ended (57P01 to
	// 57P03, severity FATAL), and 40003 is a code for an unknown outcome.
	unknown := strings.HasPrefix(sql.Code, "08") || strings.HasPrefix(sql.Code, "57P") || sql.Code == "40003"
	return !unknown && sql.Severity != "FATAL" && sql.Severity != "PANIC"
}

// refusedError reports whether err is the refusal of a connection that is refused again
// when it is repeated: the role, its password or the database does not exist.
func refusedError(err error) bool {
	var connect *pgconn.ConnectError
	var sql *pgconn.PgError
	return errors.As(err, &connect) && errors.As(err, &sql) && (strings.HasPrefix(sql.Code, "28") || strings.HasPrefix(sql.Code, "3D"))
}

// inTheWay reports whether the same statement may succeed when it is repeated.
func inTheWay(err error) bool {
	var sql *pgconn.PgError
	return errors.As(err, &sql) && (sql.Code == "40001" || sql.Code == "40P01" || sql.Code == "55P03")
}

// errorf returns an error with a sentinel.
func errorf(is error, words string) error { return fmt.Errorf("%w: %s", is, words) }

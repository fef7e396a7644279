package datadir

import (
	"errors"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
)

// advice is the code and the next step for one of a driver's errors.
type advice struct {
	cause error
	code  host.Code
	hint  string
}

// storeErrors is the one table from the errors of opening a store to their codes and
// next steps.
func storeErrors() []advice {
	return []advice{
		{kv.ErrLocked, host.FailedPrecondition, "one process owns a data directory: stop the other one, or name another --data; --wait-lock 1m waits for it"},
		{kv.ErrReadOnly, host.FailedPrecondition, "make it writable for this user, or name another --data"},
		{kv.ErrInvalid, host.FailedPrecondition, "name a directory with --data"},
		{kv.ErrKey, host.FailedPrecondition, "set " + KeyFileVariable + " or " + KeyVariable + " to the key that it was made with, or neither if it has none; nothing was changed"},
		{kv.ErrFormat, host.FailedPrecondition, "name another --data; nothing was changed in this one"},
		{kv.ErrNoSpace, host.ResourceExhausted, "free some space, or name a --data on another device"},
		{kv.ErrCorrupt, host.DataLoss, "restore a backup into a new directory with: agenthost data restore BACKUP --data NEW; nothing was changed in this one"},
	}
}

// databaseErrors is the same table for a database.
func databaseErrors() []advice {
	return []advice{
		{kv.ErrUnavailable, host.Unavailable, "is the server running, and is the address right?"},
		{kv.ErrDenied, host.PermissionDenied, "check the user and the password, and what the role may do"},
		{kv.ErrReadOnly, host.FailedPrecondition, "connect to the primary: agenthost writes"},
		{kv.ErrInvalid, host.InvalidArgument, "it is like postgres://user:password@host:5432/database"},
		{kv.ErrKey, host.FailedPrecondition, "set " + KeyFileVariable + " or " + KeyVariable + " to the key that the data was first written with, or neither if it has none; nothing was changed"},
		{kv.ErrFormat, host.FailedPrecondition, "use one version of agenthost on all hosts, and upgrade with a role that may change tables; nothing was changed"},
		{kv.ErrNoSpace, host.ResourceExhausted, "free some space on the database's device"},
		{kv.ErrCorrupt, host.DataLoss, "restore the database from a backup"},
	}
}

// databaseError is [Error] for a database. The store's own words, up to a semicolon, name
// the server, and its advice is more precise than the table's.
func databaseError(at Address, err error) error {
	message, own, _ := strings.Cut(err.Error(), "; ")
	e := &host.Error{Code: host.FailedPrecondition, Message: "database " + at.String() + ": " + message, Err: err, Hint: "check the address, and the server's log"}
	for _, known := range databaseErrors() {
		if errors.Is(err, known.cause) {
			e.Code, e.Hint = known.code, known.hint
			break
		}
	}
	if own != "" {
		e.Hint = own
	}
	return e
}

// Error returns a store's error with the directory's name, a code, and the next step
// in the words of the command line. The store's own advice, after a semicolon, is
// for programs, and is left out.
func Error(dir string, err error) error {
	message, _, _ := strings.Cut(err.Error(), "; ")
	e := &host.Error{Code: host.FailedPrecondition, Message: "data directory " + dir + ": " + message, Err: err,
		Hint: "check that it exists or can be made, and that you may write there"}
	for _, known := range storeErrors() {
		if errors.Is(err, known.cause) {
			e.Code, e.Hint = known.code, known.hint
			break
		}
	}
	if errors.Is(err, badgerkv.ErrNoKeyFile) {
		e.Hint = "put back a copy of " + badgerkv.KeyFile + "; without it nothing in the directory can be read"
	}
	return e
}

package host

import (
	"context"
	"errors"
	"strings"
)

// What a client may read of an error. The text of a database driver, a model's
// server or a panic may hold addresses, credentials and names of others, so it
// stays with the operator.

// audience says for whom an error's text was written.
type audience uint8

const (
	byRule    audience = iota // decided by the code and the causes: see ClientError
	forClient                 // a client may read it: see Disclose
	forLog                    // only the operator may read it
)

// ClientError returns err as a client, a stored snapshot or another tenant may
// read it. It is the one function that decides this: encoders, handlers and
// stores use it.
//
// The code stays. The text becomes "internal error (run ID)", or "canceled" with the
// code canceled, without a hint, for
//   - the codes internal and data_loss, which a panic has too,
//   - an error that is no [*Error] and no end of a context,
//   - an error whose message repeats the text of such a cause, as one that wraps
//     a driver's error with %w does; invalid_argument is excepted, for it speaks
//     of what the caller sent,
//   - whatever a [Model] returned.
//
// The text of an error that [Disclose] made stays, in any of these. The caller of
// the library gets the whole error, and so does Options.Logger, under the same
// run id. ClientError(nil, run) is nil.
func ClientError(err error, run string) *Error {
	if err == nil {
		return nil
	}
	e := AsError(err)
	if e.Code != Internal && e.Code != DataLoss && isOwnText(e, true) {
		return &Error{Code: e.Code, Message: e.Message, Hint: e.Hint, Retryable: e.Retryable, Limit: e.Limit, RetryAfter: e.RetryAfter, audience: forClient}
	}
	if d := disclosed(err, maxCauses); d != nil {
		return &Error{Code: e.Code, Message: d.Message, Hint: d.Hint, Retryable: e.Retryable, Limit: e.Limit, RetryAfter: e.RetryAfter, audience: forClient}
	}
	return &Error{Code: e.Code, Message: maskedText(e.Code, run), Retryable: e.Retryable, Limit: e.Limit, RetryAfter: e.RetryAfter, audience: forClient}
}

// maskedText is the text that a client reads in the place of one that is not for
// it. A run that was canceled has not failed.
func maskedText(code Code, run string) string {
	if code == Canceled {
		return "canceled"
	}
	if run == "" {
		return "internal error"
	}
	return "internal error (run " + run + ")"
}

// isMasked reports whether clients read less of err than its text.
func isMasked(err error) bool {
	return err != nil && ClientError(err, "").Error() != err.Error()
}

// Disclose returns err as an [*Error] whose text clients may read whatever its
// code is: the words of a plugin, for the tenant that owns it. Disclose(nil) is
// nil.
func Disclose(err error) *Error {
	return withAudience(err, forClient)
}

// withhold returns err as an error whose text no client may read whatever its
// code is.
func withhold(err error) error {
	if err == nil {
		return nil
	}
	return withAudience(err, forLog)
}

func withAudience(err error, a audience) *Error {
	if err == nil {
		return nil
	}
	e := *AsError(err)
	e.Err, e.audience = err, a
	return &e
}

// maxCauses bounds how deep into an error its causes are looked at: a foreign type
// may unwrap to itself.
const maxCauses = 100

// disclosed returns the outermost error of err's causes that Disclose made.
func disclosed(err error, depth int) *Error {
	if depth == 0 {
		return nil
	}
	if e, ok := err.(*Error); ok && e.audience == forClient {
		return e
	}
	switch u := err.(type) {
	case interface{ Unwrap() error }:
		return disclosed(u.Unwrap(), depth-1)
	case interface{ Unwrap() []error }:
		for _, cause := range u.Unwrap() {
			if d := disclosed(cause, depth-1); d != nil {
				return d
			}
		}
	}
	return nil
}

// isOwnText reports whether the message of e is the host's own words, all the way
// to the cause. With ofRequest, so is whatever has code invalid_argument.
func isOwnText(e *Error, ofRequest bool) bool {
	said, err := e.Error(), error(e)
	code := e.Code
	for range maxCauses {
		if err == nil {
			return true
		}
		own, ok := err.(*Error)
		switch {
		case ok && own.audience != byRule:
			return own.audience == forClient
		case ok:
			code = own.Code
		case isContextEnd(err):
			return true
		case ofRequest && code == InvalidArgument:
			return true
		default:
			return !strings.Contains(said, err.Error())
		}
		err = errors.Unwrap(err)
	}
	return false
}

// isContextEnd reports whether err is the end of a context in the words of the
// standard library or of the host's limits.
func isContextEnd(err error) bool {
	switch err.(type) {
	case runTimeout, journalTimeout:
		return true
	}
	return err == context.Canceled || err == context.DeadlineExceeded
}

// ClientEvent is an event of another package that holds errors.
type ClientEvent interface {
	EventData
	// ForClient returns a copy whose errors are made by [ClientError].
	ForClient(run string) EventData
}

// ForClient returns the event with each error in it as [ClientError] has it. The
// values that the event points to are not changed.
func (e Event) ForClient() Event {
	switch d := e.Data.(type) {
	case *RunFinished:
		if d.Error != nil {
			c := *d
			c.Error = ClientError(d.Error, e.Run)
			e.Data = &c
		}
	case *ProcessorRan:
		if d.Error != nil || d.Skipped != nil {
			c := *d
			c.Error, c.Skipped = clientErrorOf(d.Error, e.Run), clientErrorOf(d.Skipped, e.Run)
			e.Data = &c
		}
	case *ProviderRan:
		if d.Error != nil {
			c := *d
			c.Error = ClientError(d.Error, e.Run)
			e.Data = &c
		}
	case *ModelRetried:
		c := *d
		c.Reason = maskedText(Internal, e.Run)
		e.Data = &c
	case *ModelFellBack:
		c := *d
		c.Reason = maskedText(Internal, e.Run)
		e.Data = &c
	case ClientEvent:
		e.Data = d.ForClient(e.Run)
	}
	return e
}

// clientErrorOf is ClientError of an error that may be a nil pointer.
func clientErrorOf(e *Error, run string) *Error {
	if e == nil {
		return nil
	}
	return ClientError(e, run)
}

package fault

import (
	"context"
	"errors"
	"strings"
)

// audience says for whom an error's text was written.
type audience uint8

const (
	byRule    audience = iota // the code and the causes decide: see ForClient
	forClient                 // a client may read it: see Disclose
	forLog                    // only the operator may read it: see Withhold
)

// OwnText marks an error type beside [*Error] whose text was written for clients, such
// as the cause of a context that ends at a limit.
type OwnText interface {
	error
	OwnText()
}

// ForClient returns err as a client, a stored snapshot or another tenant may read
// it. It is the one function that decides this: encoders, handlers and stores use it.
// run names the run in whose log the operator finds the whole error; it may be empty.
//
// The code stays. The text becomes "internal error (run ID)", or "canceled" with the
// code canceled, without a hint, for
//   - the codes internal and data_loss, which a panic has too,
//   - an error that is no [*Error], no end of a context and no [OwnText],
//   - an error whose message repeats the text of such a cause, as one that wraps
//     a driver's error with %w does; invalid_argument is excepted, for it speaks
//     of what the caller sent,
//   - an error that [Withhold] made.
//
// The text of an error that [Disclose] made stays, in any of these. ForClient(nil, run)
// is nil.
func ForClient(err error, run string) *Error {
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
	return &Error{Code: e.Code, Message: MaskedText(e.Code, run), Retryable: e.Retryable, Limit: e.Limit, RetryAfter: e.RetryAfter, audience: forClient}
}

// MaskedText returns the text that a client reads in the place of a withheld one:
// "internal error (run ID)", or "canceled" for the code canceled, because a canceled
// run has not failed.
func MaskedText(code Code, run string) string {
	if code == Canceled {
		return "canceled"
	}
	if run == "" {
		return "internal error"
	}
	return "internal error (run " + run + ")"
}

// Masked reports whether clients read less of err than its text.
func Masked(err error) bool {
	return err != nil && ForClient(err, "").Error() != err.Error()
}

// Disclose returns err as an [*Error] whose text clients may read whatever its
// code is: the words of a plugin, for the tenant that owns it. Disclose(nil) is
// nil.
func Disclose(err error) *Error {
	return withAudience(err, forClient)
}

// Withhold returns err as an error whose text no client may read whatever its code
// is: the words of a model's server. Withhold(nil) is nil.
func Withhold(err error) error {
	if err == nil {
		return nil
	}
	return withAudience(err, forLog)
}

// WithholdForeign withholds the text of err if it repeats a cause that is no [*Error],
// also under code invalid_argument: the text of a driver is not about a client's input.
func WithholdForeign(err error) error {
	if err == nil || isOwnText(AsError(err), false) {
		return err
	}
	return Withhold(err)
}

// Withheld reports whether [Withhold] made e.
func (e *Error) Withheld() bool { return e.audience == forLog }

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

// isOwnText reports whether the message of e was written for clients, with those of
// all its causes. With ofRequest, so was any text under code invalid_argument.
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
// standard library, or an [OwnText].
func isContextEnd(err error) bool {
	if _, ok := err.(OwnText); ok {
		return true
	}
	return err == context.Canceled || err == context.DeadlineExceeded
}

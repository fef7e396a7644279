package fault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Code is the kind of failure of an [Error]. Callers branch on it with [CodeOf],
// never on an error's text. The set is closed: the plugin contract, HTTP and the
// command line use the same names.
type Code string

// The codes. Each means the same wherever it appears.
const (
	InvalidArgument    Code = "invalid_argument"    // the caller's input or configuration is wrong
	Unauthenticated    Code = "unauthenticated"     // the caller has not said who it is
	PermissionDenied   Code = "permission_denied"   // the caller may not do this
	NotFound           Code = "not_found"           // the named thing does not exist
	AlreadyExists      Code = "already_exists"      // the named thing exists and must not
	Conflict           Code = "conflict"            // another caller changed it first
	ResourceExhausted  Code = "resource_exhausted"  // a limit, budget or quota is used up
	FailedPrecondition Code = "failed_precondition" // right request, wrong state of the system
	DeadlineExceeded   Code = "deadline_exceeded"   // time ran out
	Canceled           Code = "canceled"            // the caller gave up
	Unavailable        Code = "unavailable"         // something this needs is down; retrying may help
	Unimplemented      Code = "unimplemented"       // this host does not do that
	DataLoss           Code = "data_loss"           // stored bytes are damaged
	Internal           Code = "internal"            // a bug, ours or a plugin's
)

// codes is the one table from codes to HTTP statuses and CLI exit codes.
var codes = map[Code]struct{ http, exit int }{
	InvalidArgument:    {http.StatusBadRequest, 3},
	Unauthenticated:    {http.StatusUnauthorized, 5},
	PermissionDenied:   {http.StatusForbidden, 5},
	NotFound:           {http.StatusNotFound, 4},
	AlreadyExists:      {http.StatusConflict, 1},
	Conflict:           {http.StatusConflict, 1},
	ResourceExhausted:  {http.StatusTooManyRequests, 6},
	FailedPrecondition: {http.StatusPreconditionFailed, 3},
	DeadlineExceeded:   {http.StatusGatewayTimeout, 6},
	Canceled:           {499, 130},
	Unavailable:        {http.StatusServiceUnavailable, 7},
	Unimplemented:      {http.StatusNotImplemented, 1},
	DataLoss:           {http.StatusInternalServerError, 1},
	Internal:           {http.StatusInternalServerError, 1},
}

// Valid reports whether c is one of the codes above.
func (c Code) Valid() bool { _, ok := codes[c]; return ok }

// HTTPStatus returns the HTTP status for c; an unknown code is 500.
func (c Code) HTTPStatus() int {
	if e, ok := codes[c]; ok {
		return e.http
	}
	return http.StatusInternalServerError
}

// ExitCode returns the command line's exit code for c: 1 failed, 3 invalid
// configuration or plugin, 4 not found, 5 denied, 6 a limit, 7 upstream, 130
// interrupted; an unknown code is 1. (2, wrong usage, is the command parser's.)
func (c Code) ExitCode() int {
	if e, ok := codes[c]; ok {
		return e.exit
	}
	return 1
}

// Error is an error with a code. Message names the thing and the cause, Hint the
// next step. Its JSON is the error object of the plugin contract, so a guest's error
// and a host's read alike.
type Error struct {
	Code      Code
	Message   string
	Hint      string // the remedy, in one sentence; may be empty
	Retryable bool   // the same request may succeed later
	Limit     string // the name of the limit that refused a request; may be empty

	// RetryAfter is the time after which a refused request may succeed; 0 is unknown.
	RetryAfter time.Duration

	Err error // the cause, for errors.Is and errors.As; may be nil

	audience audience
}

// Errorf returns an [*Error] with the given code. The format may hold one %w,
// whose operand becomes the cause.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Err: errors.Unwrap(err), Retryable: code == Unavailable}
}

// WithHint sets the next step and returns e.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// Error returns the message and, if there is one, the hint.
func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + "; " + e.Hint
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is makes cancellation recognisable however deep it happened: an error with
// code canceled or deadline_exceeded is context.Canceled or
// context.DeadlineExceeded, through a trap too.
func (e *Error) Is(target error) bool {
	return e.Code == Canceled && target == context.Canceled ||
		e.Code == DeadlineExceeded && target == context.DeadlineExceeded
}

// SetRetryAfter sets the header Retry-After, in whole seconds of at least 1, if the
// error knows it. Handlers call it before they write the status.
func (e *Error) SetRetryAfter(h http.Header) {
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((e.RetryAfter+time.Second-1)/time.Second), 10))
	}
}

// MarshalJSON writes {"code","message","hint"?,"retryable"?,"limit"?,"retry_after_ms"?}.
func (e *Error) MarshalJSON() ([]byte, error) {
	return json.Marshal(errorJSON{Code: e.Code, Message: e.Message, Hint: e.Hint, Retryable: e.Retryable, Limit: e.Limit, RetryAfter: e.RetryAfter.Milliseconds()})
}

// UnmarshalJSON reads the output of MarshalJSON. A code that this host does not
// know becomes internal.
func (e *Error) UnmarshalJSON(b []byte) error {
	var j errorJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	if !j.Code.Valid() {
		j.Code = Internal
	}
	*e = Error{Code: j.Code, Message: j.Message, Hint: j.Hint, Retryable: j.Retryable, Limit: j.Limit,
		RetryAfter: time.Duration(min(max(j.RetryAfter, 0), maxRetryAfter)) * time.Millisecond}
	return nil
}

type errorJSON struct {
	Code       Code   `json:"code"`
	Message    string `json:"message"`
	Hint       string `json:"hint,omitempty"`
	Retryable  bool   `json:"retryable,omitempty"`
	Limit      string `json:"limit,omitempty"`
	RetryAfter int64  `json:"retry_after_ms,omitempty"`
}

// maxRetryAfter bounds the wait that an error from elsewhere names, in milliseconds:
// a year.
const maxRetryAfter = 365 * 24 * 60 * 60 * 1000

// CodeOf returns the code of the outermost [*Error] in err's chain. A context's
// own errors are canceled and deadline_exceeded; anything else is internal; nil
// is "".
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error // on the heap
	switch {
	case errors.As(err, &e):
		return e.Code
	case errors.Is(err, context.Canceled):
		return Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return DeadlineExceeded
	}
	return Internal
}

// ContextError returns why ctx ended, nil if it has not. A cause without a code of
// its own, one that is no [*Error] in its chain, gets the code of ctx.Err():
// canceled or deadline_exceeded.
func ContextError(ctx context.Context) error {
	cause := context.Cause(ctx)
	var own *Error
	if cause == nil || CodeOf(cause) != Internal || errors.As(cause, &own) {
		return cause
	}
	return &Error{Code: CodeOf(ctx.Err()), Message: cause.Error(), Err: cause}
}

// AsError returns err as an [*Error], wrapping any other error under the code that
// [CodeOf] finds. AsError(nil) is nil.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) && e.Error() == err.Error() {
		return e
	}
	out := &Error{Code: CodeOf(err), Message: err.Error(), Err: err}
	if e != nil {
		out.Retryable, out.Limit, out.RetryAfter = e.Retryable, e.Limit, e.RetryAfter
	}
	return out
}

// Wrap adds the operation to err's message and keeps its code. Wrap of nil is nil.
func Wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	out := &Error{Code: CodeOf(err), Message: fmt.Sprintf(format, args...) + ": " + err.Error(), Err: err}
	var inner *Error
	if errors.As(err, &inner) {
		out.Retryable, out.Limit, out.RetryAfter = inner.Retryable, inner.Limit, inner.RetryAfter
	}
	return out
}

var _ error = (*Error)(nil)

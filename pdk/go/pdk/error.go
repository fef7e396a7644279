package pdk

import "strconv"

// A Code says what kind of failure an [Error] is. Codes are few and mean the
// same everywhere.
type Code string

// The codes of the contract.
const (
	InvalidArgument    Code = "invalid_argument"
	Unauthenticated    Code = "unauthenticated"
	PermissionDenied   Code = "permission_denied"
	NotFound           Code = "not_found"
	AlreadyExists      Code = "already_exists"
	Conflict           Code = "conflict"
	ResourceExhausted  Code = "resource_exhausted"
	FailedPrecondition Code = "failed_precondition"
	DeadlineExceeded   Code = "deadline_exceeded"
	Canceled           Code = "canceled"
	Unavailable        Code = "unavailable"
	Unimplemented      Code = "unimplemented"
	DataLoss           Code = "data_loss"
	Internal           Code = "internal"
)

// An Error is a failure with a code. A handler that returns one fails with that
// code; any other error fails with [Internal]. Host operations fail with *Error.
type Error struct {
	Code      Code
	Message   string // a sentence for the model or the operator
	Hint      string // what to do about it, in a sentence, if anything
	Retryable bool   // the same call may succeed later
}

// Error returns the code and the message.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Errorf returns an *Error whose message is format with its verbs replaced. The
// verbs are %s, %v, %d and %q (quoted as in JSON). Arguments are strings, [Raw],
// byte slices, errors, numbers, booleans, nil and values with a String method;
// anything else is shown as (?). It stands in for fmt, which a small guest does
// not link.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: sprintf(format, args)}
}

// CodeOf returns the code of the first *Error in err's chain, [Internal] for an
// error without one, and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	return asError(err).Code
}

// asError finds the first *Error in err's chain or makes one of code Internal.
// errors.As would do the same with reflection.
func asError(err error) *Error {
	for e := err; e != nil; {
		if found, ok := e.(*Error); ok && found != nil {
			return found
		}
		wrapper, ok := e.(interface{ Unwrap() error })
		if !ok {
			break
		}
		e = wrapper.Unwrap()
	}
	return &Error{Code: Internal, Message: err.Error()}
}

func sprintf(format string, args []any) string {
	var out []byte
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			out = append(out, format[i])
			continue
		}
		i++
		switch verb := format[i]; {
		case verb == '%':
			out = append(out, '%')
		case len(args) == 0:
			out = append(out, "%!"...)
			out = append(out, verb)
			out = append(out, "(missing)"...)
		default:
			out = appendArg(out, verb, args[0])
			args = args[1:]
		}
	}
	return string(out)
}

func appendArg(out []byte, verb byte, arg any) []byte {
	text := argText(arg)
	if verb == 'q' {
		return appendString(out, text)
	}
	return append(out, text...)
}

func argText(arg any) string {
	switch v := arg.(type) {
	case string:
		return v
	case Raw:
		return string(v)
	case Code:
		return string(v)
	case []byte:
		return string(v)
	case error:
		return v.Error()
	case interface{ String() string }:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	case nil:
		return "nil"
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case float32:
		return strconv.FormatFloat(float64(v), 'g', -1, 32)
	case uint64:
		return strconv.FormatUint(v, 10)
	}
	if n, ok := integer(arg); ok {
		return strconv.FormatInt(n, 10)
	}
	return "(?)" // a type that only reflection could print
}

// integer returns the value of the integer types that an int64 holds.
func integer(arg any) (int64, bool) {
	switch v := arg.(type) {
	case int:
		return int64(v), true
	case int8:
		return int64(v), true
	case int16:
		return int64(v), true
	case int32:
		return int64(v), true
	case int64:
		return v, true
	case uint:
		return int64(v), true
	case uint8:
		return int64(v), true
	case uint16:
		return int64(v), true
	case uint32:
		return int64(v), true
	}
	return 0, false
}

package jsondoc

import (
	"errors"
	"fmt"
)

// Kind says why a document or a patch is refused.
type Kind uint8

// The kinds of errors.
const (
	Invalid    Kind = iota + 1 // the JSON or an operation is malformed, or an operation does not apply
	TestFailed                 // the operation test found another value
	TooMuch                    // more operations, work or depth than the bounds of the package allow
)

// Error is a refusal.
type Error struct {
	Kind    Kind
	message string
	cause   error
}

func errorf(kind Kind, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Kind: kind, message: err.Error(), cause: errors.Unwrap(err)}
}

// Error returns the message.
func (e *Error) Error() string { return e.message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// KindOf returns the kind of the outermost [*Error] in err's chain, 0 if it has none.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return 0
}

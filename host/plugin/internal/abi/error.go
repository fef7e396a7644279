package abi

import (
	"encoding/json"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/plugin/internal/guesttext"
)

// ErrorObject is an error as a guest gets it: without the text of drivers and of the
// host's own failures, which the caller writes to the log. Its sentences are cut where
// they repeat what the guest has sent.
func ErrorObject(err error) []byte {
	e := *fault.ForClient(err, "")
	e.Message, e.Hint = shorten(e.Message), shorten(e.Hint)
	b, jsonErr := json.Marshal(&e)
	if jsonErr != nil {
		return []byte(`{"code":"internal","message":"error"}`)
	}
	return b
}

// NewGuestError is the error object that an export of a guest returned, as an error: a
// [*GuestError], or an error of code internal if it breaks the ABI.
func NewGuestError(id, export string, raw []byte) error {
	e, err := ReadError(id, export, raw)
	if err != nil {
		return err
	}
	e.Message, e.Hint = shorten(guesttext.Clean(e.Message)), shorten(guesttext.Clean(e.Hint))
	return &GuestError{Plugin: id, err: e}
}

// ReadError reads the error object that a guest returned.
func ReadError(id, export string, raw []byte) (*host.Error, error) {
	var e struct {
		Code          host.Code
		Message, Hint string
		Retryable     bool
	}
	if err := jsondoc.Unmarshal(raw, &e); err != nil || e.Message == "" {
		return nil, host.Errorf(host.Internal, "plugin %q: %s returned an error without a message", id, export)
	}
	if !e.Code.Valid() {
		e.Code = host.Internal
	}
	return &host.Error{Code: e.Code, Message: e.Message, Hint: e.Hint, Retryable: e.Retryable}, nil
}

// MaxErrorText bounds the message and the hint of a guest's error, which go to a
// model and to the operator's log.
const MaxErrorText = 8 << 10

// shorten cuts a text that is too long, at a character's end.
func shorten(s string) string {
	if len(s) <= MaxErrorText {
		return s
	}
	return strings.ToValidUTF8(s[:MaxErrorText], "") + "…"
}

// GuestError is an error that a plugin returned, as opposed to one it ran into.
type GuestError struct {
	Plugin string
	err    *host.Error
}

// Error returns the plugin's own words.
func (e *GuestError) Error() string { return e.err.Error() }

// Unwrap returns the error as a [*host.Error].
func (e *GuestError) Unwrap() error { return e.err }

var _ error = (*GuestError)(nil)

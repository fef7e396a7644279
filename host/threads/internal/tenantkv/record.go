package tenantkv

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/kv"
)

// Layout is the version of records. Records carry it, so that an older version refuses a
// newer one's data instead of writing it back without the fields it does not know. A record
// with a method Newest may have any version up to what that returns.
const Layout = 1

// Version is the first member of every record.
type Version struct {
	V int `json:"v"`
}

// Encode returns the stored form of a record.
func Encode(v any) ([]byte, error) {
	b, err := kv.EncodeRecord(v)
	if err != nil {
		return nil, fault.Errorf(fault.Internal, "encode: %w", err)
	}
	return b, nil
}

// Decode reads a record into a struct that begins with [Version]. The error names the record
// by what ("record of thread") and name: its code is failed_precondition for a record of a
// newer version, data_loss for a damaged one. Nothing is changed in either case.
func Decode(value []byte, into any, what, name string) error {
	known := Layout
	if r, ok := into.(interface{ Newest() int }); ok {
		known = r.Newest()
	}
	v, err := versionOf(value)
	switch {
	case errors.Is(err, kv.ErrFormat):
		return Newer(value[0], what, name)
	case err != nil:
		return Damaged("%s %q is damaged", what, name)
	case v.V < Layout || v.V > known:
		return Newer(v.V, what, name)
	}
	// Nothing that is kept here has a place for any value, so no digit is lost that
	// kv.DecodeRecord would keep; that reads as from a stream, which costs more.
	if err := json.Unmarshal(value[1:], into); err != nil || !utf8.Valid(value) {
		return Damaged("%s %q is damaged", what, name)
	}
	return nil
}

// versionOf returns the version of a record. This package writes the version as the
// first member; then the rest is not read, which would be half the work of reading the
// record.
func versionOf(value []byte) (v Version, err error) {
	const begin = "\x01{\"v\":"
	if rest, ok := bytes.CutPrefix(value, []byte(begin)); ok && len(rest) > 1 && (rest[1] == ',' || rest[1] == '}') && rest[0] >= '1' && rest[0] <= '9' {
		return Version{int(rest[0] - '0')}, nil
	}
	return v, kv.DecodeRecord(value, &v)
}

// Newer returns the error of a record whose format is later than this version knows.
func Newer(format any, what, name string) error {
	return &fault.Error{
		Code:    fault.FailedPrecondition,
		Message: fault.Errorf("", "%s %q has format %d, which this version does not know", what, name, format).Message,
		Hint:    "open it with the version that wrote it, or a newer one; nothing was changed",
		Err:     kv.ErrFormat,
	}
}

// Damaged returns an error of code data_loss.
func Damaged(format string, args ...any) error {
	return fault.Errorf(fault.DataLoss, format, args...).WithHint("restore it from a backup")
}

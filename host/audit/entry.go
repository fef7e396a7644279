package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/kv"
)

// MaxFieldBytes is the longest text of a field of an entry.
const MaxFieldBytes = 256

// Entry says who did what. Actor and Action are required. Each text has at most
// [MaxFieldBytes] bytes, of UTF-8 without control characters; they are ids and names from
// a fixed list, not content.
type Entry struct {
	Seq  uint64    `json:"seq"`  // set by Append: 1 is the first
	Time time.Time `json:"time"` // set by Append

	Actor   string `json:"actor"`             // key/abcd2345, socket/0, system
	Action  string `json:"action"`            // tenant.suspend, plugin.grant
	Tenant  string `json:"tenant,omitempty"`  // whose data or rights it is about
	Object  string `json:"object,omitempty"`  // plugin/search, thread/0192
	Digest  string `json:"digest,omitempty"`  // of a plugin or a document
	Outcome string `json:"outcome,omitempty"` // allowed, denied, or the code of an error
	Request string `json:"request,omitempty"` // the id of the request
}

func (e *Entry) check() error {
	if e == nil || e.Actor == "" || e.Action == "" {
		return fault.Errorf(fault.InvalidArgument, "an entry needs an actor and an action")
	}
	for _, f := range []struct{ name, text string }{
		{"actor", e.Actor}, {"action", e.Action}, {"tenant", e.Tenant}, {"object", e.Object}, {"digest", e.Digest},
		{"outcome", e.Outcome}, {"request", e.Request},
	} {
		if len(f.text) > MaxFieldBytes {
			return fault.Errorf(fault.InvalidArgument, "the %s of an entry has %d bytes, more than %d", f.name, len(f.text), MaxFieldBytes).
				WithHint("entries have ids, not content")
		}
		if !utf8.ValidString(f.text) || strings.ContainsFunc(f.text, unicode.IsControl) {
			return fault.Errorf(fault.InvalidArgument, "the %s of an entry is not UTF-8 without control characters", f.name)
		}
	}
	return nil
}

// Sum is the sum of an entry and of all before it.
type Sum [sha256.Size]byte

// String returns the sum in hexadecimal digits.
func (s Sum) String() string { return hex.EncodeToString(s[:]) }

// MarshalText returns the sum in hexadecimal digits.
func (s Sum) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads hexadecimal digits. Code invalid_argument for another text.
func (s *Sum) UnmarshalText(text []byte) error {
	if len(text) != 2*sha256.Size {
		return fault.Errorf(fault.InvalidArgument, "a sum has %d hexadecimal digits", 2*sha256.Size)
	}
	if _, err := hex.Decode(s[:], text); err != nil {
		return fault.Errorf(fault.InvalidArgument, "a sum has hexadecimal digits: %v", err)
	}
	return nil
}

// Head is the end of a chain: the number of the last entry, and its sum. The zero Head is
// that of an empty log.
type Head struct {
	Seq uint64 `json:"seq"`
	Sum Sum    `json:"sum"`
}

// chainPrefix begins the bytes of which a sum is made, so that it is no other package's.
const chainPrefix = "agenthost audit 1\n"

// next returns the head after an entry, given as its bytes.
func (h Head) next(body []byte) Head {
	d := sha256.New()
	d.Write([]byte(chainPrefix))
	d.Write(h.Sum[:])
	d.Write(body)
	out := Head{Seq: h.Seq + 1}
	d.Sum(out.Sum[:0])
	return out
}

const layout = 1

// row is the stored form of an entry, and a line of an export.
type row struct {
	V     int             `json:"v"`
	Entry json.RawMessage `json:"entry"` // the bytes that the sum is of
	Sum   Sum             `json:"sum"`
}

// headRow is the stored form of a head.
type headRow struct {
	V int `json:"v"`
	Head
}

// encodeEntry returns the bytes of an entry. They have no spaces, and no byte that writing
// them again as part of another document would change.
func encodeEntry(e *Entry) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func decodeRow(value []byte) (*row, *Entry, error) {
	r, e := &row{}, &Entry{}
	if err := kv.DecodeRecord(value, r); err != nil {
		return nil, nil, err
	}
	if r.V > layout {
		return nil, nil, kv.ErrFormat
	}
	if err := json.Unmarshal(r.Entry, e); err != nil {
		return nil, nil, kv.ErrCorrupt
	}
	return r, e, nil
}

// follow returns the head after a row, or an error of code data_loss that says how the row
// does not follow.
func (h Head) follow(r *row, e *Entry, at uint64) (Head, error) {
	next := h.next(r.Entry)
	switch {
	case at > next.Seq:
		return h, broken(next.Seq, "it was removed")
	case at != next.Seq || e.Seq != next.Seq:
		return h, broken(at, "it is number %d in its place", e.Seq)
	case r.Sum != next.Sum:
		return h, broken(at, "it or an entry before it was changed")
	}
	return next, nil
}

func broken(seq uint64, format string, args ...any) error {
	return fault.Errorf(fault.DataLoss, "entry %d of the audit log: "+format, append([]any{seq}, args...)...).
		WithHint("compare the log with an export or a backup")
}

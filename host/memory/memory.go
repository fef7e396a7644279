package memory

import (
	"encoding/json"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/agenthost/agenthost/host"
)

// The limits of a memory and its scope.
const (
	MaxTextBytes     = 8 << 10 // of a memory's text
	MaxMetadataBytes = 4 << 10 // of its metadata as JSON
	MaxChanges       = 32      // in one Apply
	MaxMemories      = 100_000 // in one scope
)

// Memory is one thing that is remembered.
type Memory struct {
	ID       string                     `json:"id"`
	Text     string                     `json:"text"`
	Metadata map[string]json.RawMessage `json:"metadata,omitempty"`
	Created  time.Time                  `json:"created"`
	Updated  time.Time                  `json:"updated"`
	Expires  time.Time                  `json:"expires,omitzero"` // zero: never
}

// expired reports whether m is over at a time.
func (m *Memory) expired(now time.Time) bool { return !m.Expires.IsZero() && !now.Before(m.Expires) }

// ChangeKind is the kind of a [Change].
type ChangeKind string

// The kinds of changes.
const (
	Add    ChangeKind = "add"
	Update ChangeKind = "update"
	Delete ChangeKind = "delete"
)

// Change is one of the things that [Store.Apply] does.
type Change struct {
	Kind ChangeKind `json:"kind"`

	// ID is of the memory to update or delete. For a new one it is a name of the
	// caller's, by which adding the same again does nothing; "" has one made.
	ID string `json:"id,omitempty"`

	// Text is the memory's text. An update without one keeps it.
	Text string `json:"text,omitempty"`

	// Metadata replaces the memory's metadata; nil keeps it.
	Metadata map[string]json.RawMessage `json:"metadata,omitempty"`

	// Expires is when it ends; zero is never, and in an update, as before.
	Expires time.Time `json:"expires,omitzero"`
}

func (c *Change) check() error {
	refuse := func(format string, args ...any) *host.Error {
		return host.Errorf(host.InvalidArgument, format, args...)
	}
	switch {
	case c.Kind != Add && c.Kind != Update && c.Kind != Delete:
		return refuse("change of kind %q", string(c.Kind)).WithHint("use add, update or delete")
	case c.Kind != Add && c.ID == "":
		return refuse("%s without the id of a memory", string(c.Kind))
	case len(c.ID) > MaxNameBytes || !utf8.ValidString(c.ID) || strings.ContainsFunc(c.ID, unicode.IsControl):
		return refuse("the id of a memory is not UTF-8 without control characters of at most %d bytes", MaxNameBytes)
	case strings.TrimSpace(c.Text) == "" && (c.Kind == Add || c.Kind == Update && c.Text != ""):
		return refuse("a memory without text")
	case len(c.Text) > MaxTextBytes || !utf8.ValidString(c.Text):
		return refuse("a memory of %d bytes, or not UTF-8; the limit is %d", len(c.Text), MaxTextBytes).
			WithHint("say it shorter, or keep it as an artifact")
	}
	raw, err := json.Marshal(c.Metadata)
	if err != nil || len(raw) > MaxMetadataBytes {
		return refuse("the metadata of a memory is not JSON of at most %d bytes", MaxMetadataBytes)
	}
	return nil
}

// Event is an entry of a memory's history.
type Event struct {
	Kind   ChangeKind `json:"kind"`
	Before string     `json:"before,omitempty"` // the text
	After  string     `json:"after,omitempty"`
	Time   time.Time  `json:"time"`
}

// Hit is a memory that a search has found.
type Hit struct {
	*Memory
	Score float64 `json:"score"` // BM25, or of the fused ranks; comparable within one search
}
